"""Evidence that may be looked at after every sample: e-processes against the law, and early acceptance.

*Against.* A bettor starts with 1 and stakes it on every sample at the odds the stated law makes fair. What he
holds after n samples, E_n, has mean 1 under that law whatever the betting plan, so P(E_n >= 1 / level for some n)
<= level (Ville 1939): to look at it all the time and stop at will costs nothing. Over the cells of a partition
with probabilities p he bets c * p_i + (count of i so far) for cell i, normalised, which grows when the frequencies
settle elsewhere than p; one step multiplies E by sum_i p_i (c p_i + n_i) / ((c + n) p_i) = 1 in the mean. The
product is the ratio of a Dirichlet(c p)-multinomial to the stated law, in closed form. Large c bets on small
biases late, small c on large ones soon; the mean over several c is a martingale as well.

*Over several tests* the mean of the e-processes is one more: each has mean-1 steps given all samples so far, and
means of martingales of one filtration are martingales. It is at least the largest divided by the number of tests,
so it rejects whenever Bonferroni would, and earlier when several tests see the bias.

*Repeats* have a chance p of their own in each sample. The bettor stakes at odds r times those of the law:
b = r p / (1 - p + r p) for a repeat, so a step multiplies E by r^hit / (1 - p + r p), whose mean is 1; the mean over
several r is taken.

*For.* E cannot show that a law is right. From half the planned samples on, the certificate is given when E is below
1 and every test's chi-square is so small that a law at the stated distance would show one that small with a
probability as good as spent: the looks share half the allowed miss probability in proportion to the samples between
them. A law at that distance over some partition has to be missed by that partition's test, so no correction for
several tests.

Sources: Ville, Etude critique de la notion de collectif (1939); Robbins (1970) for mixtures; Ramdas, Gruenwald,
Vovk and Shafer, Game-theoretic statistics and safe anytime-valid inference (2210.01948); Lan and DeMets (1983) for
the spending of error probability over looks.
"""

from collections.abc import Sequence
import math

from jaxtyping import Float64, Int
import numpy as np
from numpy import ndarray

from specdec_core.goodness import log_bet, power_beyond, samples_beyond

STRENGTHS = (1.0, 1 / 8, 1 / 64)
"""The strengths c of the bettor's belief in the law, in units of the planned samples."""

FIRST_ACCEPTANCE = 0.5
"""Share of the planned samples before which nothing is accepted."""


RATIOS = (1 / 16, 1 / 2, 0.8, 0.95, 1.05, 1.25, 2.0, 16.0, 256.0)
"""The odds at which the bettor on repeats sees a repeat, in units of the law's."""


def log_e_value(counts: Sequence[int], probabilities: Sequence[float], planned: int) -> float:
    """The logarithm of the e-process of one partition at these counts; `planned` scales the strengths.

    With N samples in all it is the mean over c of G(c) / G(c + N) * prod_i G(c p_i + n_i) / G(c p_i) / p_i^n_i,
    G the gamma function. Infinite for a positive count in a cell of probability 0.
    """
    return float(log_e_values(np.asarray(counts), probabilities, planned))


def log_e_values(
    counts: Int[ndarray, "... cells"], probabilities: Sequence[float], planned: int
) -> Float64[ndarray, "..."]:
    """`log_e_value` of many counts at once."""
    return log_e_strata(counts[..., None, :], np.asarray(probabilities, dtype=np.float64), planned)


def log_e_strata(
    counts: Int[ndarray, "... strata cells"], p: Float64[ndarray, " cells"], planned: int
) -> Float64[ndarray, "..."]:
    """The same over several rows of counts with one law: they are bet on at one strength, and the bets multiplied."""
    from scipy import special

    seen = counts[..., p > 0]
    strengths = planned / counts.shape[-2] * np.array(STRENGTHS)
    bets = np.stack([log_bet(seen, p[p > 0], c).sum(axis=-1) for c in strengths])
    found = np.asarray(special.logsumexp(bets, axis=0)) - math.log(len(STRENGTHS))
    return np.where(counts[..., p <= 0].any(axis=(-1, -2)), math.inf, found)


def log_mean(logs: Sequence[float]) -> float:
    """log of the mean of numbers given by their logarithms."""
    largest = max(logs)
    if largest == math.inf:
        return math.inf
    return largest + math.log(sum(math.exp(log - largest) for log in logs) / len(logs))


def critical_at_the_end(degrees: int, tests: int, level: float) -> float:
    """The chi-square that makes the certificate reject at the planned n, whatever the other tests show.

    For counts that are not too small log E is X / 2 * n / (n + c) - degrees / 2 * log(1 + n / c), X the
    chi-square (Laplace). One test rejects for all when it reaches log(tests * number of c / level) for some c.
    """
    wanted = math.log(tests * len(STRENGTHS) / level)
    return min(2 * (1 + c) * (wanted + degrees / 2 * math.log1p(1 / c)) for c in STRENGTHS)


def sequential_power(n: int, degrees: int, bias: float, tests: int, level: float, wanted_power: float) -> float:
    """At least this probability to reject a law at distance `bias` within `n` planned samples.

    What the early acceptances may miss is taken off. Looking before the end only adds to it.
    """
    at_the_end = power_beyond(critical_at_the_end(degrees, tests, level), n, degrees, bias)
    return max(0.0, at_the_end - acceptance_budget(wanted_power))


def sequential_samples(degrees: int, bias: float, tests: int, level: float, wanted_power: float) -> int:
    """The smallest n (to 1 %) with `sequential_power(n, ...) >= wanted_power`."""
    at_the_end = wanted_power + acceptance_budget(wanted_power)
    return samples_beyond(critical_at_the_end(degrees, tests, level), degrees, bias, at_the_end)


def acceptance_budget(wanted_power: float) -> float:
    """The probability to accept a law at the stated distance before the planned n."""
    return (1 - wanted_power) / 2


def acceptance_spent(n: int, planned: int, wanted_power: float) -> float:
    """The part of that budget that looks up to `n` samples may have spent."""
    first = FIRST_ACCEPTANCE * planned
    return acceptance_budget(wanted_power) * min(1.0, max(0.0, (n - first) / (planned - first)))


def is_too_small(chi_square: float, n: int, degrees: int, bias: float, chance: float) -> bool:
    """Whether a law at distance `bias` shows a chi-square this small with probability `chance` at most."""
    from scipy import special

    return float(special.chndtr(chi_square, degrees, 4 * n * bias**2)) <= chance
