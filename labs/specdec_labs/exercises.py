"""Finds the exercise sets of a clone and starts them in a place that git ignores.

A set is a folder `exercises/ENN_name/`; its files hold a section for each task, begun by a line `# %% ENN.task: title`.
"""

from dataclasses import dataclass
import os
from pathlib import Path
import re

WORK_VARIABLE = "SPECDEC_WORK"
_ID = re.compile(r"[Ee](\d{2})(?:[_.](\w+))?")
_SECTION = re.compile(r"^# %% (E\d{2}\.\w+)[^\n]*\n", re.MULTILINE)
_FOLDER = re.compile(r"E\d{2}_\w+")


@dataclass(frozen=True, slots=True)
class Exercise:
    """One set: a folder `exercises/ENN_name/`."""

    folder: Path

    @property
    def id(self) -> str:
        """For example "E01"."""
        return self.folder.name[:3]

    @property
    def file_name(self) -> str:
        """What a learner's copy is called, for example "residual.py"."""
        return f"{self.folder.name[4:]}.py"

    @property
    def readme(self) -> Path:
        """The statement."""
        return self.folder / "README.md"

    @property
    def starter(self) -> Path:
        """The file a learner starts from."""
        return self.folder / "starter.py"

    @property
    def solution(self) -> Path:
        """The reference solution."""
        return self.folder / "solution.py"

    @property
    def hints(self) -> Path:
        """Three hints for each task."""
        return self.folder / "hints.md"

    def sections(self, path: Path) -> dict[str, str]:
        """The source of each task in `starter` or `solution`, by task id; what all tasks share is under ""."""
        parts = _SECTION.split(path.read_text(encoding="utf-8"))
        return {"": parts[0].strip()} | {
            name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)
        }


@dataclass(frozen=True, slots=True)
class Started:
    """Where a learner's copy lies, and whether this call wrote it."""

    exercise: Exercise
    path: Path
    created: bool


def parse_set_id(exercise_id: str) -> str:
    """ "E01" for "E01", "e01", "E01_residual" or "E01.residual". ValueError for anything else."""
    match = _ID.fullmatch(exercise_id.strip()) if isinstance(exercise_id, str) else None
    if match is None:
        raise ValueError(f"exercise_id is {exercise_id!r}; expected a form like E01, E01_residual or E01.residual")
    return f"E{match[1]}"


def find_clone() -> Path | None:
    """The root of the clone around the current folder, else of the clone this package is installed from, else None."""
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if (folder / "specdec_core").is_dir() and (folder / "exercises").is_dir():
                return folder
    return None


def work_root() -> Path:
    """Where learners' copies go: `work/` of the clone, or of the current folder outside a clone.

    The variable SPECDEC_WORK names another folder: runs of the notebooks that are nobody's progress use it.
    """
    named = os.environ.get(WORK_VARIABLE)
    return Path(named) if named else (find_clone() or Path.cwd()) / "work"


def all_exercises() -> dict[str, Exercise]:
    """The exercises of this clone by id.

    Raises:
        FileNotFoundError: no clone is found from the current folder or the package.
    """
    clone = find_clone()
    if clone is None:
        raise FileNotFoundError(
            f"no exercises found from {Path.cwd()}: they come with the repository, not with the installed package; "
            "run this inside a clone"
        )
    folders = sorted(path for path in (clone / "exercises").iterdir() if _FOLDER.fullmatch(path.name))
    return {folder.name[:3]: Exercise(folder) for folder in folders if (folder / "solution.py").is_file()}


def find_exercise(exercise_id: str) -> Exercise:
    """The set with this id ("E01", "E01_residual", "E01.task"). ValueError, with the list, when there is none."""
    exercises = all_exercises()
    try:
        exercise = exercises.get(parse_set_id(exercise_id))
    except ValueError:
        exercise = None
    named = exercise_id.strip() if isinstance(exercise_id, str) else ""
    if exercise is None or ("_" in named and "." not in named and named[1:] != exercise.folder.name[1:]):
        names = ", ".join(entry.folder.name for entry in exercises.values()) or "none"
        raise ValueError(f"exercise_id is {exercise_id!r}; the exercises here are: {names}")
    return exercise


def start_exercise(exercise_id: str, directory: str | Path | None = None, *, fresh: bool = False) -> Started:
    """Copies the starter to `work/E01_residual/residual.py`; a file that is there stays as it is.

    Args:
        exercise_id: "E01", "e01" or "E01_residual".
        directory: the folder for this exercise's file instead of `work/E01_residual`.
        fresh: write a new starter beside an existing file, as `residual_2.py`, `residual_3.py`, ...

    Raises:
        ValueError: no such exercise, or `directory` is a file.
        FileNotFoundError: no clone is found.
    """
    exercise = find_exercise(exercise_id)
    folder = Path(directory) if directory is not None else work_root() / exercise.folder.name
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"directory is {str(folder)!r}, which is a file; give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / exercise.file_name
    copies = 1
    while path.exists() and fresh:
        copies += 1
        path = folder / f"{Path(exercise.file_name).stem}_{copies}.py"
    if path.exists():
        return Started(exercise, path, created=False)
    text = exercise.starter.read_text(encoding="utf-8")
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return Started(exercise, path, created=True)
