"""The cells of a notebook in which a learner works: filled from `exercises/`, with nbgrader's metadata (version 3)."""

import ast
import re
from typing import TYPE_CHECKING, Any, Literal

from specdec_labs.exercises import Exercise, find_exercise
from specdec_labs.grade.tasks import TASKS

if TYPE_CHECKING:
    from nbformat import NotebookNode

Filling = Literal["starter", "solution"]
SCHEMA_VERSION = 3


def fill_task_cells(notebook: "NotebookNode", filling: Filling) -> None:
    """Puts the starter (or the solution) of its task into every cell marked `task`; marks cells for nbgrader.

    The imports that a set's tasks share stand above its first task.

    Raises:
        ValueError: an unknown task, or one that comes twice.
    """
    seen: set[str] = set()
    for cell in notebook.cells:
        task, checked = cell.metadata.pop("task", None), cell.metadata.pop("check", None)
        if task is not None:
            if task in seen:
                raise ValueError(f"task {task} has two cells; give it one")
            is_first = not any(name.startswith(task.split(".")[0]) for name in seen)
            seen.add(task)
            cell.source = task_source(task, filling, with_imports=is_first)
            cell.metadata.update(_marks(task, is_solution=True))
        if checked is not None:
            cell.metadata.update(_marks(checked, is_solution=False))


def task_source(task: str, filling: Filling, *, with_imports: bool) -> str:
    """The task's section of its set's file, under a line with its id. ValueError when there is no such task."""
    exercise = find_exercise(task.split(".")[0])
    path = exercise.starter if filling == "starter" else exercise.solution
    sections = exercise.sections(path)
    if task not in sections or not task:
        raise ValueError(f"task is {task!r}; {path.parent.name} has: {', '.join(filter(None, sections))}")
    parts = [f"# {task}: {_title(exercise, task)}", sections[task]]
    if with_imports and (shared := _without_docstring(sections[""])):
        parts.insert(1, shared + "\n")
    return "\n".join(parts)


def _title(exercise: Exercise, task: str) -> str:
    found = re.search(rf"^# %% {re.escape(task)}: (.*)$", exercise.starter.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else ""


def _without_docstring(text: str) -> str:
    module = ast.parse(text)
    if ast.get_docstring(module) is None:
        return text
    return "\n".join(text.splitlines()[module.body[0].end_lineno :]).strip()


def _marks(task: str, *, is_solution: bool) -> dict[str, Any]:
    grading = {
        "schema_version": SCHEMA_VERSION,
        "grade_id": f"{task.replace('.', '-')}{'' if is_solution else '-check'}",
        "grade": not is_solution,
        "solution": is_solution,
        "locked": not is_solution,
        "task": False,
    }
    if not is_solution:
        grading["points"] = TASKS[task].points
    return {"specdec": {"task": task, "part": "build" if is_solution else "check"}, "nbgrader": grading}
