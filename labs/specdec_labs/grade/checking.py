"""`check` and its kin: the learner's names in this process, judged at once."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal

from specdec_labs.exercises import find_exercise
from specdec_labs.grade.access import Here, namespace_of, original_builtins, refuse_while_grading
from specdec_labs.grade.engine import run_task
from specdec_labs.grade.loading import load_module
from specdec_labs.grade.records import record
from specdec_labs.grade.report import Report
from specdec_labs.grade.reports import Reports
from specdec_labs.grade.task import Task
from specdec_labs.grade.tasks import TASKS, task_asking_for, tasks_of
from specdec_labs.grade.zoo import wrong_answers

Use = Literal["mine", "reference"]


def check(task_id: str, source: object, hidden_seed: int | None = None) -> Report | Reports:
    """The report on a task, or on every task of a set: named properties, smallest failing examples, a diagnosis.

    Runs in this process, so an endless loop is ended with the kernel's interrupt; `specdec check` has a time limit.
    What passed is noted in `work/progress.json` for `progress()`.

    Args:
        task_id: a task ("E03.chain") or a set ("E03").
        source: `globals()` (names are looked up in it), a module, or one function under its asked name.
        hidden_seed: also run the same properties on fresh random cases from this seed.

    Raises:
        ValueError: an unknown task, or a `source` that is no namespace and no asked function.
    """
    tasks = tasks_of(task_id)
    reports = look(tasks, source, hidden_seed)
    record(reports)
    return reports[0] if "." in task_id else Reports(tuple(reports), title=f"{tasks[0].set_id}: ")


def check_all(source: object, hidden_seed: int | None = None) -> Reports:
    """The reports on every task there is; those not started are only listed."""
    reports = look(list(TASKS.values()), source, hidden_seed)
    record(reports)
    return Reports(tuple(reports))


def look(tasks: Sequence[Task], source: object, hidden_seed: int | None = None) -> list[Report]:
    """The reports, and nothing is noted."""
    with original_builtins():
        known = [ask.name for task in tasks for ask in task.asks]
        namespace = namespace_of(source, known)
        only = None if isinstance(source, Mapping | ModuleType) else list(namespace)
        names = Here(namespace)
        return [
            run_task(task, names, wrong_answers(task), hidden_seed=hidden_seed, only=only)
            for task in tasks
            if only is None or any(ask.name in only for ask in task.asks)
        ]


def take(name: str, source: object, use: Use = "mine") -> Any:
    """The learner's function (or value), or the reference: later cells go on either way.

    With use="mine" it is the learner's, right or wrong, as soon as it is written; while it is not, the reference, and
    a line says so.

    Args:
        name: an asked name, for example "verify_drafts".
        source: `globals()` or a module.
        use: "mine" or "reference".

    Raises:
        ValueError: no task asks for this name, or another `use`.
        FileNotFoundError: the reference is wanted and no clone is found.
    """
    task = task_asking_for(name)
    if use not in ("mine", "reference"):
        raise ValueError(f"use is {use!r}; expected 'mine' or 'reference'")
    if use == "mine":
        with original_builtins():
            report = run_task(task, Here(namespace_of(source, [name])), only=[name])
        if report.started:
            if not report.ok:
                print(f"{name}: yours, which fails {len(report.results) - report.passed} checks ({task.id})")
            return namespace_of(source, [name])[name]
        print(f"{name}: the reference, since yours is not written yet ({task.id})")
    return reference(task, name)


def reference(task: Task, name: str) -> Any:
    """The reference's function or value. FileNotFoundError when no clone is found."""
    refuse_while_grading(f"the reference of {name}")
    return getattr(load_module(str(find_exercise(task.set_id).solution)), name)
