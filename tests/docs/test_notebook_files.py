"""Committed notebooks hold no outputs, no widget state, and what JupyterLab needs to open them without a dialog."""

from pathlib import Path

import nbformat
import pytest

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
