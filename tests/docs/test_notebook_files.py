"""Committed notebooks hold no outputs, no widget state, and what JupyterLab needs to open them without a dialog."""

from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from pathlib import Path
import re

import nbformat
import pytest

from specdec_core.hardware_presets import hardware
from specdec_core.speed_formulas import best_gamma, expected_accepted, expected_tokens, speedup
from specdec_labs.museum.catalogue import MUSEUM

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_clean(path: Path, root: Path) -> None:
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert [cell.id for cell in code if cell.outputs or cell.execution_count is not None] == []
    assert "widgets" not in notebook.metadata
    assert notebook.metadata.kernelspec.name == "python3"
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert (root / "notebooks" / "src" / f"{path.stem}.py").is_file()


def test_every_source_is_built(root: Path) -> None:
    built = {path.stem for path in NOTEBOOKS}
    assert "00_start_here" in built
    assert {path.stem for path in (root / "notebooks" / "src").glob("*.py")} == built


ENTRY = re.compile(r"(?:(?P<page>\d\d) (?P<part>section \d|pitfalls)|(?P<file>docs/\S+)) \((?P<mark>`\w+`|\".+\")\)")
TO_COME = re.compile(r"\(\d\d\)(, \(\d\d\))*")


def part_of(page: str, part: str, root: Path) -> str:
    """The source of one part of a notebook, its line breaks as spaces; nothing where there is no such part."""
    (source,) = (root / "notebooks" / "src").glob(f"{page}_*.py")
    heading = "Pitfalls" if part == "pitfalls" else f"{part.removeprefix('section ')}. "
    parts = re.split(r"^# ## ", source.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return " ".join(re.sub(r"\s*\n(?:# ?)?", " ", text) for text in parts if text.startswith(heading))


def imported(name: str, source: str) -> object:
    """What the source imports under this name; None where it does not."""
    line = re.search(rf"from (\S+) import [^\n]*\b{name}\b", source)
    return None if line is None else getattr(import_module(line[1]), name)


def untrue(entry: str, root: Path) -> str | None:
    """Why an entry of the map is not true; None where it is."""
    built = {path.name[:2] for path in NOTEBOOKS}
    if TO_COME.fullmatch(entry):
        return "is there already" if built & set(re.findall(r"\d\d", entry)) else None
    if re.fullmatch(r"E\d\d\.\w+", entry):
        there = any(f'task="{entry}"' in path.read_text("utf-8") for path in (root / "notebooks" / "src").glob("*.py"))
        return None if there else "no notebook has this task"
    found = ENTRY.fullmatch(entry)
    if found is None:
        return 'not of the form: 04 section 2 ("phrase" or `name`)'
    mark = found["mark"].strip('`"')
    if found["file"]:
        page = root / found["file"]
        return None if page.is_file() and mark in page.read_text("utf-8") else "is not on that page"
    if found["page"] not in built:
        return "there is no such notebook"
    if mark not in part_of(found["page"], found["part"], root):
        return "is not in that part"
    (source,) = (root / "notebooks" / "src").glob(f"{found['page']}_*.py")
    if found["mark"].startswith("`") and imported(mark, source.read_text("utf-8")) is None:
        return "is not imported there"
    return None


def test_the_map_names_only_what_is_there(root: Path) -> None:
    text = (root / "notebooks" / "README.md").read_text(encoding="utf-8").split("## Where the seed documents")[1]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    entries = [(point, entry) for point, where in rows if where != "where" for entry in where.split("; ")]
    assert len(entries) > 40
    wrong = {f"{point}: {entry}": why for point, entry in entries if (why := untrue(entry, root)) is not None}
    assert wrong == {}


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("04 section 2 (`AcceptanceEMA`)", "is not in that part"),
        ("04 section 9 (`summarize`)", "is not in that part"),
        ("05 section 6 (`result`)", "is not imported there"),
        ("07 section 1 (`Medusa`)", "there is no such notebook"),
        ('docs/nothing.md ("x")', "is not on that page"),
        ("E99.nothing", "no notebook has this task"),
        ("(04)", "is there already"),
        ("04 and the explorer", "not of the form"),
    ],
)
def test_the_check_finds_what_the_map_gets_wrong(entry: str, why: str, root: Path) -> None:
    assert why in (untrue(entry, root) or "")


H100 = hardware("h100-sxm")
CLAIMS: list[tuple[str, str, Callable[[], object]]] = [
    ("01", r"\approx 295$ tokens", lambda: round(H100.peak("float16") * 2 / (2 * H100.bytes_per_s)) == 295),
    ("03", "all 21 pieces", lambda: len(MUSEUM) == 21),
    ("04", "3.689 / 1.25 = 2.951", lambda: (f"{expected_tokens(0.8, 5):.3f}", 5 * 0.05 + 1) == ("3.689", 1.25)),
    ("04", "3.689 / 1.25 = 2.951", lambda: f"{speedup(0.8, 5, 0.05):.3f}" == "2.951"),
    ("04", "the best window is 2 and the speed-up 1.40", lambda: best_gamma(0.6, 0.2) == 2),
    ("04", "the speed-up 1.40, against 1.92 at", lambda: f"{speedup(0.6, 2, 0.2):.2f}" == "1.40"),
    ("04", "against 1.92 at $c = 0.05$", lambda: f"{speedup(0.6, best_gamma(0.6, 0.05), 0.05):.2f}" == "1.92"),
    ("04", "With 8 drafts a round nothing is left", lambda: speedup(0.6, 8, 0.2) < 1),
    ("05", "reports about 0.12", lambda: f"{expected_accepted(0.5, 8) / 8:.2f}" == "0.12"),
    ("06", r"1/2 + 1/2 \cdot 2/3 = 5/6", lambda: Fraction(1, 2) + Fraction(1, 2) * Fraction(2, 3) == Fraction(5, 6)),
    ("12", "16,384 rows of 131,072 logits", lambda: 16_384 * 131_072 == 2**31),
]


def prose(page: str, root: Path) -> str:
    """The text cells of a notebook, in one line."""
    (path,) = (root / "notebooks").glob(f"{page}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    return " ".join(" ".join(cell.source.split()) for cell in cells if cell.cell_type == "markdown")


@pytest.mark.parametrize(("page", "claim", "holds"), CLAIMS)
def test_a_number_in_the_text_is_right(page: str, claim: str, holds: Callable[[], object], root: Path) -> None:
    assert claim in prose(page, root)
    assert holds()


def unsourced(text: str) -> list[str]:
    """Sentences that give a measured number and no file it stands in."""
    sentences = re.split(r"(?<=[.:;?!)])\s+(?=[A-Z*#`])", text)
    claims = [one for one in sentences if re.search(r"\bmeasured\b|\btimes plain\b|\btokens a second\b", one)]
    return [one for one in claims if re.search(r"\d\.\d|\d %", one) and not re.search(r"docs/\w+", one)]


QUOTED = "23.8 tokens a second"
"""Of the table that 01 and 04 take apart; both say whose figure it is."""


def test_a_measured_number_names_its_file(root: Path) -> None:
    found = {path.stem: unsourced(prose(path.name[:2], root)) for path in NOTEBOOKS}
    assert {page: [one for one in texts if QUOTED not in one.replace("*", "")] for page, texts in found.items()} == {
        path.stem: [] for path in NOTEBOOKS
    }
    assert unsourced("It was measured: 1.52 here. Measured 2.0.") == ["It was measured: 1.52 here."]
    assert unsourced("Alpha 0.3 was measured (`docs/results/x.json`). We measured alpha twice.") == []
