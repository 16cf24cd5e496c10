"""docs/drafters.md shows the certificates that were made, and names every drafter and where it proposes from."""

import json
from pathlib import Path

from specdec_core import drafters
from specdec_labs.shipped.combinations import combinations
from specdec_labs.shipped.greedy import CASES
from specdec_labs.shipped.page import MARK, shipped_tables

RESULTS = Path("docs/results/shipped-certificates.json")


def test_the_tables_are_those_of_the_results(root: Path) -> None:
    page = (root / "docs/drafters.md").read_text(encoding="utf-8")
    data = json.loads((root / RESULTS).read_text(encoding="utf-8"))
    assert page.partition(MARK)[2].strip() == shipped_tables(data).strip()


def test_all_that_ships_was_certified_and_nothing_failed(root: Path) -> None:
    data = json.loads((root / RESULTS).read_text(encoding="utf-8"))
    assert set(data["certificates"]) == {combination.name for combination in combinations()}
    assert set(data["greedy"]) == set(CASES)
    assert [name for name, entry in data["certificates"].items() if entry["verdict"] != "passed"] == []
    assert [name for name, entry in data["greedy"].items() if entry["wrong"]] == []


def test_every_drafter_is_in_the_table(root: Path) -> None:
    page = (root / "docs/drafters.md").read_text(encoding="utf-8")
    classes = [name for name in drafters.__all__ if name.endswith("Drafter") and name != "Drafter"]
    assert [name for name in classes if f"| `{name}` |" not in page] == []
