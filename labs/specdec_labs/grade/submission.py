"""Grades a submission: the learner's code in a process of its own, the checks outside it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
import shutil
import tempfile
from typing import Any

from specdec_labs.exercises import parse_set_id
from specdec_labs.grade.access import LearnerError, LearnerStopped, Presence, Reply
from specdec_labs.grade.engine import run_task, unreachable
from specdec_labs.grade.orphans import Orphans, adopted_orphans
from specdec_labs.grade.report import Report
from specdec_labs.grade.reports import Reports
from specdec_labs.grade.session import Child, Limits
from specdec_labs.grade.statements import Cell, Statement, needed, read_cells, statements_of
from specdec_labs.grade.tampering import changed_since, fingerprints
from specdec_labs.grade.task import Task
from specdec_labs.grade.tasks import TASKS, tasks_of
from specdec_labs.grade.zoo import WrongAnswer, wrong_answers

MAX_LEFT_OUT = 4
NEIGHBOUR_BYTES = 2**20
DEFAULT_LIMITS = Limits()

Hidden = Mapping[str, Mapping[str, Sequence[Any]]]
"""An instructor's cases: task id -> asked name -> cases."""


def grade_submission(
    path: str | Path,
    exercise: str | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    hidden_seed: int | None = None,
    hidden: Hidden | None = None,
) -> Reports:
    """The reports on a .py file or a notebook; whatever goes wrong in one task, the others are graded.

    Args:
        path: the submission. Only what the asked names need is run, in a process of its own.
        exercise: a task or a set; None takes every set of which a name is defined, or that the folder is named after.
        limits: what the learner's code may take.
        hidden_seed: also judge the properties on fresh random cases from this seed.
        hidden: also judge them on these cases.

    Raises:
        ValueError: no such file, one that cannot be read, an unknown task, or nothing to grade in it.
    """
    path = Path(path)
    cells = read_cells(path)
    statements = statements_of(cells)
    tasks = tasks_of(exercise) if exercise is not None else _tasks_in(path, cells, statements)
    # before the learner's code runs, which could rewrite them: loading is running, here with the checker's rights
    zoos = {task.id: _zoo(task) for task in tasks}
    before = fingerprints()
    alarms = []
    with (
        tempfile.TemporaryDirectory(prefix="specdec-grade-", ignore_cleanup_errors=True) as folder,
        adopted_orphans() as orphans,
    ):
        _copy_neighbours(path, Path(folder))
        names = Submitted(cells, statements, tasks, Path(folder), limits, orphans)
        try:
            reports = [
                _report(task, names, statements, zoos[task.id], hidden_seed, (hidden or {}).get(task.id))
                for task in tasks
            ]
        finally:
            names.close()
            if not orphans.end():
                alarms.append("processes that the submission started could not be ended; they may change any result")
    alarms += _changed(before)
    return Reports(tuple(reports), tuple(names.notes()), alarms=tuple(alarms))


def _changed(before: Mapping[Path, str]) -> list[str]:
    changed = changed_since(before)
    if not changed:
        return []
    return [
        f"files of the lab changed while the submission ran: {', '.join(changed)}. This run had read them before, "
        "later runs would not have: restore them (git status, git restore) before you grade on"
    ]


def _zoo(task: Task) -> tuple[WrongAnswer, ...]:
    try:
        return wrong_answers(task)
    except Exception as error:
        raise ValueError(
            f"the lab's own wrong answers of {task.id} cannot be loaded ({type(error).__name__}: {error}); restore "
            "exercises/ (git status, git restore)"
        ) from error


def _report(
    task: Task,
    names: "Submitted",
    statements: Sequence[Statement],
    zoo: Sequence[WrongAnswer],
    seed: int | None,
    extra: Mapping[str, Any] | None,
) -> Report:
    try:
        report = run_task(task, names, zoo, hidden_seed=seed, extra=extra)
    except LearnerStopped as error:
        report = unreachable(task, str(error))
    except Exception as error:  # an answer that the check itself stumbles over must not cost the other tasks
        report = unreachable(task, f"this answer could not be judged ({type(error).__name__}: {error})")
    return replace(report, notes=(*report.notes, *_defined_twice(task, statements)))


