"""`specdec check` for learners, `specdec grade` for instructors."""

import json
from pathlib import Path
import secrets

from specdec_core.whole_file import check_destination, write_whole
from specdec_labs.grade.hidden import read_hidden
from specdec_labs.grade.hints import hints_used
from specdec_labs.grade.records import record
from specdec_labs.grade.reports import Reports
from specdec_labs.grade.session import Limits
from specdec_labs.grade.submission import grade_submission


def check_command(
    path: str | Path,
    exercise: str | None = None,
    *,
    json_path: str | Path | None = None,
    junit_path: str | Path | None = None,
    timeout_s: float | None = None,
    hidden_seed: int | None = None,
) -> int:
    """0 when every property that was run passed, else 1; prints the reports and notes the learner's progress.

    Args:
        path: the learner's file or notebook.
        exercise: a task or a set; taken from the names in the file and from its folder when None.
        json_path, junit_path: where to write the reports as JSON and as JUnit XML.
        timeout_s: seconds for each asked name.
        hidden_seed: also run the properties on fresh random cases from this seed.

    Raises:
        ValueError: an unknown task, a file that cannot be read, or a place that cannot be written.
    """
    outputs = [check_destination(output) for output in (json_path, junit_path) if output is not None]
    if len({Path(path).resolve(), *outputs}) != 1 + len(outputs):
        raise ValueError("the graded file, --json and --junit must be different files; nothing was written")
    reports = grade_submission(path, exercise, limits=_limits(timeout_s), hidden_seed=hidden_seed)
    print(reports)
    record(reports)
    used = sum(len(hints_used(report.task_id)) for report in reports)
    if used:
        print(f"Hints used: {used} (nothing is deducted)")
    if json_path is not None:
        write_whole(json_path, _json(reports))
    if junit_path is not None:
        write_whole(junit_path, reports.to_junit())
    return int(not reports.ok)


def grade_command(
    path: str | Path,
    exercise: str | None = None,
    *,
    out: str | Path | None = None,
    timeout_s: float | None = None,
    seed: int | None = None,
    public_only: bool = False,
    hidden_path: str | Path | None = None,
) -> int:
    """0 when every property that was run passed, else 1; prints the reports, writes them in three forms and says where.

    Also 1 when the submission changed files of the lab, or left processes that could not be ended.

    Args:
        path: the submission.
        exercise: a task or a set; taken from the names in the file and from its folder when None.
        out: a folder for NAME.json, NAME.xml (JUnit) and NAME.csv; made when only its last part is missing.
        timeout_s: seconds for each asked name.
        seed: of the hidden random cases; drawn afresh when None, and reported.
        public_only: run no hidden cases; the reports say how many were not run.
        hidden_path: an instructor's file of held-back cases.

    Raises:
        ValueError: an unknown task, a file that cannot be read, or a place that cannot be written.
    """
    path = Path(path)
    places = _places(path, Path(out)) if out is not None else {}
    hidden = read_hidden(hidden_path) if hidden_path is not None else None
    chosen = None if public_only else seed if seed is not None else secrets.randbelow(2**31)
    reports = grade_submission(path, exercise, limits=_limits(timeout_s), hidden_seed=chosen, hidden=hidden)
    print(reports)
    forms = {"json": _json(reports), "xml": reports.to_junit(), "csv": reports.to_csv(path.name)}
    # last of all, when nothing of the submission runs any more
    for form, place in places.items():
        write_whole(place, forms[form])
    if out is not None:
        print(f"Reports written: {', '.join(str(Path(out) / f'{path.stem}.{form}') for form in places)}")
    return int(not reports.ok)


def _places(path: Path, out: Path) -> dict[str, Path]:
    if not out.exists() and out.parent.is_dir():
        out.mkdir()
    if not out.is_dir():
        raise ValueError(f"--out is {str(out)!r}; expected a folder, or a new one in a folder that exists")
    return {form: check_destination(out / f"{path.stem}.{form}") for form in ("json", "xml", "csv")}


def _json(reports: Reports) -> str:
    return json.dumps(reports.to_dict(), indent=1, ensure_ascii=False) + "\n"


def _limits(timeout_s: float | None) -> Limits:
    return Limits() if timeout_s is None else Limits(seconds=timeout_s)
