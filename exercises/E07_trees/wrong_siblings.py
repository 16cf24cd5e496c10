"""Typical wrong answers to E07.siblings."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from specdec_labs.grade.zoo import wrong

Law = Sequence[Fraction]
Judged = tuple[int | None, int]


def excess(p: Law, q: Law) -> list[Any]:
    """max(p - q, 0), as in the solution."""
    return [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]


def scaled(masses: Law, fallback: Law) -> list[Any]:
    """Divided by the total; the fallback when that is 0."""
    total = sum(masses)
    return [mass / total for mass in masses] if total else list(fallback)


@wrong(
    "E07.siblings",
    "judge_siblings",
    "token_has_the_targets_law",
    "your function judges every child by the original p. After a refusal something else is wanted: the residual.",
)
def never_updates_p(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    for index, token in enumerate(children):
        if coins.accept(p[token], q[token], node=index):
            return index, token
    return None, coins.draw(scaled(excess(p, q), p), node=0, purpose="recover")


@wrong(
    "E07.siblings",
    "judge_siblings",
    "token_has_the_targets_law",
    "your function compares the bare excess with q. q sums to 1, the excess to beta: divide by its sum first.",
)
def forgets_to_normalise(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    left = list(p)
    for index, token in enumerate(children):
        if coins.accept(left[token], q[token], node=index):
            return index, token
        rest = excess(left, q)
        left = rest if any(rest) else left
    return None, coins.draw(left, node=0, purpose="recover")


@wrong(
    "E07.siblings",
    "judge_siblings",
    "one_child_is_the_chain_rule",
    "refused by all, your function draws from p itself: likely tokens come out twice over.",
)
def redraws_from_p(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    left = list(p)
    for index, token in enumerate(children):
        if coins.accept(left[token], q[token], node=index):
            return index, token
        left = scaled(excess(left, q), left)
    return None, coins.draw(p, node=0, purpose="recover")


@wrong(
    "E07.siblings",
    "judge_siblings",
    "every_child_gets_its_chance",
    "lossless, by looking at the first child only: the others were drafted for nothing.",
)
def first_child_only(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    token = children[0]
    if coins.accept(p[token], q[token], node=0):
        return 0, token
    return None, coins.draw(excess(p, q), node=0, purpose="recover")


@wrong(
    "E07.siblings",
    "judge_siblings",
    "token_has_the_targets_law",
    "your function takes a refused token out of q. That is the rule for children drawn *without* replacement; "
    "these were "
    "drawn independently and can come again.",
)
def takes_it_out_of_q(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    left, drawn_from = list(p), list(q)
    for index, token in enumerate(children):
        if coins.accept(left[token], drawn_from[token], node=index):
            return index, token
        left = scaled(excess(left, drawn_from), left)
        drawn_from[token] = Fraction(0)
        drawn_from = scaled(drawn_from, drawn_from)
    return None, coins.draw(left, node=0, purpose="recover")


@wrong(
    "E07.siblings",
    "judge_siblings",
    "asks_each_question_once",
    "your function asks about every child under node 0: the coins would answer all of them with the same number.",
)
def same_node_for_all(p: Law, q: Law, children: Sequence[int], coins: Any) -> Judged:
    left = list(p)
    for index, token in enumerate(children):
        if coins.accept(left[token], q[token], node=0):
            return index, token
        left = scaled(excess(left, q), left)
    return None, coins.draw(left, node=0, purpose="recover")
