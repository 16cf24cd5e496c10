"""Every task: starter red, reference green, and a zoo of wrong answers, each caught by the property meant for it."""

from collections.abc import Mapping
import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest

from specdec_labs.course.starters import starters
from specdec_labs.exercises import Exercise, all_exercises, find_exercise
from specdec_labs.grade.access import Here
from specdec_labs.grade.checking import reference
from specdec_labs.grade.engine import run_task
from specdec_labs.grade.hints import LEVELS, read_hints
from specdec_labs.grade.loading import load_module
from specdec_labs.grade.task import Task
from specdec_labs.grade.tasks import TASKS
from specdec_labs.grade.zoo import WrongAnswer, wrong_answers

SEEDS = (3, 4)
ZOO = [(task, entry) for task in TASKS.values() for entry in wrong_answers(task)]
by_id = pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.id)
by_mistake = pytest.mark.parametrize(("task", "entry"), ZOO, ids=[f"{task.id}-{entry.name}" for task, entry in ZOO])


def references(task: Task) -> dict[str, Any]:
    """The reference's names of a task."""
    return {ask.name: reference(task, ask.name) for ask in task.asks}


def look(task: Task, names: Mapping[str, Any], seed: int | None = None) -> Any:
    """The report on these names."""
    return run_task(task, Here(names), wrong_answers(task), hidden_seed=seed)


@by_id
def test_starter_is_red(task: Task) -> None:
    starter = vars(load_module(str(find_exercise(task.set_id).starter)))
    report = look(task, starter, 3)
    assert {result.status for result in report.results} == {"not started"}, str(report)
    assert not report.ok and report.score == 0 and not report.diagnoses and not report.started


@by_id
def test_reference_is_green(task: Task) -> None:
    for seed in SEEDS:
        report = look(task, references(task), seed)
        assert report.ok and not report.diagnoses, str(report)
        assert report.points == task.points and report.hidden_not_run == 0
        hidden = {entry.name for entry in task.properties if task.ask(entry.about).hidden}
        # fresh cases exercise every property that fixed ones do
        assert {result.name for result in report.results if result.part == "hidden"} == hidden


@by_mistake
def test_wrong_answer_is_caught_and_named(task: Task, entry: WrongAnswer) -> None:
    report = look(task, references(task) | {entry.replaces: entry.answer})
    caught = report.result(entry.caught_by)
    assert caught.status in ("failed", "error") and caught.detail, str(report)
    assert [text.split(":")[0] for text in report.diagnoses] == [entry.name]
    assert all(result.status == "passed" for result in report.results if result.about != entry.replaces), str(report)


@by_mistake
def test_wrong_answer_is_caught_by_fresh_cases_too(task: Task, entry: WrongAnswer) -> None:
    if task.ask(entry.replaces).hidden is None:
        assert task.ask(entry.replaces).kind == "value"
        return
    report = look(task, references(task) | {entry.replaces: entry.answer}, 5)
    assert report.result(entry.caught_by, "hidden").status in ("failed", "error"), str(report)


def missing_parts(task: Task) -> list[str]:
    """What a task still lacks: wrong answers, hints, its section in README, starter and solution."""
    exercise, zoo = find_exercise(task.set_id), wrong_answers(task)
    hints = read_hints(exercise).get(task.name, {})
    statement = exercise.readme.read_text(encoding="utf-8")
    uncaught = {entry.name for entry in task.properties} - {entry.caught_by for entry in zoo}
    found = {
        f"{len(zoo)} wrong answers of five": len(zoo) < 5,
        f"a wrong answer for {sorted(uncaught)}": bool(uncaught),
        "three different hints": tuple(hints) != LEVELS or len(set(hints.values())) != 3,
        "hints that say something": any(len(text) < 60 or "def " in text for text in hints.values()),
        "a statement": f"\n## {task.id}: " not in statement or any(ask.name not in statement for ask in task.asks),
    }
    found |= {f"a section in {path.name}": task.id not in exercise.sections(path) for path in sources(exercise)}
    return [part for part, is_missing in found.items() if is_missing]


def sources(exercise: Exercise) -> tuple[Path, Path]:
    """The two files with a section for each task."""
    return exercise.starter, exercise.solution


@by_id
def test_every_task_is_complete(task: Task) -> None:
    assert missing_parts(task) == []
    assert set(task.recognisers) <= {entry.name for entry in wrong_answers(task)}
    exercise = find_exercise(task.set_id)
    for path in sources(exercise):
        in_set = {other.id for other in TASKS.values() if other.set_id == task.set_id}
        assert set(exercise.sections(path)) - {""} == in_set


def test_a_task_without_hints_wrong_answers_or_statement_is_found_out() -> None:
    whole = TASKS["E07.positions"]
    bare = Task(id="E07.bare", title="x", minutes=5, difficulty=1, asks=whole.asks, properties=whole.properties)
    missing = " ".join(missing_parts(bare))
    for part in ("0 of five", "depth_decides", "three different hints", "a statement", "starter.py", "solution.py"):
        assert part in missing.replace("0 wrong answers of five", "0 of five"), part


@by_id
def test_every_text_is_there(task: Task) -> None:
    assert 1 <= task.difficulty <= 5 and 5 <= task.minutes <= 60
    for entry in task.properties:
        assert len(entry.what) > 8 and len(entry.why) > 8 and len(entry.pointer) > 2, entry.name
    for wrong in wrong_answers(task):
        assert len(wrong.says) > 30, wrong.name


@by_id
def test_functions_say_what_they_return(task: Task) -> None:
    for name, function in references(task).items():
        if task.ask(name).kind == "function":
            assert inspect.getdoc(function), f"{task.id}: {name} has no docstring"


def test_names_are_asked_for_once() -> None:
    names = [ask.name for task in TASKS.values() for ask in task.asks]
    assert len(set(names)) == len(names)


def test_starters_are_made_from_the_solutions() -> None:
    stale = [path for path, (old, new) in starters().items() if old != new]
    assert stale == [], "run python -m specdec_labs.course.starters"


def test_every_set_has_tasks_and_nothing_lies_about() -> None:
    for set_id, exercise in all_exercises().items():
        tasks = {task.name for task in TASKS.values() if task.set_id == set_id}
        zoos = {path.stem.removeprefix("wrong_") for path in exercise.folder.glob("wrong_*.py")}
        assert tasks and tasks == zoos
    assert {task.set_id for task in TASKS.values()} == set(all_exercises())


def test_the_readme_lists_every_task(root: Path) -> None:
    text = (root / "exercises" / "README.md").read_text(encoding="utf-8")
    for task in TASKS.values():
        (row,) = (line for line in text.splitlines() if line.startswith(f"| `{task.id}`"))
        assert all(f"`{ask.name}" in row for ask in task.asks), row
        assert f"| {task.minutes} | {task.difficulty} of 5 |" in row and ("museum" in row) == task.museum


def test_examples_in_the_solutions_hold() -> None:
    for exercise in all_exercises().values():
        result = doctest.testmod(load_module(str(exercise.solution)))
        assert result.failed == 0
