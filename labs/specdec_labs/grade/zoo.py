"""Wrong answers as data: plausible mistakes, the property meant for each, and how the learner's own is recognised."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from specdec_labs.exercises import find_exercise
from specdec_labs.grade.access import Here
from specdec_labs.grade.loading import load_module
from specdec_labs.grade.plain import same
from specdec_labs.grade.task import Seen, Task

if TYPE_CHECKING:
    from specdec_labs.grade.engine import Sight


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongAnswer:
    """One plausible mistake.

    Attributes:
        name: of the mistake.
        task: the task's id.
        replaces: the asked name it stands in for.
        caught_by: the property meant for it.
        says: what a learner who made it is told.
        answer: the wrong function, or the wrong value.
    """

    name: str
    task: str
    replaces: str
    caught_by: str
    says: str
    answer: Any


def wrong(task: str, replaces: str, caught_by: str, says: str) -> Callable[[Callable[..., Any]], WrongAnswer]:
    """Decorator that makes a wrong function a `WrongAnswer` of its own name."""

    def make(answer: Callable[..., Any]) -> WrongAnswer:
        name = getattr(answer, "__name__", type(answer).__name__)
        return WrongAnswer(name=name, task=task, replaces=replaces, caught_by=caught_by, says=says, answer=answer)

    return make


def wrong_answers(task: Task) -> tuple[WrongAnswer, ...]:
    """The zoo of a task, from `wrong_NAME.py` in its set's folder; empty where that folder is not at hand.

    Raises:
        ValueError: a wrong answer that belongs to another task, names something unknown, or has another one's name.
    """
    try:
        folder = find_exercise(task.set_id).folder
    except (FileNotFoundError, ValueError):
        return ()
    path = folder / f"wrong_{task.name}.py"
    if not path.is_file():
        return ()
    try:
        return _read(task, str(path))
    except ModuleNotFoundError:  # without Triton there is no kernel to recognise either
        return ()


@cache
def _read(task: Task, path: str) -> tuple[WrongAnswer, ...]:
    found = [entry for entry in vars(load_module(path)).values() if isinstance(entry, WrongAnswer)]
    for entry in found:
        known = {demand.name for demand in task.properties_of(entry.replaces)}
        if entry.task != task.id or entry.caught_by not in known:
            raise ValueError(f"{path}: {entry.name} is for {entry.task} and {entry.caught_by}; expected one of {known}")
    if len({entry.name for entry in found}) != len(found):
        raise ValueError(f"{path}: two wrong answers have the same name")
    return tuple(found)


def recognised(task: Task, sight: "Sight", zoo: Sequence[WrongAnswer]) -> list[WrongAnswer]:
    """The wrong answers that do what the learner's name does in every public case."""
    candidates = [entry for entry in zoo if entry.replaces == sight.ask.name]
    if not candidates:
        return []
    seen = sight.all()
    if seen is None:
        return []
    return [entry for entry in candidates if _is_like(task, entry, sight, seen)]


def _is_like(task: Task, entry: WrongAnswer, sight: "Sight", seen: Sequence[Seen]) -> bool:
    if entry.name in task.recognisers:
        return task.recognisers[entry.name](seen, sight.cases)
    other = type(sight)(Here({entry.replaces: entry.answer}), sight.ask, sight.cases)
    for index, found in enumerate(seen):
        theirs = other.at(index)
        if isinstance(theirs, str):
            theirs = Seen(("malformed", theirs))
        if not alike(found, theirs):
            return False
    return True


def alike(one: Seen, other: Seen) -> bool:
    """Whether two sights are the same: the same kind of exception, or the same value and the same arguments after."""
    if one.failure is not None or other.failure is not None:
        return one.failure is not None and other.failure is not None and one.failure.kind == other.failure.kind
    return same(one.value, other.value) and same(one.after, other.after)
