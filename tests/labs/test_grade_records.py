"""`progress()`: the best result of each task, noted beside the learner's copies."""

import json
from pathlib import Path

import pytest

from specdec_labs.cli.start import print_hint
from specdec_labs.grade import check, hint, progress, solution
from specdec_labs.grade.checking import reference
from specdec_labs.grade.tasks import TASKS

TASK = TASKS["E07.positions"]
RIGHT = {"tree_positions": reference(TASK, "tree_positions")}
WRONG = {"tree_positions": lambda parents, offset: [offset, *(offset + 1 for _ in parents)]}


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path) -> Path:
    """A small clone around the current folder, with the real exercises in it."""
    (tmp_path / "specdec_core").mkdir()
    (tmp_path / "exercises").symlink_to(root / "exercises")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPECDEC_FAST", raising=False)
    return tmp_path


def entry(task_id: str = TASK.id):
    """The progress in one task."""
    return next(entry for entry in progress().tasks if entry.task.id == task_id)


def test_the_best_result_is_kept(clone: Path) -> None:
    assert progress().solved == 0 and len(progress().tasks) == len(TASKS) and not (clone / "work").exists()
    check(TASK.id, WRONG)
    assert (entry().passed, entry().solved) == (2, False)
    check(TASK.id, RIGHT)
    first = entry().solved_at
    check("E07", WRONG)
    assert (entry().passed, entry().solved, entry().solved_at) == (3, True, first)
    assert progress().solved == 1 and "1 of 24 tasks solved" in str(progress())
    assert "&#10003; solved" in progress()._repr_html_()
    noted = json.loads((clone / "work" / "progress.json").read_text(encoding="utf-8"))
    assert noted["schema"] == "specdec.progress" and set(noted["tasks"]) == {TASK.id}


def test_what_was_revealed_is_shown(clone: Path) -> None:
    hint(TASK.id, 1)
    solution(TASK.id)
    assert (entry().hints, entry().solution_seen) == (1, True)
    assert entry("E07.mask").hints == 0
    assert "solution seen" in str(progress())


def test_nothing_is_noted_of_nothing_of_parts_and_in_automatic_runs(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(TASK.id, {})
    monkeypatch.setenv("SPECDEC_FAST", "1")
    check(TASK.id, RIGHT)
    assert not (clone / "work").exists()


def test_another_folder_can_be_named(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDEC_WORK", str(tmp_path / "elsewhere"))
    check(TASK.id, RIGHT)
    assert entry().solved and (tmp_path / "elsewhere" / "progress.json").is_file() and not (clone / "work").exists()
    monkeypatch.delenv("SPECDEC_WORK")
    assert not entry().solved


def test_a_broken_file_is_kept_and_a_new_one_begun(clone: Path) -> None:
    (clone / "work").mkdir()
    path = clone / "work" / "progress.json"
    path.write_text("{broken", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"kept as progress\.unreadable"):
        check(TASK.id, RIGHT)
    assert path.with_suffix(".unreadable").read_text(encoding="utf-8") == "{broken" and entry().solved


def test_a_place_that_cannot_be_written_costs_no_report(clone: Path) -> None:
    (clone / "work").write_text("a file where the folder should be", encoding="utf-8")
    with pytest.warns(UserWarning, match="progress was not noted"):
        assert check(TASK.id, RIGHT).ok


def test_hints_in_a_terminal_go_step_by_step(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_hint("E07.positions", 1, False)
    assert "--level 2" in capsys.readouterr().out
    print_hint("E07.positions", 3, False)
    assert "--solution" in capsys.readouterr().out
    print_hint("E07.positions", 1, True)
    printed = capsys.readouterr().out
    assert "def tree_positions" in printed and "def tree_mask" not in printed
    with pytest.raises(ValueError, match="name one: E07.paths"):
        print_hint("E07", 1, False)
