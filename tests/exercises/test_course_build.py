"""`specdec course build`: a release without solutions, an instructor's version, nbgrader's metadata."""

import json
from pathlib import Path

import nbformat
import pytest

from specdec_labs.course.build import build_course, with_markers
from specdec_labs.course.starters import main, starter_text
from specdec_labs.exercises import all_exercises
from specdec_labs.grade import grade_submission
from specdec_labs.grade.session import Limits
from specdec_labs.grade.tasks import TASKS


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One built course."""
    out = tmp_path_factory.mktemp("made") / "course"
    assert build_course(out) and [path.name for path in out.parent.iterdir()] == ["course"]
    return out


def test_every_set_is_there_for_both(course: Path) -> None:
    for exercise in all_exercises().values():
        student, instructor = (course / version / exercise.folder.name for version in ("student", "instructor"))
        stem = exercise.file_name.removesuffix(".py")
        assert {path.name for path in student.iterdir()} == {"README.md", exercise.file_name, f"{stem}.ipynb"}
        assert {"README.md", "solution.py", "hints.md", f"{stem}.ipynb"} <= {path.name for path in instructor.iterdir()}


def test_cells_carry_nbgrader_metadata(course: Path) -> None:
    points = 0
    for path in course.glob("*/*/*.ipynb"):
        made = nbformat.read(path, as_version=4)
        nbformat.validate(made)
        metadata = [cell.metadata["nbgrader"] for cell in made.cells]
        keys = {"grade", "grade_id", "locked", "schema_version", "solution", "task"}
        assert all(keys <= set(entry) <= keys | {"points"} and entry["schema_version"] == 3 for entry in metadata)
        assert len({entry["grade_id"] for entry in metadata}) == len(metadata)
        assert all(("points" in entry) == entry["grade"] for entry in metadata)
        assert all(entry["locked"] != entry["solution"] for entry in metadata)
        points += sum(entry.get("points", 0) for entry in metadata) if "student" in path.parts else 0
    assert points == sum(task.points for task in TASKS.values())


def test_students_get_no_solutions(course: Path) -> None:
    for path in (course / "student").rglob("*.ipynb"):
        made = nbformat.read(path, as_version=4)
        solutions = [cell.source for cell in made.cells if cell.metadata["nbgrader"]["solution"]]
        assert solutions and all("NotImplementedError" in source or " = None" in source for source in solutions)
        text = "".join(path.read_text(encoding="utf-8") for path in path.parent.iterdir())
        assert "BEGIN SOLUTION" not in text and "wrong(" not in text


def test_the_instructors_solutions_stand_between_markers(course: Path) -> None:
    for path in (course / "instructor").rglob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.metadata["nbgrader"]["solution"]:
                opened, closed = cell.source.count("### BEGIN SOLUTION"), cell.source.count("### END SOLUTION")
                assert opened == closed >= 1
                compile(cell.source, path.name, "exec")


def test_building_twice_gives_the_same_bytes(course: Path, tmp_path: Path) -> None:
    build_course(tmp_path / "again")
    for path in (entry for entry in course.rglob("*") if entry.is_file()):
        assert path.read_bytes() == (tmp_path / "again" / path.relative_to(course)).read_bytes()


def test_a_student_notebook_grades_as_not_started(course: Path) -> None:
    path = course / "student" / "E05_speedup" / "speedup.ipynb"
    reports = grade_submission(path, limits=Limits(seconds=30.0))
    assert reports.points == 0 and not any(report.started for report in reports)


@pytest.mark.slow
def test_the_instructors_notebooks_grade_as_solved(course: Path) -> None:
    for path in sorted((course / "instructor").rglob("*.ipynb")):
        reports = grade_submission(path, limits=Limits(seconds=120.0), hidden_seed=3)
        assert reports.ok, str(reports)


@pytest.mark.slow
def test_a_graded_cell_shows_its_points(course: Path, tmp_path: Path) -> None:
    from nbclient import NotebookClient

    made = nbformat.read(course / "instructor" / "E05_speedup" / "speedup.ipynb", as_version=4)
    made.cells.insert(1, nbformat.v4.new_code_cell("import os\nos.environ['SPECDEC_FAST'] = '1'"))
    NotebookClient(made, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for cell in made.cells:
        points = cell.metadata.get("nbgrader", {}).get("points")
        if points is not None:
            (result,) = (output for output in cell.outputs if output.output_type == "execute_result")
            assert json.loads(result.data["text/plain"]) == points


def test_wrong_places_are_refused(course: Path, tmp_path: Path) -> None:
    for out in (course, tmp_path / "no" / "such"):
        with pytest.raises(ValueError, match="expected a new folder"):
            build_course(out)


def test_a_starter_loses_bodies_values_and_what_only_they_need() -> None:
    solution = '''"""A set."""

from fractions import Fraction
import math

SHARED = Fraction(1)


# %% E99.one: a task
def given():
    return SHARED


# only for the solution
def _private(x):
    return math.sqrt(x)


def asked(a, b):
    """Says what it returns."""
    return _private(a) + b


# What VALUE means.
VALUE = 7
'''
    expected = '''"""A set."""

from fractions import Fraction

SHARED = Fraction(1)


# %% E99.one: a task
def given():
    return SHARED


def asked(a, b):
    """Says what it returns."""
    raise NotImplementedError("E99.one: asked(a, b)")


# What VALUE means.
VALUE = None
'''
    assert starter_text(solution, {"asked": "E99.one", "VALUE": "E99.one"}) == expected
    marked = with_markers(solution.split("# %% E99.one: a task\n")[1], {"asked", "VALUE"})
    assert marked.count("### BEGIN SOLUTION") == 3 and "    ### BEGIN SOLUTION\n    return _private(a) + b" in marked
    assert main(["--check"]) == 0
