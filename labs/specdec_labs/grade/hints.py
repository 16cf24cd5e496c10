"""The hint ladder of a task: nudge, idea, pseudocode, then the solution, each a separate reveal.

What was revealed is noted in `hints_used.json` beside the learner's copy, for the learner; nothing is deducted.
"""

from datetime import UTC, datetime
import json
from pathlib import Path
import re
import warnings

from specdec_labs.exercises import Exercise, find_exercise, work_root
from specdec_labs.grade.access import refuse_while_grading
from specdec_labs.grade.task import Task
from specdec_labs.grade.tasks import tasks_of

LEVELS = ("nudge", "idea", "pseudocode")
_TASK = re.compile(r"^## (\w+)$", re.MULTILINE)
_LEVEL = re.compile(r"^### \d (\w+)$", re.MULTILINE)


class Reveal(str):
    """A text that shows as Markdown in Jupyter and as it is in a terminal."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return str(self)


def hint(task_id: str, level: int | str = 1) -> Reveal:
    """One hint: level 1 "nudge", 2 "idea" or 3 "pseudocode". ValueError for another task or level."""
    task = one_task(task_id)
    names = dict(enumerate(LEVELS, start=1))
    name = names.get(level) if isinstance(level, int) else level
    if name not in LEVELS:
        raise ValueError(f"level is {level!r}; expected 1 (nudge), 2 (idea) or 3 (pseudocode)")
    exercise = find_exercise(task.set_id)
    text = read_hints(exercise)[task.name][name]
    _note(exercise, task.id, name)
    return Reveal(text)


def solution(task_id: str) -> Reveal:
    """The reference solution of a task as a code block. ValueError for an unknown task."""
    refuse_while_grading("a solution")
    task = one_task(task_id)
    exercise = find_exercise(task.set_id)
    sections = exercise.sections(exercise.solution)
    _note(exercise, task.id, "solution")
    return Reveal(f"```python\n{sections[task.id]}\n```")


def hints_used(task_id: str) -> list[dict[str, str]]:
    """What was revealed so far of a task or a set, oldest first: `task`, `level` and `time` (UTC)."""
    wanted = {task.id for task in tasks_of(task_id)}
    try:
        exercise = find_exercise(task_id)
    except FileNotFoundError:  # outside a clone there are no hints to use
        return []
    return [entry for entry in _read(_log(exercise)) if isinstance(entry, dict) and entry.get("task") in wanted]


def read_hints(exercise: Exercise) -> dict[str, dict[str, str]]:
    """Every hint of a set: task name -> level name -> text."""
    parts = _TASK.split(exercise.hints.read_text(encoding="utf-8"))
    hints = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        levels = _LEVEL.split(text)
        hints[name] = {level: body.strip() for level, body in zip(levels[1::2], levels[2::2], strict=True)}
    return hints


def one_task(task_id: str) -> Task:
    """The task with this id, or the only one of a set. ValueError, with the ids, for a set of several."""
    tasks = tasks_of(task_id)
    if len(tasks) > 1:
        raise ValueError(f"{task_id} is a set of several tasks; name one: {', '.join(task.id for task in tasks)}")
    return tasks[0]


def _log(exercise: Exercise) -> Path:
    return work_root() / exercise.folder.name / "hints_used.json"


def _read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        entries = None
    if not isinstance(entries, list):
        kept = path.replace(path.with_suffix(".unreadable"))
        warnings.warn(f"{path.name} was not a JSON list; it is kept as {kept.name} and a new one begun", stacklevel=4)
        return []
    return entries


def _note(exercise: Exercise, task_id: str, level: str) -> None:
    path = _log(exercise)
    entry = {"task": task_id, "level": level, "time": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = [*_read(path), entry]
        partial = path.with_name(path.name + ".part")
        partial.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        warnings.warn(f"the hint was not noted in {path}: {error}", stacklevel=3)
