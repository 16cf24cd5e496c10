"""Typical wrong answers to E03.threshold."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from specdec_labs.grade.zoo import WrongAnswer, wrong

Law = Sequence[Fraction]


def excess(p: Law, q: Law) -> list[Any]:
    """max(p - q, 0), as in the solution."""
    return [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]


@wrong(
    "E03.threshold",
    "mended_threshold",
    "mended_is_lossless",
    "this is the broken function still: drafts with p < q are kept with 2 p/q.",
)
def not_mended(p: Law, q: Law, token: int, coins: Any) -> tuple[bool, int]:
    if coins.accept(p[token], q[token] / 2, node=0):
        return True, token
    return False, coins.draw(excess(p, q), node=0, purpose="recover")


@wrong(
    "E03.threshold",
    "mended_threshold",
    "mended_is_lossless",
    "the comparison is right now, but the redraw comes from p: what min(p, q) has given already comes out again.",
)
def redraws_from_p(p: Law, q: Law, token: int, coins: Any) -> tuple[bool, int]:
    if coins.accept(p[token], q[token], node=0):
        return True, token
    return False, coins.draw(p, node=0, purpose="recover")


@wrong(
    "E03.threshold",
    "mended_threshold",
    "mended_is_lossless",
    "your function halves p in place of q: now too many drafts are refused, and the residual no longer fits.",
)
def halves_the_other_side(p: Law, q: Law, token: int, coins: Any) -> tuple[bool, int]:
    if coins.accept(p[token] / 2, q[token], node=0):
        return True, token
    return False, coins.draw(excess(p, q) if list(p) != list(q) else p, node=0, purpose="recover")


@wrong(
    "E03.threshold",
    "mended_threshold",
    "mended_keeps_its_drafts",
    "lossless, because no draft is ever kept: your function asks the target every time, and speculation gains nothing.",
)
def gives_up_drafting(p: Law, q: Law, token: int, coins: Any) -> tuple[bool, int]:
    return False, coins.draw(p, node=0, purpose="recover")


def _input(name: str, caught_by: str, p: str, q: str, says: str) -> WrongAnswer:
    laws = tuple([Fraction(mass) for mass in law.split()] for law in (p, q))
    return WrongAnswer(
        name=name, task="E03.threshold", replaces="THRESHOLD_INPUT", caught_by=caught_by, says=says, answer=laws
    )


NO_LAW = _input("no_law", "input_is_legal", "1/2 1/3", "1 0", "p sums to 5/6: no model returns that.")
EQUAL = _input(
    "equal_laws",
    "input_tells_them_apart",
    "1/2 1/2",
    "1/2 1/2",
    "with p = q every draft has the ratio 1 and is kept either way; the threshold has nothing to do.",
)
GENTLE = _input(
    "never_below_half",
    "input_tells_them_apart",
    "0 1",
    "1 0",
    "a token with p = 0 is refused by both: twice nothing is nothing. Let p be small there, not 0.",
)
THREE = _input(
    "three_tokens",
    "input_is_the_smallest",
    "1/2 1/2 0",
    "1 0 0",
    "right, and the third token plays no part: leave it out.",
)
THIRDS = _input(
    "thirds",
    "input_is_the_smallest",
    "1/3 2/3",
    "1 0",
    "right; the same happens with halves.",
)
