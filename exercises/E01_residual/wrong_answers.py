"""Typical wrong answers to E01: the smallest change to the solution that makes each, and the property that catches it.

Read this after your own solution passes: which of these would you have noticed in generated text?
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
import math
from typing import Any

Mass = Fraction | float
Laws = Sequence[Mass]


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """One wrong function. `caught_by` is the property meant for it; the diagnosis carries the function's name."""

    answer: Callable[[Any, Any], Any]
    replaces: str
    caught_by: str
    story: str

    @property
    def name(self) -> str:
        """The name of the mistake."""
        return self.answer.__name__


def excess_of(p: Laws, q: Laws) -> list[Mass]:
    """max(p - q, 0) token by token, as in the solution."""
    return [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]


def scaled(masses: Laws, fallback: Laws) -> list[Mass]:
    """The masses divided by their total, as in the solution."""
    total = sum(masses)
    return [mass / total for mass in masses] if total else list(fallback)


def draws_from_p(p: Laws, q: Laws) -> list[Mass]:
    return list(p)


def unnormalised(p: Laws, q: Laws) -> list[Mass]:
    return excess_of(p, q) if p != q else list(p)


def absolute_difference(p: Laws, q: Laws) -> list[Mass]:
    return scaled([abs(p_x - q_x) for p_x, q_x in zip(p, q, strict=True)], p)


def swaps_p_and_q(p: Laws, q: Laws) -> list[Mass]:
    return scaled(excess_of(q, p), p)


def masks_p(p: Laws, q: Laws) -> list[Mass]:
    return scaled([p_x if p_x > q_x else 0 for p_x, q_x in zip(p, q, strict=True)], p)


def clamps_q(p: Laws, q: Laws) -> list[Mass]:
    return scaled(excess_of(p, [max(q_x, Fraction(1, 1000)) for q_x in q]), p) if p != q else list(p)


def epsilon_everywhere(p: Laws, q: Laws) -> list[Mass]:
    eps = Fraction(1, 10**6)
    return scaled([max(p_x - q_x, eps) for p_x, q_x in zip(p, q, strict=True)], p) if p != q else list(p)


def epsilon_in_the_denominator(p: Laws, q: Laws) -> list[Mass]:
    total = sum(excess_of(p, q)) + Fraction(1, 10**6)
    return [mass / total for mass in excess_of(p, q)] if p != q else list(p)


def softmax_of_the_difference(p: Laws, q: Laws) -> list[Mass]:
    return scaled([math.exp(p_x - q_x) for p_x, q_x in zip(p, q, strict=True)], p) if p != q else list(p)


def divides_zero_by_zero(p: Laws, q: Laws) -> list[Mass]:
    return [mass / sum(excess_of(p, q)) for mass in excess_of(p, q)]


def changes_its_arguments(p: list[Mass], q: Laws) -> list[Mass]:
    before = list(p)
    for x, q_x in enumerate(q):
        p[x] = max(p[x] - q_x, 0)
    return scaled(p, before)


def rounds_to_floats(p: Laws, q: Laws) -> list[Mass]:
    return scaled([max(float(p_x - q_x), 0.0) for p_x, q_x in zip(p, q, strict=True)], p)


def divides_by_one_minus_the_overlap(p: Laws, q: Laws) -> list[Mass]:
    beta = 1 - sum(min(p_x, q_x) for p_x, q_x in zip(p, q, strict=True))
    return [mass / beta for mass in excess_of(p, q)] if p != q else list(p)


def returns_the_overlap(p: Laws, q: Laws) -> Mass:
    return sum(min(p_x, q_x) for p_x, q_x in zip(p, q, strict=True))


def counts_both_sides(p: Laws, q: Laws) -> Mass:
    return sum(abs(p_x - q_x) for p_x, q_x in zip(p, q, strict=True))


WRONG_ANSWERS = (
    WrongAnswer(
        draws_from_p,
        "residual",
        "recovers_the_target",
        "'The draft was refused, so ask the target.' The text reads well; its law is wrong: likely tokens win twice.",
    ),
    WrongAnswer(
        unnormalised,
        "residual",
        "is_a_law",
        "Forgets the division. A sampler that rescales in silence hides it; one that compares a running sum with a "
        "uniform falls off the end of the vocabulary.",
    ),
    WrongAnswer(
        absolute_difference,
        "residual",
        "support_is_where_p_exceeds_q",
        "'The residual is the difference of the laws.' Half of it goes to tokens that have come out enough.",
    ),
    WrongAnswer(
        swaps_p_and_q,
        "residual",
        "support_is_where_p_exceeds_q",
        "Two papers use the letters the other way round: in Chen et al. 2302.01318 q is the target. Copied formulas "
        "then top up what the draft prefers.",
    ),
    WrongAnswer(
        masks_p,
        "residual",
        "proportional_to_excess",
        "'Redraw from the target, among the tokens it likes more than the draft.' Right tokens, wrong shares.",
    ),
    WrongAnswer(
        clamps_q,
        "residual",
        "proportional_to_excess",
        "Guards q against zero out of habit, although nothing is divided by q here. Tokens the draft never proposes "
        "come out too rarely.",
    ),
    WrongAnswer(
        epsilon_everywhere,
        "residual",
        "support_is_where_p_exceeds_q",
        "Wants no zero in a log later on. A token that top-k or a grammar forbids then comes out once in a million.",
    ),
    WrongAnswer(
        epsilon_in_the_denominator,
        "residual",
        "is_a_law",
        "Guards 0/0 with + eps. With p = q the row is all zeros, and a nearly perfect draft gives sums far below 1.",
    ),
    WrongAnswer(
        softmax_of_the_difference,
        "residual",
        "support_is_where_p_exceeds_q",
        "Takes the difference for logits because a softmax makes a law out of anything.",
    ),
    WrongAnswer(
        divides_zero_by_zero,
        "residual",
        "equal_laws_fall_back_to_p",
        "No branch for p = q. In plain Python an exception, in a tensor a NaN row that the next draw chokes on.",
    ),
    WrongAnswer(
        changes_its_arguments,
        "residual",
        "leaves_inputs_alone",
        "Saves a list by writing into p. The trace and the bonus draw read p again and find something else.",
    ),
    WrongAnswer(
        rounds_to_floats,
        "residual",
        "fractions_stay_exact",
        "0.0 or float(...) somewhere. Sampling is fine, but the exact proof of losslessness can no longer run.",
    ),
    WrongAnswer(
        divides_by_one_minus_the_overlap,
        "residual",
        "works_on_floats_too",
        "1 - sum(min(p, q)) equals beta on paper. In floats, with p and q nearly equal, only rounding is left of it.",
    ),
    WrongAnswer(
        returns_the_overlap,
        "rejection_probability",
        "beta_is_the_refused_mass",
        "The acceptance probability in place of the refusal probability (Leviathan et al. call that one beta).",
    ),
    WrongAnswer(
        counts_both_sides,
        "rejection_probability",
        "beta_is_the_refused_mass",
        "The L1 distance. Total variation distance is half of it.",
    ),
)
