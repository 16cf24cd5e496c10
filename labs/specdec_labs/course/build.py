"""`specdec course build`: the student release and the instructor's version of every set, as files and as notebooks.

Cells carry nbgrader metadata of schema version 3, and the instructor's solutions stand between nbgrader's markers, so
that `nbgrader generate_assignment` takes the instructor's notebooks as they are.
"""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
import re
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from specdec_labs.course.starters import body_start, bound_name
from specdec_labs.exercises import Exercise, all_exercises
from specdec_labs.grade.task import Task
from specdec_labs.grade.tasks import TASKS

if TYPE_CHECKING:
    from nbformat import NotebookNode

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
SCHEMA_VERSION = 3
_TASK_HEADING = re.compile(r"^## (E\d{2}\.\w+): ", re.MULTILINE)
INTERPRET = 'import os\n\nos.environ.setdefault("TRITON_INTERPRET", "1")  # before triton is imported\n\n'


def build_course(out: str | Path) -> list[Path]:
    """The files written: `student/ENN_name/` and `instructor/ENN_name/` below `out`, each with README, .py and .ipynb.

    The instructor's folders hold the hints and the wrong answers as well. Everything is made beside `out` and moved
    there at the end.

    Raises:
        ValueError: `out` exists, or its parent does not.
        FileNotFoundError: no clone is found.
    """
    out = Path(out)
    if out.exists() or not out.resolve().parent.is_dir():
        raise ValueError(f"--out is {str(out)!r}; expected a new folder in a folder that exists")
    with tempfile.TemporaryDirectory(prefix=".specdec-course-", dir=out.resolve().parent) as folder:
        made = Path(folder, "course")
        for exercise in all_exercises().values():
            _write_set(made, exercise)
        made.rename(out)
    return sorted(path for path in out.rglob("*") if path.is_file())


def _write_set(made: Path, exercise: Exercise) -> None:
    tasks = [task for task in TASKS.values() if task.set_id == exercise.id]
    student, instructor = (made / version / exercise.folder.name for version in ("student", "instructor"))
    for folder in (student, instructor):
        folder.mkdir(parents=True)
        shutil.copyfile(exercise.readme, folder / "README.md")
    shutil.copyfile(exercise.starter, student / exercise.file_name)
    for path in (exercise.solution, exercise.hints, *exercise.folder.glob("wrong_*.py")):
        shutil.copyfile(path, instructor / path.name)
    stem = Path(exercise.file_name).stem
    _write(student / f"{stem}.ipynb", notebook(exercise, tasks, exercise.sections(exercise.starter)))
    marked = {
        name: with_markers(text, {ask.name for task in tasks for ask in task.asks})
        for name, text in exercise.sections(exercise.solution).items()
    }
    marked[""] = exercise.sections(exercise.solution)[""]
    _write(instructor / f"{stem}.ipynb", notebook(exercise, tasks, marked))


def notebook(exercise: Exercise, tasks: Sequence[Task], sections: Mapping[str, str]) -> "NotebookNode":
    """A notebook of a set: its statement, and for each task a cell to fill and a cell that checks it for points."""
    from nbformat import v4

    statement = _TASK_HEADING.split(exercise.readme.read_text(encoding="utf-8"))
    texts = dict(zip(statement[1::2], statement[2::2], strict=True))
    setup = f"{sections['']}\n\nfrom specdec_labs.grade import check"
    setup = INTERPRET + setup if "import triton" in setup else setup
    cells = [_text(exercise.id, "statement", statement[0]), _code(exercise.id, "setup", setup)]
    for task in tasks:
        cells.append(_text(exercise.id, f"{task.name}-statement", f"## {task.id}: {texts[task.id]}"))
        cells.append(_code(exercise.id, task.name, sections[task.id], solution=True))
        judged = f'report = check("{task.id}", globals())\ndisplay(report)\nreport.points'
        cells.append(_code(exercise.id, f"{task.name}-check", judged, points=task.points))
    made = v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL, "language_info": {"name": "python"}})
    made.nbformat_minor = 5
    return made


def with_markers(section: str, asked: set[str]) -> str:
    """A section of a solution with nbgrader's markers around what is asked for."""
    lines = section.split("\n")
    for node in reversed(ast.parse(section).body):
        name, end = bound_name(node), node.end_lineno or node.lineno
        if name not in asked and not name.startswith("_"):
            continue
        if isinstance(node, ast.FunctionDef) and name in asked:
            first, indent = body_start(node), "    "
        else:
            first, indent = node.lineno, ""
        lines[first - 1 : end] = [indent + BEGIN, *lines[first - 1 : end], indent + END]
    return "\n".join(lines)


def _code(set_id: str, name: str, source: str, *, solution: bool = False, points: int | None = None) -> "NotebookNode":
    from nbformat import v4

    cell = v4.new_code_cell(source, id=_id(set_id, name))
    cell.metadata["nbgrader"] = _metadata(set_id, name, solution=solution, points=points)
    return cell


def _text(set_id: str, name: str, source: str) -> "NotebookNode":
    from nbformat import v4

    cell = v4.new_markdown_cell(source.strip(), id=_id(set_id, name))
    cell.metadata["nbgrader"] = _metadata(set_id, name)
    return cell


def _metadata(set_id: str, name: str, *, solution: bool = False, points: int | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "grade": points is not None,
        "grade_id": _id(set_id, name),
        "locked": not solution,
        "schema_version": SCHEMA_VERSION,
        "solution": solution,
        "task": False,
    }
    return metadata if points is None else metadata | {"points": points}


def _id(set_id: str, name: str) -> str:
    return f"{set_id}-{name}".replace("_", "-")


def _write(path: Path, made: "NotebookNode") -> None:
    import nbformat

    nbformat.validate(made)
    path.write_text(nbformat.writes(made, indent=1).rstrip("\n") + "\n", encoding="utf-8")
