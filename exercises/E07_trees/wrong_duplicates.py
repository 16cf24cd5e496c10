"""Typical wrong answers to E07.duplicates."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from specdec_labs.grade.zoo import WrongAnswer, wrong

Law = Sequence[Fraction]
Judged = tuple[int | None, int]


@wrong(
    "E07.duplicates",
    "mended_duplicates",
    "mended_is_lossless",
    "this is the broken function still: a twin of a refused token is judged with that token's whole p again.",
)
def not_mended(p: Law, children: Sequence[int], coins: Any) -> Judged:
    refused: set[int] = set()
    for index, token in enumerate(children):
        left = 1 - sum(p[other] for other in refused - {token})
        if coins.accept(p[token], left, node=index):
            return index, token
        refused.add(token)
    rest = [0 if token in refused else mass for token, mass in enumerate(p)]
    return None, coins.draw(rest, node=0, purpose="recover")


@wrong(
    "E07.duplicates",
    "mended_duplicates",
    "mended_is_lossless",
    "twins are skipped now, but distinct children are judged by p over 1: after a refusal what is left of all "
    "tokens is "
    "less than 1, so a later child is accepted too rarely.",
)
def never_rescales(p: Law, children: Sequence[int], coins: Any) -> Judged:
    left = list(p)
    for index, token in enumerate(children):
        if coins.accept(left[token], 1, node=index):
            return index, token
        left[token] = Fraction(0)
    return None, coins.draw(left, node=0, purpose="recover")


@wrong(
    "E07.duplicates",
    "mended_duplicates",
    "mended_is_lossless",
    "refused by all, your function draws from p itself, the refused tokens included.",
)
def redraws_from_p(p: Law, children: Sequence[int], coins: Any) -> Judged:
    left = list(p)
    for index, token in enumerate(children):
        if coins.accept(left[token], sum(left), node=index):
            return index, token
        left[token] = Fraction(0)
    return None, coins.draw(p, node=0, purpose="recover")


@wrong(
    "E07.duplicates",
    "mended_duplicates",
    "mended_keeps_its_drafts",
    "lossless, by looking at the first child only; distinct children behind it are wasted.",
)
def first_child_only(p: Law, children: Sequence[int], coins: Any) -> Judged:
    if coins.accept(p[children[0]], 1, node=0):
        return 0, children[0]
    rest = [Fraction(0) if token == children[0] else mass for token, mass in enumerate(p)]
    return None, coins.draw(rest, node=0, purpose="recover")


@wrong(
    "E07.duplicates",
    "mended_duplicates",
    "mended_keeps_its_drafts",
    "lossless, because no child is ever accepted: your function asks the target every time.",
)
def gives_up_drafting(p: Law, children: Sequence[int], coins: Any) -> Judged:
    return None, coins.draw(p, node=0, purpose="recover")


def _input(name: str, caught_by: str, p: str, children: list[int], says: str) -> WrongAnswer:
    law = [Fraction(mass) for mass in p.split()]
    return WrongAnswer(
        name=name,
        task="E07.duplicates",
        replaces="DUPLICATE_INPUT",
        caught_by=caught_by,
        says=says,
        answer=(law, children),
    )


OUTSIDE = _input("child_outside", "input_is_legal", "1/2 1/2", [0, 2], "there is no token 2 in a vocabulary of two.")
DISTINCT = _input(
    "distinct_children",
    "input_tells_them_apart",
    "1/2 1/2",
    [0, 1],
    "distinct children are judged rightly; the bug needs a token that is proposed twice.",
)
CERTAIN = _input(
    "certain_token",
    "input_tells_them_apart",
    "1 0",
    [0, 0],
    "the first twin is always accepted here, so the second is never judged.",
)
THREE = _input("three_tokens", "input_is_the_smallest", "1/2 1/4 1/4", [0, 0], "right, and two tokens show it already.")
