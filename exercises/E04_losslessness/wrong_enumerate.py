"""Typical wrong answers to E04.enumerate."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from specdec_labs.grade.zoo import wrong

Law = Sequence[Fraction]
Keep = Callable[[Law, Law, int], Fraction]
Redraw = Callable[[Law, Law, int], Law]


@wrong(
    "E04.enumerate",
    "law_of_one_draft",
    "is_a_law",
    "your function counts the kept drafts and forgets the rounds in which a draft was refused; they emit a token too.",
)
def forgets_refusals(p: Law, q: Law, keep: Keep, redraw: Redraw) -> list[Fraction]:
    return [q_x * keep(p, q, x) for x, q_x in enumerate(q)]


@wrong(
    "E04.enumerate",
    "law_of_one_draft",
    "is_a_law",
    "your function adds the redraw whether or not the draft was refused: its weight is q(x) (1 - keep(x)).",
)
def redraws_always(p: Law, q: Law, keep: Keep, redraw: Redraw) -> list[Fraction]:
    law = [q_x * keep(p, q, x) for x, q_x in enumerate(q)]
    for x, q_x in enumerate(q):
        law = [mass + q_x * more for mass, more in zip(law, redraw(p, q, x), strict=True)]
    return law


@wrong(
    "E04.enumerate",
    "law_of_one_draft",
    "wrong_rules_are_seen",
    "your function returns p whatever the rule is. That is the theorem assumed, not computed.",
)
def assumes_the_theorem(p: Law, q: Law, keep: Keep, redraw: Redraw) -> list[Fraction]:
    return list(p)


@wrong(
    "E04.enumerate",
    "law_of_one_draft",
    "redraws_by_the_refused_token",
    "your function redraws as if token 0 had been refused every time. The law to redraw from may depend on the token.",
)
def redraws_as_for_the_first(p: Law, q: Law, keep: Keep, redraw: Redraw) -> list[Fraction]:
    law = [q_x * keep(p, q, x) for x, q_x in enumerate(q)]
    refused = 1 - sum(law)
    return [mass + refused * more for mass, more in zip(law, redraw(p, q, 0), strict=True)]


@wrong(
    "E04.enumerate",
    "law_of_one_draft",
    "the_right_rule_gives_p",
    "your function drafts from p. Drafts come from q; with p there would be nothing to correct.",
)
def drafts_from_p(p: Law, q: Law, keep: Keep, redraw: Redraw) -> list[Fraction]:
    law = [p_x * keep(p, q, x) for x, p_x in enumerate(p)]
    for x, p_x in enumerate(p):
        refused = p_x * (1 - keep(p, q, x))
        law = [mass + refused * more for mass, more in zip(law, redraw(p, q, x), strict=True)]
    return law


@wrong(
    "E04.enumerate",
    "law_of_one_draft",
    "stays_exact",
    "the law is right, but Fractions went in and floats came out: start with Fraction(0) or 0.",
)
def in_floats(p: Law, q: Law, keep: Keep, redraw: Redraw) -> list[Any]:
    law = [float(q_x * keep(p, q, x)) for x, q_x in enumerate(q)]
    for x, q_x in enumerate(q):
        refused = float(q_x * (1 - keep(p, q, x)))
        law = [mass + refused * float(more) for mass, more in zip(law, redraw(p, q, x), strict=True)]
    return law
