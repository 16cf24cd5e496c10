"""Statistics of the certificate: chi-square over a fixed partition, its power, and a bound on the distance."""

from collections.abc import Sequence
from dataclasses import dataclass
import math

from jaxtyping import Float64, Int
import numpy as np
from numpy import ndarray

TAIL_DRAWS = 4000
"""Of an importance-sampled p-value; its relative error is 2 to 4 % then, however small it is."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How well counts fit a law over a partition.

    Attributes:
        chi_square, degrees, p_value: the goodness-of-fit test.
        tv: total variation distance between the observed frequencies and the law, over the partition.
        tv_upper: with the stated confidence, the true distance over the partition is at most this.
    """

    chi_square: float
    degrees: int
    p_value: float
    tv: float
    tv_upper: float


def fit(counts: Sequence[int], probabilities: Sequence[float], level: float) -> Fit:
    """The fit of `counts` to `probabilities`; cells are fixed beforehand and sum to the whole.

    `tv_upper` = tv + sqrt((cells - 1) / n) / 2 + sqrt(log(1 / level) / (2 n)): the mean distance of n samples
    from their own law is at most the middle term, and changes of one sample move it by 1/n (McDiarmid).

    Raises:
        ValueError: lengths that differ, no counts, fewer than two cells, no level in (0, 1), or a NaN or negative
            count or probability.
    """
    if len(counts) != len(probabilities) or len(counts) < 2:
        raise ValueError(f"counts has {len(counts)} cells, probabilities {len(probabilities)}; expected the same, >= 2")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; expected a probability between 0 and 1")
    if sum(counts) == 0:
        raise ValueError("counts is all zero; there is nothing to test")
    return fit_strata(np.asarray(counts)[None], np.asarray(probabilities, dtype=np.float64), level)


def fit_strata(counts: Int[ndarray, "strata cells"], p: Float64[ndarray, " cells"], level: float) -> Fit:
    """The fit of one or more rows of counts, the sum of each row given, to the same law."""
    from scipy import special

    # first: it refuses what is no number
    found, is_possible = chi_square(counts, p), p > 0
    sizes, n = counts.sum(axis=1, keepdims=True), int(counts.sum())
    degrees = len(counts) * int(is_possible.sum() - 1)
    tv = 0.5 * float(np.abs(counts - sizes * p).sum()) / n
    slack = 0.5 * math.sqrt(len(counts) * (len(p) - 1) / n) + math.sqrt(math.log(1 / level) / (2 * n))
    p_value = float(special.chdtrc(degrees, found)) if degrees else float(found == 0)
    return Fit(found, degrees, p_value, tv, min(1.0, tv + slack))


def chi_square(
    counts: Int[ndarray, "... cells"] | Sequence[int], p: Float64[ndarray, " cells"] | Sequence[float]
) -> float:
    """Pearson's sum of (count - n p)^2 / (n p) over the cells of all rows; infinite for a count where p is 0."""
    rows, p = np.atleast_2d(counts), np.asarray(p, dtype=np.float64)
    for name, values in (("counts", rows), ("probabilities", p)):
        # NaN fails the comparison; beyond it, it would leave its cell out
        if not (values >= 0).all():
            wrong = values[~(values >= 0)][0]
            raise ValueError(f"a value of {name} is {wrong}; expected numbers, at least 0")
    if rows[:, p <= 0].any():
        return math.inf
    return float(_chi_squares(rows[:, p > 0][None], p[p > 0])[0])


def _chi_squares(counts: ndarray, p: Float64[ndarray, " cells"]) -> Float64[ndarray, " draws"]:
    expected = counts.sum(axis=-1, keepdims=True) * p
    return ((counts - expected) ** 2 / np.maximum(expected, 1e-300)).sum(axis=(-1, -2))


def tail_p_value(statistic: float, sizes: Sequence[int], p: Float64[ndarray, " cells"]) -> float:
    """P(chi-square >= statistic) for multinomial counts of these sizes, itself and not its limit law.

    By importance sampling: counts are drawn from the Dirichlet(c p)-multinomial whose mean chi-square is `statistic`,
    and weighted by the ratio of the two laws, so that a tail of 10^-9 takes no more draws than one of 0.1. Two standard
    errors are added. It wants a statistic above its mean.
    """
    rng, p = np.random.default_rng(0), p[p > 0]
    p = p / p.sum()
    degrees, n = len(p) - 1, sum(sizes) / len(sizes)
    ratio = statistic / (degrees * len(sizes))
    c = max((n - ratio) / (ratio - 1), 0.5) if ratio > 1 else 100 * n
    law = rng.dirichlet(np.maximum(c * p, 1e-3), (TAIL_DRAWS, len(sizes)))
    counts = rng.multinomial(np.asarray(sizes), law)
    log_weights = -log_bet(counts, p, c).sum(axis=-1)
    weights = np.where(_chi_squares(counts, p) >= statistic * (1 - 1e-12), np.exp(np.minimum(log_weights, 50)), 0.0)
    return min(1.0, float(weights.mean() + 2 * weights.std() / math.sqrt(TAIL_DRAWS)))


