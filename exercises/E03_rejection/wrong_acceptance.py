"""Typical wrong answers to E03.acceptance."""

from collections.abc import Sequence
from fractions import Fraction

from specdec_labs.grade.zoo import wrong

Mass = Fraction | float
Law = Sequence[Mass]


def ratio(p: Mass, q: Mass) -> Mass:
    """min(1, p/q) without a division by 0, as in the solution."""
    return (1 if p else 0) if p >= q else p / q


@wrong(
    "E03.acceptance",
    "keep_probability",
    "is_capped_at_one",
    "your function returns p/q without the cap: above 1 where p is larger. A probability ends at 1.",
)
def forgets_the_cap(p: Law, q: Law, token: int) -> Mass:
    return p[token] / q[token] if q[token] else (1 if p[token] else 0)


@wrong(
    "E03.acceptance",
    "keep_probability",
    "keeps_by_the_ratio",
    "your ratio is upside down: a draft that q likes too much must be kept less often, by p/q.",
)
def upside_down(p: Law, q: Law, token: int) -> Mass:
    return ratio(q[token], p[token]) if p[token] else 0


@wrong(
    "E03.acceptance",
    "keep_probability",
    "keeps_by_the_ratio",
    "your function keeps a draft with probability p, as if it were certain. It came up with probability q only; "
    "divide.",
)
def keeps_with_p(p: Law, q: Law, token: int) -> Mass:
    return p[token] if p[token] < q[token] else (1 if p[token] else 0)


@wrong(
    "E03.acceptance",
    "keep_probability",
    "no_division_by_zero",
    "where q is 0 your function divides by 0. No draft comes up there, but a batch computes the row; p > 0 means keep.",
)
def divides_by_zero(p: Law, q: Law, token: int) -> Mass:
    return min(1, p[token] / q[token]) if p[token] else 0


@wrong(
    "E03.acceptance",
    "keep_probability",
    "forbidden_tokens_never",
    "where p and q are both 0 your function says 1: 'p >= q'. What the target forbids is never kept.",
)
def keeps_the_forbidden(p: Law, q: Law, token: int) -> Mass:
    return 1 if p[token] >= q[token] else p[token] / q[token]


@wrong(
    "E03.acceptance",
    "keep_probability",
    "keep_stays_exact",
    "the number is right, but Fractions went in and a float came out: look for 1.0, 0.0 or float(...).",
)
def keep_in_floats(p: Law, q: Law, token: int) -> Mass:
    return float(ratio(p[token], q[token]))


@wrong(
    "E03.acceptance",
    "mean_acceptance",
    "equal_laws_keep_everything",
    "your function returns sum p * q, the chance that two draws agree. The rule accepts far more than equal draws: "
    "with p = q it accepts everything.",
)
def chance_of_a_match(p: Law, q: Law) -> Mass:
    return sum(p_x * q_x for p_x, q_x in zip(p, q, strict=True))


@wrong(
    "E03.acceptance",
    "mean_acceptance",
    "mean_is_the_overlap",
    "your function subtracts all of |p - q|. What p has too much, q has too little: that is twice the distance.",
)
def subtracts_both_sides(p: Law, q: Law) -> Mass:
    return 1 - sum(abs(p_x - q_x) for p_x, q_x in zip(p, q, strict=True))


@wrong(
    "E03.acceptance",
    "mean_acceptance",
    "mean_is_the_overlap",
    "your function averages min(1, p/q) over the tokens as if each came up equally often. They come up by q.",
)
def averages_over_tokens(p: Law, q: Law) -> Mass:
    return sum(ratio(p_x, q_x) for p_x, q_x in zip(p, q, strict=True)) / len(p) if list(p) != list(q) else 1


@wrong(
    "E03.acceptance",
    "mean_acceptance",
    "mean_stays_exact",
    "the number is right, but Fractions went in and a float came out: look for 0.0 or float(...).",
)
def mean_in_floats(p: Law, q: Law) -> Mass:
    return float(sum(min(p_x, q_x) for p_x, q_x in zip(p, q, strict=True)))
