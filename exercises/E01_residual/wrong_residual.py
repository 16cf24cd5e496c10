"""Typical wrong answers to E01.residual: the smallest change to the solution that makes each, and what catches it.

Read this after your own solution passes: which of these would you have noticed in generated text?
"""

from collections.abc import Sequence
from fractions import Fraction
import math

from specdec_labs.grade.zoo import wrong

Mass = Fraction | float
Laws = Sequence[Mass]


def excess_of(p: Laws, q: Laws) -> list[Mass]:
    """max(p - q, 0) token by token, as in the solution."""
    return [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]


def scaled(masses: Laws, fallback: Laws) -> list[Mass]:
    """The masses divided by their total, as in the solution."""
    total = sum(masses)
    return [mass / total for mass in masses] if total else list(fallback)


# 'The draft was refused, so ask the target.' The text reads well; its law is wrong: likely tokens win twice.
@wrong(
    "E01.residual",
    "residual",
    "recovers_the_target",
    "your function returns p itself. That is 'draw again from the target after a refusal'. The accept step has "
    "already kept min(p, q), so likely drafts come out too often: the output law is min(p, q) + beta * p, not "
    "p.",
)
def draws_from_p(p: Laws, q: Laws) -> list[Mass]:
    return list(p)


# Forgets the division. A sampler that rescales in silence hides it; one that compares a running sum with a uniform
# falls off the end of the vocabulary.
@wrong(
    "E01.residual",
    "residual",
    "is_a_law",
    "your function returns max(p - q, 0) as it is. It sums to beta, the refusal probability; divide by that sum.",
)
def unnormalised(p: Laws, q: Laws) -> list[Mass]:
    return excess_of(p, q) if p != q else list(p)


# 'The residual is the difference of the laws.' Half of it goes to tokens that have come out enough.
@wrong(
    "E01.residual",
    "residual",
    "support_is_where_p_exceeds_q",
    "your function spreads |p - q|. Tokens with p < q already come out often enough as accepted drafts and must "
    "get nothing: take max(p - q, 0) instead of abs(p - q).",
)
def absolute_difference(p: Laws, q: Laws) -> list[Mass]:
    return scaled([abs(p_x - q_x) for p_x, q_x in zip(p, q, strict=True)], p)


# Two papers use the letters the other way round: in Chen et al. 2302.01318 q is the target. Copied formulas then top
# up what the draft prefers.
@wrong(
    "E01.residual",
    "residual",
    "support_is_where_p_exceeds_q",
    "your function tops up the tokens that the draft likes too much: it computes max(q - p, 0). p is the "
    "target, q the draft; the target's missing mass is max(p - q, 0).",
)
def swaps_p_and_q(p: Laws, q: Laws) -> list[Mass]:
    return scaled(excess_of(q, p), p)


# 'Redraw from the target, among the tokens it likes more than the draft.' Right tokens, wrong shares.
@wrong(
    "E01.residual",
    "residual",
    "proportional_to_excess",
    "your function keeps p where p > q and rescales it. The support is right, the shares are not: each token "
    "needs its excess p - q, not its whole p.",
)
def masks_p(p: Laws, q: Laws) -> list[Mass]:
    return scaled([p_x if p_x > q_x else 0 for p_x, q_x in zip(p, q, strict=True)], p)


# Guards q against zero out of habit, although nothing is divided by q here. Tokens the draft never proposes come out
# too rarely.
@wrong(
    "E01.residual",
    "residual",
    "proportional_to_excess",
    "your result is nearly right, off by a little where q is small or zero. That is an epsilon in q (max(q, "
    "eps) or q + eps). q is never divided by here, so it needs no guard.",
)
def clamps_q(p: Laws, q: Laws) -> list[Mass]:
    return scaled(excess_of(p, [max(q_x, Fraction(1, 1000)) for q_x in q]), p) if p != q else list(p)


# Wants no zero in a log later on. A token that top-k or a grammar forbids then comes out once in a million.
@wrong(
    "E01.residual",
    "residual",
    "support_is_where_p_exceeds_q",
    "every token without excess gets a small mass. That is max(p - q, eps) in place of max(p - q, 0): with it a "
    "token the target forbids comes out now and then.",
)
def epsilon_everywhere(p: Laws, q: Laws) -> list[Mass]:
    eps = Fraction(1, 10**6)
    return scaled([max(p_x - q_x, eps) for p_x, q_x in zip(p, q, strict=True)], p) if p != q else list(p)


