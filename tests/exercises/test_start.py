"""`specdec start`: a learner's copy in a git-ignored place, never overwritten."""

from pathlib import Path
import subprocess

import pytest

from specdec_labs.cli.start import start
from specdec_labs.exercises import all_exercises, find_clone, find_exercise, parse_set_id, work_root


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path) -> Path:
    """A small clone around the current folder, with the real exercise in it."""
    (tmp_path / "specdec_core").mkdir()
    (tmp_path / "exercises").mkdir()
    (tmp_path / "exercises" / "E01_residual").symlink_to(root / "exercises" / "E01_residual")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path


@pytest.mark.parametrize("name", ["E01", "e01", "E01_residual", " E01 "])
def test_copies_the_starter_below_the_clone(clone: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = start(name)
    assert path == clone / "work" / "E01_residual" / "residual.py"
    assert path.read_text(encoding="utf-8") == find_exercise("E01").starter.read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    assert "Wrote" in printed and "specdec check" in printed and "E01.residual" in printed


def test_an_existing_file_is_never_overwritten(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = start("E01")
    path.write_text("mine = 1\n", encoding="utf-8")
    assert start("E01") == path
    assert path.read_text(encoding="utf-8") == "mine = 1\n"
    printed = capsys.readouterr().out
    assert "was left as it is" in printed and "--fresh" in printed
    assert start("E01", fresh=True).name == "residual_2.py"
    assert start("E01", fresh=True).name == "residual_3.py"
    assert path.read_text(encoding="utf-8") == "mine = 1\n"


def test_directory_replaces_the_work_folder(clone: Path) -> None:
    path = start("E01", directory=clone / "here")
    assert path == clone / "here" / "residual.py" and path.is_file()
    (clone / "file").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="which is a file"):
        start("E01", directory=clone / "file")


@pytest.mark.parametrize("name", ["E99", "residual", "", "E01_resid", "../E01"])
def test_unknown_exercise_lists_the_known_ones(clone: Path, name: str) -> None:
    with pytest.raises(ValueError, match="the exercises here are: E01_residual"):
        start(name)
    assert not (clone / "work").exists()


def test_outside_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specdec_labs.exercises.__file__", str(tmp_path / "site" / "exercises.py"))
    assert find_clone() is None and work_root() == tmp_path / "work"
    with pytest.raises(FileNotFoundError, match="run this inside a clone"):
        start("E01")


def test_the_clone_of_an_editable_install_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_clone() == root


def test_git_ignores_the_learners_copies(root: Path) -> None:
    command = ["git", "check-ignore", "-q", "work/E01_residual/residual.py"]
    assert subprocess.run(command, cwd=root, check=False).returncode == 0


def test_every_exercise_folder_is_complete(root: Path) -> None:
    exercises = all_exercises()
    assert set(exercises) == {path.name[:3] for path in (root / "exercises").glob("E*_*")}
    for exercise in exercises.values():
        for path in (exercise.readme, exercise.starter, exercise.solution, exercise.hints):
            assert path.is_file(), path
        assert exercise.folder.name in (root / "exercises" / "README.md").read_text(encoding="utf-8")


def test_parse_set_id_refuses_other_types() -> None:
    with pytest.raises(ValueError, match="expected a form like E01"):
        parse_set_id(1)  # type: ignore[arg-type]
