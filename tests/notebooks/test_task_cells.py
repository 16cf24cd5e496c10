"""The learner's cells: filled from the exercises, marked for graders, complaining about tasks that are not there."""

from pathlib import Path

import nbformat
import pytest

from specdec_core import __version__
from specdec_labs.build_notebooks import build
from specdec_labs.exercises import find_exercise
from specdec_labs.grade.tasks import TASKS
from specdec_labs.task_cells import task_source

PAGE = f"""# %%
MADE_FOR = "{__version__}"

# %% task="E05.expected"

# %% check="E05.expected"
check("E05.expected", globals())

# %% task="E05.best_gamma"
"""


def page(folder: Path, text: str = PAGE, filling: str = "starter") -> nbformat.NotebookNode:
    path = folder / "07_page.py"
    path.write_text(text, encoding="utf-8")
    return nbformat.reads(build(path, filling), as_version=nbformat.NO_CONVERT)  # type: ignore[arg-type]


def test_a_task_cell_holds_the_starter_with_the_sets_imports_once(tmp_path: Path) -> None:
    _, first, _, second = page(tmp_path).cells
    starter = find_exercise("E05").starter
    sections = find_exercise("E05").sections(starter)
    assert sections["E05.expected"] in first.source and first.source.startswith("# E05.expected: ")
    assert "from fractions import Fraction" in first.source and '"""E05' not in first.source
    assert "from fractions import Fraction" not in second.source and sections["E05.best_gamma"] in second.source


def test_the_same_page_can_be_filled_with_solutions(tmp_path: Path) -> None:
    _, first, *_ = page(tmp_path, filling="solution").cells
    assert "NotImplementedError" not in first.source
    assert "NotImplementedError" in page(tmp_path).cells[1].source


def test_cells_carry_nbgrader_marks_of_version_3(tmp_path: Path) -> None:
    _, built, checked, _ = page(tmp_path).cells
    assert built.metadata.nbgrader == {
        "schema_version": 3,
        "grade_id": "E05-expected",
        "grade": False,
        "solution": True,
        "locked": False,
        "task": False,
    }
    assert checked.metadata.nbgrader.points == TASKS["E05.expected"].points
    assert checked.metadata.nbgrader.grade and checked.metadata.nbgrader.locked
    assert (built.metadata.specdec.part, checked.metadata.specdec.part) == ("build", "check")
    assert "task" not in built.metadata and "check" not in checked.metadata


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (PAGE.replace('task="E05.expected"', 'task="E05.expectation"'), "E05_speedup has: E05.expected"),
        (PAGE.replace('task="E05.best_gamma"', 'task="E05.expected"'), "two cells"),
        (PAGE.replace('task="E05.expected"', 'task="E99.expected"'), "E99"),
    ],
)
def test_a_page_that_names_no_task_is_refused(tmp_path: Path, changed: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        page(tmp_path, changed)


@pytest.mark.parametrize("task", list(TASKS))
def test_every_starter_and_solution_compiles_as_a_cell(task: str) -> None:
    for filling in ("starter", "solution"):
        compile(task_source(task, filling, with_imports=True), task, "exec")  # type: ignore[arg-type]


def test_grade_ids_are_unique_over_all_notebooks(root: Path) -> None:
    cells = [cell for path in (root / "notebooks").glob("*.ipynb") for cell in nbformat.read(path, as_version=4).cells]
    ids = [cell.metadata.nbgrader.grade_id for cell in cells if "nbgrader" in cell.metadata]
    assert len(ids) == len(set(ids)) == 2 * len(TASKS)
