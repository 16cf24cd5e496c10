"""Statistics of the certificate: chi-square over a fixed partition, its power, and a bound on the distance."""

from collections.abc import Sequence
from dataclasses import dataclass
import math


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
        ValueError: lengths that differ, no counts, or a positive count in a cell of probability 0.
    """
    from scipy import stats

    if len(counts) != len(probabilities) or len(counts) < 2:
        raise ValueError(f"counts has {len(counts)} cells, probabilities {len(probabilities)}; expected the same, >= 2")
    n = sum(counts)
    if n == 0:
        raise ValueError("counts is all zero; there is nothing to test")
    found = chi_square(counts, probabilities)
    degrees = sum(p > 0 for p in probabilities) - 1
    tv = 0.5 * sum(abs(c / n - p) for c, p in zip(counts, probabilities))
    slack = 0.5 * math.sqrt((len(counts) - 1) / n) + math.sqrt(math.log(1 / level) / (2 * n))
    return Fit(found, degrees, float(stats.chi2.sf(found, degrees)), tv, min(1.0, tv + slack))


def chi_square(counts: Sequence[int], probabilities: Sequence[float]) -> float:
    """Pearson's sum of (count - n p)^2 / (n p); infinite for a positive count in a cell of probability 0."""
    n = sum(counts)
    if any(count for count, p in zip(counts, probabilities) if p <= 0):
        return math.inf
    return sum((count - n * p) ** 2 / (n * p) for count, p in zip(counts, probabilities) if p > 0)


def mean_tv(n: int, probabilities: Sequence[float]) -> float:
    """The mean total variation distance between a law and the frequencies of n samples of it.

    Exact: half the sum over cells of E|X - np| / n with X binomial, and E|X - np| = 2 v (1 - p) P(X = v) where
    v = floor(np) + 1 (De Moivre; Diaconis and Zabell 1991).
    """
    from scipy import stats

    total = 0.0
    for p in probabilities:
        v = math.floor(n * p) + 1
        total += v * (1 - p) * float(stats.binom.pmf(v, n, p)) / n
    return total


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