class Submitted:
    """The names of a submission in a grading process; a process that was stopped is replaced for the next name."""

    def __init__(
        self,
        cells: Sequence[Cell],
        statements: Sequence[Statement],
        tasks: Sequence[Task],
        folder: Path,
        limits: Limits,
        orphans: Orphans,
    ) -> None:
        self._orphans = orphans
        self._cells, self._folder, self._limits = cells, folder, limits
        self._statements = needed(statements, [ask.name for task in tasks for ask in task.asks])
        self._failed: dict[Statement, str] = {}
        self._left_out: set[Statement] = set()
        self._late: set[Statement] = set()
        self._child: Child | None = None
        self._healthy = False
        self._printed = ""

    def begin(self) -> None:
        """A fresh time limit, and a fresh process when the last one is gone. LearnerStopped when none can be had."""
        while not self._healthy:
            self.close()
            if len(self._left_out) > MAX_LEFT_OUT:
                raise LearnerStopped("the file could not be loaded: too many of its statements never end")
            self._child = Child(self._folder, self._limits, self._orphans)
            self._healthy = self._load(self._child)
        assert self._child is not None
        self._child.fresh_budget()

    def close(self) -> None:
        """Ends the process."""
        if self._child is not None:
            self._printed = self._child.printed() or self._printed
            self._child.close()
        self._child, self._healthy = None, False

    def presence(self, name: str) -> Presence:
        """As `Names`; missing when the process is gone."""
        return self._look(name)[0]

    def kind_of(self, name: str) -> str:
        """As `Names`."""
        return self._look(name)[1]

    def remark(self, name: str) -> str:
        """What went wrong where the name should have been bound."""
        for statement, reason in self._failed.items():
            if name in statement.binds:
                return f"{statement.where}: {reason}"
        for cell in self._cells:
            if cell.problem and name in cell.seems_to_bind:
                return f"{cell.name} cannot be read: {cell.problem}"
        return ""

    def value(self, name: str) -> Any:
        """As `Names`."""
        return self._guarded(lambda child: child.value(name))

    def call(self, name: str, args: Sequence[Any], grid: tuple[int, ...] | None = None) -> Reply:
        """As `Names`."""
        return self._guarded(lambda child: child.call(name, args, grid))

    def notes(self) -> list[str]:
        """Remarks about the submission as a whole."""
        notes = [f"{cell.name} cannot be read: {cell.problem}" for cell in self._cells if cell.problem]
        notes += [f"{statement.where}: {reason}" for statement, reason in self._failed.items()]
        notes += [
            f"{statement.where} uses what only a later cell defines; it was run again after that"
            for statement in self._late
            if statement not in self._failed
        ]
        if self._printed:
            notes.append("your file printed (last lines): " + " | ".join(self._printed.splitlines()[-5:]))
        return notes

    def _look(self, name: str) -> tuple[Presence, str]:
        return self._guarded(lambda child: child.presence(name))

    def _guarded(self, look: Any) -> Any:
        if self._child is None or not self._healthy:
            raise LearnerStopped("its process is gone")
        try:
            return look(self._child)
        except LearnerStopped:
            self._healthy = False
            raise

    def _load(self, child: Child) -> bool:
        """Runs the needed statements; False when one had to be stopped, which is left out from then on."""
        for cell in self._cells:
            if not cell.problem:
                child.add_source(cell.name, cell.text)
        waiting = [statement for statement in self._statements if statement not in self._left_out]
        while waiting:
            again: list[Statement] = []
            for statement in waiting:
                try:
                    child.run(statement.cell, statement.index)
                    self._failed.pop(statement, None)
                except LearnerError as error:
                    self._failed[statement] = error.failure.text
                    if error.failure.kind == "NameError":
                        again.append(statement)
                except LearnerStopped as error:
                    self._failed[statement] = str(error)
                    self._left_out.add(statement)
                    return False
            if len(again) == len(waiting):
                break
            self._late.update(again)
            waiting = again
        return True


def _tasks_in(path: Path, cells: Sequence[Cell], statements: Sequence[Statement]) -> list[Task]:
    bound = {name for statement in statements for name in statement.binds}
    bound |= {name for cell in cells if cell.problem for name in cell.seems_to_bind}
    sets = {task.set_id for task in TASKS.values() if any(ask.name in bound for ask in task.asks)}
    with suppress(ValueError):
        sets.add(parse_set_id(path.resolve().parent.name))
    found = [task for task in TASKS.values() if task.set_id in sets]
    if not found:
        raise ValueError(
            f"submission {path.name} defines nothing that a task asks for; name a task or a set, for example E03"
        )
    return found


def _defined_twice(task: Task, statements: Sequence[Statement]) -> list[str]:
    notes = []
    for ask in task.asks:
        places = [statement.where for statement in statements if ask.name in statement.binds]
        if len(places) > 1:
            notes.append(
                f"{task.id}: {ask.name} is defined {len(places)} times ({'; '.join(places)}); the last one that runs "
                "is graded"
            )
    return notes


def _copy_neighbours(path: Path, folder: Path) -> None:
    """Copies the .py files beside the submission, so that it can import its own parts."""
    left = NEIGHBOUR_BYTES
    for other in sorted(path.resolve().parent.glob("*.py"))[:100]:
        if other != path.resolve() and other.is_file() and other.stat().st_size <= left:
            left -= other.stat().st_size
            shutil.copyfile(other, folder / other.name)
