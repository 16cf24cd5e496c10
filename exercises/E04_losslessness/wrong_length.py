"""Typical wrong answers to E04.length."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from specdec_labs.grade.zoo import WrongAnswer, wrong

Law = Sequence[Fraction]


def one_draft(p: Law, q: Law, token: int, coins: Any) -> tuple[bool, int]:
    """The chain rule on one draft, as in the solution."""
    if coins.accept(p[token], q[token], node=0):
        return True, token
    return False, coins.draw([max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)], node=0, purpose="recover")


def promise(p: Law, q: Law) -> Fraction:
    """sum of min(p, q)."""
    return sum((min(p_x, q_x) for p_x, q_x in zip(p, q, strict=True)), Fraction(0))


@wrong(
    "E04.length",
    "mended_length",
    "mended_is_lossless",
    "this is the broken function still: whether a slot is verified depends on the very token that would be judged.",
)
def not_mended(p: Law, q: Law, least: Fraction, coins: Any) -> tuple[bool, int]:
    token = coins.draw(q, node=0, purpose="draft")
    if min(1, p[token] / q[token]) < least:
        return False, coins.draw(p, node=0, purpose="sample")
    return one_draft(p, q, token, coins)


@wrong(
    "E04.length",
    "mended_length",
    "mended_is_lossless",
    "a dropped draft is redrawn from the residual now, though it was never judged: the share p/q of it that "
    "should have "
    "come out is missing.",
)
def drops_into_the_residual(p: Law, q: Law, least: Fraction, coins: Any) -> tuple[bool, int]:
    token = coins.draw(q, node=0, purpose="draft")
    if min(1, p[token] / q[token]) < least:
        return False, coins.draw([max(p_x - q_x, 0) for p_x, q_x in zip(p, q)], node=0, purpose="recover")
    return one_draft(p, q, token, coins)


@wrong(
    "E04.length",
    "mended_length",
    "mended_keeps_its_drafts",
    "lossless, but every slot is verified: `least` plays no part. The point of the window is to skip poor slots.",
)
def ignores_the_threshold(p: Law, q: Law, least: Fraction, coins: Any) -> tuple[bool, int]:
    return one_draft(p, q, coins.draw(q, node=0, purpose="draft"), coins)


@wrong(
    "E04.length",
    "mended_length",
    "mended_keeps_its_drafts",
    "lossless, because nothing is ever drafted: your function asks the target every time.",
)
def gives_up_drafting(p: Law, q: Law, least: Fraction, coins: Any) -> tuple[bool, int]:
    return False, coins.draw(p, node=0, purpose="sample")


@wrong(
    "E04.length",
    "mended_length",
    "mended_keeps_its_drafts",
    "lossless; the slot is skipped by the chance of its likeliest token in p, which says little about the draft. The "
    "promise is the sum of min(p, q).",
)
def trusts_the_targets_peak(p: Law, q: Law, least: Fraction, coins: Any) -> tuple[bool, int]:
    if max(p) < least:
        return False, coins.draw(p, node=0, purpose="sample")
    return one_draft(p, q, coins.draw(q, node=0, purpose="draft"), coins)


@wrong(
    "E04.length",
    "mended_length",
    "asks_each_question_once",
    "your function draws a draft and, where it drops it, draws another under the same key: the noise would be "
    "the same.",
)
def draws_twice_under_one_key(p: Law, q: Law, least: Fraction, coins: Any) -> tuple[bool, int]:
    if promise(p, q) < least:
        coins.draw(q, node=0, purpose="sample")
        return False, coins.draw(p, node=0, purpose="sample")
    return one_draft(p, q, coins.draw(q, node=0, purpose="draft"), coins)


def _input(name: str, caught_by: str, p: str, q: str, least: str, says: str) -> WrongAnswer:
    laws = [[Fraction(mass) for mass in law.split()] for law in (p, q)]
    return WrongAnswer(
        name=name,
        task="E04.length",
        replaces="LENGTH_INPUT",
        caught_by=caught_by,
        says=says,
        answer=(*laws, Fraction(least)),
    )


NO_LAW = _input("no_law", "input_is_legal", "2/3 2/3", "1/2 1/2", "1", "p sums to 4/3: no model returns that.")
NEVER = _input(
    "nothing_dropped",
    "input_tells_them_apart",
    "2/3 1/3",
    "1/2 1/2",
    "1/3",
    "the poorer token promises 2/3, above `least`: every draft is verified, and nothing goes wrong.",
)
ALL = _input(
    "everything_dropped",
    "input_tells_them_apart",
    "1/2 1/2",
    "1 0",
    "1",
    "the one draft there is gets dropped every time: that is plain decoding, and exact.",
)
TENTHS = _input(
    "the_papers_example",
    "input_is_the_smallest",
    "7/10 3/10",
    "1/2 1/2",
    "13/20",
    "right, and it is the counter-example of the paper; smaller denominators do it too.",
)
