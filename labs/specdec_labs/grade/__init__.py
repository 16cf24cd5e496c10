"""Checks exercises: `check("E01", globals())` in a notebook, `grade_file(path, "E01")` for a file.

`hint("E01", 1)` .. `hint("E01", 3)` and `solution("E01")` reveal help step by step.
"""

from specdec_labs.grade.checks import SUITES, suite_of
from specdec_labs.grade.engine import Source, original_builtins, run_suite
from specdec_labs.grade.hints import Reveal, hint, hints_used, solution
from specdec_labs.grade.isolated import grade_file
from specdec_labs.grade.report import PropertyResult, Report

__all__ = [
    "SUITES",
    "PropertyResult",
    "Report",
    "Reveal",
    "check",
    "grade_file",
    "hint",
    "hints_used",
    "solution",
]


def check(exercise_id: str, source: Source, hidden_seed: int | None = None) -> Report:
    """The report on an exercise: named properties, smallest failing examples, a diagnosis.

    Runs in this process, so an endless loop is ended with the kernel's interrupt; `grade_file` has a time limit.

    Args:
        exercise_id: "E01", "e01" or "E01_residual".
        source: `globals()` (the functions are taken by name), a module, or one function.
        hidden_seed: also run the same properties on fresh random cases from this seed.

    Raises:
        ValueError: an unknown exercise, or a `source` that is no namespace and no function.
    """
    with original_builtins():
        return run_suite(suite_of(exercise_id), source, hidden_seed)