# Guards 0/0 with + eps. With p = q the row is all zeros, and a nearly perfect draft gives sums far below 1.
@wrong(
    "E01.residual",
    "residual",
    "is_a_law",
    "the shares are right, but the total is a little below 1. That is excess / (total + eps). The only total "
    "that needs a guard is 0, which happens when p = q: branch on it and return p.",
)
def epsilon_in_the_denominator(p: Laws, q: Laws) -> list[Mass]:
    total = sum(excess_of(p, q)) + Fraction(1, 10**6)
    return [mass / total for mass in excess_of(p, q)] if p != q else list(p)


# Takes the difference for logits because a softmax makes a law out of anything.
@wrong(
    "E01.residual",
    "residual",
    "support_is_where_p_exceeds_q",
    "your function takes a softmax of p - q. These are probabilities already, not logits: cut at zero and "
    "divide by the sum.",
)
def softmax_of_the_difference(p: Laws, q: Laws) -> list[Mass]:
    return scaled([math.exp(p_x - q_x) for p_x, q_x in zip(p, q, strict=True)], p) if p != q else list(p)


# No branch for p = q. In plain Python an exception, in a tensor a NaN row that the next draw chokes on.
@wrong(
    "E01.residual",
    "residual",
    "equal_laws_fall_back_to_p",
    "with p = q nothing is left over, and your function divides 0 by 0. Return p when the total is 0.",
)
def divides_zero_by_zero(p: Laws, q: Laws) -> list[Mass]:
    return [mass / sum(excess_of(p, q)) for mass in excess_of(p, q)]


# Saves a list by writing into p. The trace and the bonus draw read p again and find something else.
@wrong(
    "E01.residual",
    "residual",
    "leaves_inputs_alone",
    "your function writes into the lists it was given. Build a new list.",
)
def changes_its_arguments(p: list[Mass], q: Laws) -> list[Mass]:
    before = list(p)
    for x, q_x in enumerate(q):
        p[x] = max(p[x] - q_x, 0)
    return scaled(p, before)


# 0.0 or float(...) somewhere. Sampling is fine, but the exact proof of losslessness can no longer run.
@wrong(
    "E01.residual",
    "residual",
    "fractions_stay_exact",
    "the law is right, but Fractions went in and floats came out. Look for 0.0, 1.0, float(...) or an epsilon "
    "such as 1e-10: with plain 0 and 1 the same code serves Fractions and floats.",
)
def rounds_to_floats(p: Laws, q: Laws) -> list[Mass]:
    return scaled([max(float(p_x - q_x), 0.0) for p_x, q_x in zip(p, q, strict=True)], p)


# 1 - sum(min(p, q)) equals beta on paper. In floats, with p and q nearly equal, only rounding is left of it.
@wrong(
    "E01.residual",
    "residual",
    "works_on_floats_too",
    "in Fractions you are right; in floats your law does not sum to 1 when p and q are nearly equal. 1 - "
    "sum(min(p, q)) then subtracts two numbers that agree in all but the last digits. Divide by the sum of the "
    "very masses you return.",
)
def divides_by_one_minus_the_overlap(p: Laws, q: Laws) -> list[Mass]:
    beta = 1 - sum(min(p_x, q_x) for p_x, q_x in zip(p, q, strict=True))
    return [mass / beta for mass in excess_of(p, q)] if p != q else list(p)


# The acceptance probability in place of the refusal probability (Leviathan et al. call that one beta).
@wrong(
    "E01.residual",
    "rejection_probability",
    "beta_is_the_refused_mass",
    "your function returns sum(min(p, q)), the probability that the draft is kept. It is refused with 1 - that.",
)
def returns_the_overlap(p: Laws, q: Laws) -> Mass:
    return sum(min(p_x, q_x) for p_x, q_x in zip(p, q, strict=True))


# The L1 distance. Total variation distance is half of it.
@wrong(
    "E01.residual",
    "rejection_probability",
    "beta_is_the_refused_mass",
    "your function returns sum(|p - q|). What q has too much, p has too little: that counts the mass twice.",
)
def counts_both_sides(p: Laws, q: Laws) -> Mass:
    return sum(abs(p_x - q_x) for p_x, q_x in zip(p, q, strict=True))
