"""`specdec start` and `specdec grade`: begin an exercise, check the file."""

import json
import os
from pathlib import Path

from specdec_core.whole_file import check_destination, write_whole
from specdec_labs.exercises import start_exercise
from specdec_labs.grade import grade_file, hints_used
from specdec_labs.grade.isolated import TIMEOUT_S


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
    shown = _short(started.path)
    if started.created:
        print(f"Wrote {shown}")
    else:
        print(f"{shown} is there already and was left as it is; --fresh writes a new starter beside it")
    print(f"Read   {_short(started.exercise.readme)}")
    print(f"Check  specdec grade {shown} --exercise {started.exercise.id}")
    return started.path


def grade_command(
    path: str | Path,
    exercise_id: str | None = None,
    *,
    json_path: str | Path | None = None,
    junit_path: str | Path | None = None,
    timeout_s: float = TIMEOUT_S,
    hidden_seed: int | None = None,
) -> int:
    """0 when every property that was run passed, else 1; prints the report and writes the files asked for.

    Args:
        path: the learner's file.
        exercise_id: taken from the file's folder (`E01_residual/residual.py`) when None.
        json_path, junit_path: where to write the report as JSON and as JUnit XML.
        timeout_s: seconds for the whole file.
        hidden_seed: also run the properties on fresh random cases from this seed.

    Raises:
        ValueError: an unknown exercise, no such file, or a folder to write into that does not exist.
    """
    outputs = [check_destination(output) for output in (json_path, junit_path) if output is not None]
    if len({Path(path).resolve(), *outputs}) != 1 + len(outputs):
        raise ValueError("the graded file, --json and --junit must be different files; nothing was written")
    chosen = exercise_id if exercise_id is not None else Path(path).resolve().parent.name
    report = grade_file(path, chosen, timeout_s, hidden_seed)
    print(report)
    _print_hints_used(report.exercise_id)
    if json_path is not None:
        write_whole(json_path, json.dumps(report.to_dict(), indent=1, ensure_ascii=False) + "\n")
    if junit_path is not None:
        write_whole(junit_path, report.to_junit())
    return 0 if report.ok else 1


def _print_hints_used(exercise_id: str) -> None:
    try:
        used = len(hints_used(exercise_id))
    except FileNotFoundError:  # graded outside a clone: there is no log either
        return
    if used:
        print(f"Hints used: {used} (nothing is deducted)")


def _short(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
