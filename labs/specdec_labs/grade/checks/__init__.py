"""The checks of each exercise, by id."""

from specdec_labs.exercises import parse_exercise_id
from specdec_labs.grade.checks.e01 import SUITE as E01
from specdec_labs.grade.engine import Suite

SUITES: dict[str, Suite] = {suite.exercise_id: suite for suite in (E01,)}


def suite_of(exercise_id: str) -> Suite:
    """The checks of an exercise. ValueError when there are none for this id."""
    number = parse_exercise_id(exercise_id)
    if number not in SUITES:
        raise ValueError(f"exercise_id is {exercise_id!r}; there are checks for: {', '.join(sorted(SUITES))}")
    return SUITES[number]
