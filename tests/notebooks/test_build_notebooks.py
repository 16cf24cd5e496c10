"""The committed notebooks are what their sources give, byte for byte."""

import json
from pathlib import Path
import shutil

import nbformat
import pytest

from specdec_core import __version__
from specdec_labs.build_notebooks import build, main

SOURCE = f"""# %% [markdown]
# # A page

# %%
MADE_FOR = "{__version__}"

# %%
print(1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "07_a_page.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def test_committed_notebooks_are_up_to_date(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", "--folder", str(root / "notebooks")]) == 0, capsys.readouterr().err


def test_a_build_has_fixed_ids_no_outputs_and_its_version(folder: Path) -> None:
    text = build(folder / "src" / "07_a_page.py")
    assert text == build(folder / "src" / "07_a_page.py")
    notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    assert [cell.id for cell in notebook.cells] == ["07-a-page-00", "07-a-page-01", "07-a-page-02"]
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in notebook.cells[1:])
    hidden = [bool(cell.metadata.get("jupyter", {}).get("source_hidden")) for cell in notebook.cells]
    assert hidden == [False, True, False], "the check of the version is folded, and nothing else"
    assert notebook.metadata.specdec == {"version": __version__, "source": "src/07_a_page.py"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert "jupytext" not in notebook.metadata and "widgets" not in notebook.metadata


def test_check_notices_an_edit_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--folder", str(folder)]
    assert main([*arguments, "--check"]) == 1
    assert list(folder.glob("*.ipynb")) == []
    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0
    path = folder / "07_a_page.ipynb"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["cells"][2]["source"] = ["print(2)"]
    edited = json.dumps(content, indent=1)
    path.write_text(edited, encoding="utf-8")
    capsys.readouterr()
    assert main([*arguments, "--check"]) == 1
    assert "07_a_page.ipynb is not what src/07_a_page.py gives" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == edited
    assert main(arguments) == 0 and main([*arguments, "--check"]) == 0


def test_a_notebook_without_a_source_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(folder)]) == 0
    shutil.copy(folder / "07_a_page.ipynb", folder / "08_lost.ipynb")
    assert main(["--check", "--folder", str(folder)]) == 1
    assert "08_lost.ipynb has no source" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (SOURCE.replace(__version__, "0.0.1"), "MADE_FOR = '0.0.1'"),
        ("# %%\nprint(1)\n", "no MADE_FOR line"),
    ],
)
def test_a_source_for_another_version_is_refused(folder: Path, source: str, message: str) -> None:
    path = folder / "src" / "07_a_page.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        build(path)


def test_a_folder_without_sources_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--folder", str(tmp_path)])
    assert exit_.value.code == 2
    assert "has no .py file" in capsys.readouterr().err
