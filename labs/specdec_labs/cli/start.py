"""`specdec start` and `specdec hint`: begin a set of exercises, and get help a step at a time."""

import os
from pathlib import Path

from specdec_labs.exercises import start_exercise
from specdec_labs.grade.hints import hint, one_task, solution
from specdec_labs.grade.tasks import tasks_of


def start(exercise_id: str, directory: str | Path | None = None, *, fresh: bool = False) -> Path:
    """The path of the learner's copy; prints what was done. An existing file is never overwritten.

    Args:
        exercise_id: "E01", "e01" or "E01_residual".
        directory: the folder for the file instead of `work/E01_residual` of the clone.
        fresh: write a new starter beside an existing file (`residual_2.py`).

    Raises:
        ValueError: no such exercise (the message lists them), or `directory` is a file.
        FileNotFoundError: no clone is found.
    """
    started = start_exercise(exercise_id, directory, fresh=fresh)
    shown = short(started.path)
    if started.created:
        print(f"Wrote {shown}")
    else:
        print(f"{shown} is there already and was left as it is; --fresh writes a new starter beside it")
    print(f"Read   {short(started.exercise.readme)}")
    print(f"Check  specdec check {shown} --exercise {started.exercise.id}")
    print(f"Tasks  {', '.join(task.id for task in tasks_of(started.exercise.id))}")
    return started.path


def print_hint(task_id: str, level: int, show_solution: bool) -> None:
    """Prints one hint, or the reference solution; either is noted in the work folder, and nothing is deducted.

    Raises:
        ValueError: an unknown task or level, or a set of several tasks.
        FileNotFoundError: no clone is found.
    """
    task = one_task(task_id)
    print(solution(task.id) if show_solution else hint(task.id, level))
    if not show_solution:
        follows = f"--level {level + 1}" if level < 3 else "--solution"
        print(f"\nNext: specdec hint {task.id} {follows}")


def short(path: Path) -> str:
    """The path from here, or in full when it lies elsewhere."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