def log_bet(counts: Int[ndarray, "... cells"], p: Float64[ndarray, " cells"], c: float) -> Float64[ndarray, "..."]:
    """The log of the Dirichlet(c p)-multinomial law over the multinomial: a bettor's winnings, see `evidence`."""
    from scipy import special

    start = special.gammaln(c) - special.gammaln(c + counts.sum(axis=-1))
    return start + (special.gammaln(c * p + counts) - special.gammaln(c * p) - counts * np.log(p)).sum(axis=-1)


def repeat_p_value(hits: int, chance: float, n: int) -> float:
    """Two-sided bound on the tail of `hits` among n independent events of mean probability `chance`.

    The events may have different probabilities: beyond 1 from its mean such a sum has no heavier tails than the
    binomial with the same mean (Hoeffding 1956, theorem 5).
    """
    from scipy import special

    if abs(hits - n * chance) < 1:
        return 1.0
    if not 0 < chance < 1:
        return 0.0
    is_above = hits > n * chance
    tail = special.bdtrc(hits - 1, n, chance) if is_above else special.bdtr(hits, n, chance)
    return min(1.0, 2 * float(tail))


def mean_tv(n: int, probabilities: Sequence[float]) -> float:
    """The mean total variation distance between a law and the frequencies of n samples of it.

    Exact: half the sum over cells of E|X - np| / n with X binomial, and E|X - np| = 2 v (1 - p) P(X = v) where
    v = floor(np) + 1 (De Moivre; Diaconis and Zabell 1991).
    """
    from scipy import special

    p = np.asarray(probabilities, dtype=np.float64)
    p = p[(p > 0) & (p < 1)]
    v = np.floor(n * p) + 1
    log_choose = special.gammaln(n + 1) - special.gammaln(v + 1) - special.gammaln(np.maximum(n - v, 0) + 1)
    mass = np.where(v <= n, np.exp(log_choose + v * np.log(p) + (n - v) * np.log1p(-p)), 0.0)
    return float((v * (1 - p) * mass).sum()) / n


def power(n: int, degrees: int, bias: float, level: float) -> float:
    """Probability that the test at `level` rejects when the true law is at distance `bias` from the stated one.

    Of all laws at total variation distance `bias` over the partition, the hardest to see has noncentrality
    4 n bias^2 (Cauchy-Schwarz: sum d^2/p >= (sum |d|)^2), so this is a lower bound over all of them, as far as
    the noncentral chi-square approximates the statistic.
    """
    from scipy import stats

    return power_beyond(float(stats.chi2.isf(level, degrees)), n, degrees, bias)


def power_beyond(critical: float, n: int, degrees: int, bias: float) -> float:
    """The same for a test that rejects when chi-square is above `critical`."""
    from scipy import stats

    return float(stats.ncx2.sf(critical, degrees, 4 * n * bias**2))


def samples_needed(degrees: int, bias: float, level: float, wanted_power: float) -> int:
    """The smallest n (to 1 %) with `power(n, ...) >= wanted_power`."""
    from scipy import stats

    return samples_beyond(float(stats.chi2.isf(level, degrees)), degrees, bias, wanted_power)


def samples_beyond(critical: float, degrees: int, bias: float, wanted_power: float) -> int:
    """The smallest n (to 1 %) with `power_beyond(critical, n, ...) >= wanted_power`."""
    if not 0 < bias < 1:
        raise ValueError(f"bias is {bias}; expected a total variation distance between 0 and 1")
    if not 0 < wanted_power < 1:
        raise ValueError(f"power is {wanted_power}; expected a probability between 0 and 1")
    n = 1
    while power_beyond(critical, n, degrees, bias) < wanted_power:
        n *= 2
    low = n // 2
    while n - low > max(1, n // 100):
        middle = (low + n) // 2
        low, n = (low, middle) if power_beyond(critical, middle, degrees, bias) >= wanted_power else (middle, n)
    return n
