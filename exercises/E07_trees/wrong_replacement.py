"""Typical wrong answers to E07.replacement."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from specdec_labs.grade.zoo import WrongAnswer, wrong

Law = Sequence[Fraction]
Judged = tuple[int | None, int]


def excess(p: Law, q: Law) -> list[Fraction]:
    """max(p - q, 0) normalised; p when nothing is left, as in the solution."""
    rest = [max(p_x - q_x, Fraction(0)) for p_x, q_x in zip(p, q, strict=True)]
    return [mass / sum(rest) for mass in rest] if any(rest) else list(p)


def without(q: Law, token: int) -> list[Fraction]:
    """q without a token, normalised, as in the solution."""
    rest = [Fraction(0) if x == token else mass for x, mass in enumerate(q)]
    return [mass / sum(rest) for mass in rest] if any(rest) else rest


@wrong(
    "E07.replacement",
    "mended_replacement",
    "mended_is_lossless",
    "this is the broken function still: the second child is judged by the whole of q, from which it was not drawn.",
)
def not_mended(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    left = list(p)
    for index, token in enumerate(children):
        if coins.accept(left[token], q[token], node=index):
            return index, token
        left = excess(left, q)
    return None, coins.draw(left, node=0, purpose="recover")


@wrong(
    "E07.replacement",
    "mended_replacement",
    "mended_is_lossless",
    "the children are judged rightly now, but after all refusals your function draws from p itself.",
)
def redraws_from_p(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    left, drawn_from = list(p), list(q)
    for index, token in enumerate(children):
        if coins.accept(left[token], drawn_from[token], node=index):
            return index, token
        left, drawn_from = excess(left, drawn_from), without(drawn_from, token)
    return None, coins.draw(p, node=0, purpose="recover")


@wrong(
    "E07.replacement",
    "mended_replacement",
    "mended_is_lossless",
    "your function takes the token out of q first and then the residual: the residual belongs to the law that the "
    "refused child was drawn from.",
)
def residual_of_the_next_law(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    left, drawn_from = list(p), list(q)
    for index, token in enumerate(children):
        if coins.accept(left[token], drawn_from[token], node=index):
            return index, token
        drawn_from = without(drawn_from, token)
        left = excess(left, drawn_from)
    return None, coins.draw(left, node=0, purpose="recover")


@wrong(
    "E07.replacement",
    "mended_replacement",
    "mended_keeps_its_drafts",
    "lossless, by looking at the first child only; the second was drafted for nothing.",
)
def first_child_only(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    if coins.accept(p[children[0]], q[children[0]], node=0):
        return 0, children[0]
    return None, coins.draw(excess(p, q), node=0, purpose="recover")


@wrong(
    "E07.replacement",
    "mended_replacement",
    "asks_each_question_once",
    "your function asks about every child under node 0: the coins would answer all of them with the same number.",
)
def same_node_for_all(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    left, drawn_from = list(p), list(q)
    for index, token in enumerate(children):
        if coins.accept(left[token], drawn_from[token], node=0):
            return index, token
        left, drawn_from = excess(left, drawn_from), without(drawn_from, token)
    return None, coins.draw(left, node=0, purpose="recover")


def _input(name: str, caught_by: str, p: str, q: str, says: str) -> WrongAnswer:
    laws = tuple([Fraction(mass) for mass in law.split()] for law in (p, q))
    return WrongAnswer(
        name=name, task="E07.replacement", replaces="REPLACEMENT_INPUT", caught_by=caught_by, says=says, answer=laws
    )


FLOATS = WrongAnswer(
    name="in_floats",
    task="E07.replacement",
    replaces="REPLACEMENT_INPUT",
    caught_by="input_is_legal",
    says="with floats the law can be enumerated only nearly; write Fractions.",
    answer=([0.25, 0.25, 0.5], [0.5, 0.25, 0.25]),
)
TWO = _input(
    "two_tokens",
    "input_tells_them_apart",
    "1/4 3/4",
    "1/2 1/2",
    "with two tokens the second child is always the other one, and comes out either way. It takes a third token.",
)
EQUAL = _input(
    "equal_laws",
    "input_tells_them_apart",
    "1/3 1/3 1/3",
    "1/3 1/3 1/3",
    "with p = q the first child is always accepted, so the second is never judged.",
)
LARGE = _input(
    "large_denominators",
    "input_is_the_smallest",
    "1/10 2/5 1/2",
    "3/5 1/5 1/5",
    "right; thirds and halves are enough.",
)
