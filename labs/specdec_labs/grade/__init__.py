"""Checks tasks: `check("E03.chain", globals())` in a notebook, `specdec check FILE` for a file.

`hint("E03.chain", 1)` .. `hint("E03.chain", 3)` and `solution("E03.chain")` reveal help step by step; `take` hands
later cells the learner's function or the reference; `progress()` says what was solved so far.

Importing this package loads nothing heavy: the grading process starts from it as well.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdec_labs.grade.checking import check, check_all, take
    from specdec_labs.grade.hints import Reveal, hint, hints_used, solution
    from specdec_labs.grade.records import Progress, progress
    from specdec_labs.grade.report import PropertyResult, Report
    from specdec_labs.grade.reports import Reports
    from specdec_labs.grade.submission import grade_submission
    from specdec_labs.grade.tasks import TASKS

__all__ = [
    "TASKS",
    "Progress",
    "PropertyResult",
    "Report",
    "Reports",
    "Reveal",
    "check",
    "check_all",
    "grade_submission",
    "hint",
    "hints_used",
    "progress",
    "solution",
    "take",
]

_HOME = {
    "TASKS": "tasks",
    "Progress": "records",
    "PropertyResult": "report",
    "Report": "report",
    "Reports": "reports",
    "Reveal": "hints",
    "check": "checking",
    "check_all": "checking",
    "grade_submission": "submission",
    "hint": "hints",
    "hints_used": "hints",
    "progress": "records",
    "solution": "hints",
    "take": "checking",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found
