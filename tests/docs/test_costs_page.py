"""docs/costs.md and docs/seed_audit.md hold what the presets, the result files and the audit give."""

import json
from pathlib import Path

import pytest

from specdec_core.cost_curve import CostCurve
from specdec_core.hardware_presets import hardware_names
from specdec_labs.bench.page import KINDS, curve_block, hardware_table, rewritten, speedup_block, with_blocks
from specdec_labs.seeds.audit import audit_rows, audit_table, h100_table

DOCS = Path(__file__).resolve().parents[2] / "docs"
RESULTS = DOCS / "results"


def test_the_page_is_what_the_presets_and_result_files_give():
    page = (DOCS / "costs.md").read_text(encoding="utf-8")
    assert rewritten(page, RESULTS) == page, "run `python -m specdec_labs.bench.page`"
    for name in hardware_names():
        assert f"| `{name}` |" in page


@pytest.mark.parametrize("kind", KINDS)
def test_every_result_file_is_on_the_page(kind):
    page = (DOCS / "costs.md").read_text(encoding="utf-8")
    files = sorted(path.stem for path in RESULTS.glob(f"{kind}-*.json"))
    assert [name for name in files if f"<!-- {name} -->" not in page] == []


def test_a_block_without_its_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="block 'speedup-none'"):
        rewritten("<!-- speedup-none -->\nold\n<!-- end -->", tmp_path)
    with pytest.raises(ValueError, match="block 'other'"):
        rewritten("<!-- other -->\n<!-- end -->", tmp_path)


def test_a_new_file_gets_a_block(tmp_path):
    facts = {"threads": 2, "processor": "P", "cores": 2, "torch": "2", "date": "d", "dtype": "float32", "repeats": 3}
    median = ((0.012, 0.018), (0.013, 0.02))
    measured = CostCurve(
        "toy: target", "measured", (1, 5), (8, 16), median, ((0.01, 0.012), (0.011, 0.013)), 0.0, facts
    )
    curve = measured.to_dict()
    data = {"pair": "toy", "curves": [curve], "drafting": []}
    (tmp_path / "curve-toy.json").write_text(json.dumps(data), encoding="utf-8")
    (tmp_path / "audit-other.json").write_text("{}", encoding="utf-8")
    page = rewritten(with_blocks("# Page\n", tmp_path), tmp_path)
    assert page.count("<!-- curve-toy -->") == 1 and curve_block(data) in page
    assert "| 5 | 12.0 / 18.0 | 13.0 / 20.0 | 1.50 |" in page
    assert rewritten(with_blocks(page, tmp_path), tmp_path) == page


def test_blocks_are_replaced_and_nothing_else():
    page = "before\n<!-- hardware -->\nold\nlines\n<!-- end -->\nafter"
    assert rewritten(page, RESULTS) == f"before\n<!-- hardware -->\n{hardware_table()}\n<!-- end -->\nafter"


def test_a_slow_down_is_called_slower(tmp_path):
    row = {
        "drafter": "ngram",
        "gamma": 4,
        "task": "chat",
        "temperature": 0.0,
        "prompts": 3,
        "speedup": 0.8,
        "low": None,
        "high": None,
        "tokens_per_round": 1.1,
        "predicted": [0.79, 0.82],
        "formula": 1.1,
    }
    needed = {
        "drafter": "ngram",
        "gamma": 4,
        "needed": 1.4,
        "draft": 0.0,
        "verify": 1.3,
        "host": 0.1,
        "lowest": 1.1,
        "highest": 1.1,
    }
    facts = {"threads": 1, "processor": "P", "cores": 2, "torch": "2", "date": "d"}
    data = {
        "pair": "toy",
        "settings": {"dtype": "float32", "tokens": 8},
        "curve": a_curve(0.013, facts),
        "errors": {"median": 0.02, "p90": 0.03, "points": 2, "cost_median": 0.0, "cost_p90": 0.0},
        "rows": [row],
        "break_even": [needed],
    }
    text = speedup_block(json.loads(json.dumps(data)))
    assert "0.80x slower" in text and "0.79x 0.82x" in text and "| **1.40** |" in text
    # the same numbers beside a curve on which five rows take less time than one
    refused = speedup_block({**data, "curve": a_curve(0.004, facts), "errors": None})
    assert "0.80x" not in refused and "0.79x" not in refused and "1.40" not in refused
    assert refused.count("refused") >= 4


def a_curve(five_rows: float, facts: dict[str, object]) -> dict[str, object]:
    grid = ((0.010, five_rows),)
    return CostCurve("toy", "measured", (1, 5), (8,), grid, grid, 0.0, facts).to_dict()


def test_the_seed_audit_page_is_the_audit():
    page = (DOCS / "seed_audit.md").read_text(encoding="utf-8")
    for table in (audit_table(audit_rows()), h100_table(1), h100_table(8)):
        assert table in page
