"""Typical wrong answers to E03.softmax_q."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from specdec_labs.grade.zoo import WrongAnswer, wrong

Law = Sequence[Fraction]


def favourite(q: Law) -> int:
    """The token with the largest q, the first of equals."""
    return max(range(len(q)), key=lambda x: q[x])


def excess(p: Law, q: Law) -> list[Any]:
    """max(p - q, 0), as in the broken function."""
    return [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]


@wrong(
    "E03.softmax_q",
    "mended_softmax_q",
    "mended_is_lossless",
    "this is the broken function still: the draft is certain, and judged with the softmax value of q.",
)
def not_mended(p: Law, q: Law, coins: Any) -> tuple[bool, int]:
    token = favourite(q)
    if coins.accept(p[token], q[token], node=0):
        return True, token
    return False, coins.draw(excess(p, q), node=0, purpose="recover")


@wrong(
    "E03.softmax_q",
    "mended_softmax_q",
    "mended_is_lossless",
    "the comparison is right now, the redraw still uses the softmax q. With q one-hot the residual is p without "
    "the draft.",
)
def mends_one_half(p: Law, q: Law, coins: Any) -> tuple[bool, int]:
    token = favourite(q)
    if coins.accept(p[token], 1, node=0):
        return True, token
    rest = excess(p, q)
    return False, coins.draw(rest if any(rest) else p, node=0, purpose="recover")


@wrong(
    "E03.softmax_q",
    "mended_softmax_q",
    "still_drafts_the_favourite",
    "lossless, by another drafter: your function draws the draft from q. The task keeps the certain draft.",
)
def draws_the_draft(p: Law, q: Law, coins: Any) -> tuple[bool, int]:
    token = coins.draw(q, node=0, purpose="draft")
    if coins.accept(p[token], q[token], node=0):
        return True, token
    return False, coins.draw(excess(p, q), node=0, purpose="recover")


@wrong(
    "E03.softmax_q",
    "mended_softmax_q",
    "mended_keeps_its_drafts",
    "lossless, because no draft is ever kept: your function asks the target every time.",
)
def gives_up_drafting(p: Law, q: Law, coins: Any) -> tuple[bool, int]:
    return False, coins.draw(p, node=0, purpose="recover")


@wrong(
    "E03.softmax_q",
    "mended_softmax_q",
    "mended_is_lossless",
    "after a refusal your function draws from all of p, the refused draft included: it gets a second chance.",
)
def second_chance(p: Law, q: Law, coins: Any) -> tuple[bool, int]:
    token = favourite(q)
    if coins.accept(p[token], 1, node=0):
        return True, token
    return False, coins.draw(p, node=0, purpose="recover")


def _input(name: str, caught_by: str, p: str, q: str, says: str) -> WrongAnswer:
    laws = tuple([Fraction(mass) for mass in law.split()] for law in (p, q))
    return WrongAnswer(
        name=name, task="E03.softmax_q", replaces="SOFTMAX_INPUT", caught_by=caught_by, says=says, answer=laws
    )


NO_LAW = _input("no_law", "input_is_legal", "1/2 1/2", "1/2 1/4", "q sums to 3/4: no model returns that.")
CERTAIN = _input(
    "certain_draft_model",
    "input_tells_them_apart",
    "1/2 1/2",
    "1 0",
    "this q is one-hot already, so softmax and argmax agree. Take a draft model that is not sure.",
)
THREE = _input(
    "three_tokens", "input_is_the_smallest", "1/2 1/4 1/4", "1/2 1/4 1/4", "right, and two tokens show it already."
)
