"""Typical wrong answers to E04.power."""

import math

from specdec_labs.grade.zoo import wrong


def first_enough(degrees: int, level: float, power: float, per_sample: float) -> int:
    """The smallest n with enough power when each sample adds `per_sample` to the noncentrality."""
    from scipy import special

    critical = special.chdtri(degrees, level)

    def enough(n: int) -> bool:
        return 1 - special.chndtr(critical, degrees, n * per_sample) >= power

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@wrong(
    "E04.power",
    "samples_for_power",
    "asks_for_no_more",
    "your noncentrality is n bias^2. Total variation is half the L1 distance, so the hardest law has 4 n bias^2.",
)
def forgets_the_four(degrees: int, bias: float, level: float, power: float) -> int:
    return first_enough(degrees, level, power, bias**2)


@wrong(
    "E04.power",
    "samples_for_power",
    "reaches_the_power",
    "your noncentrality grows with bias, not with its square: half the bias needs four times the samples, not twice.",
)
def linear_in_the_bias(degrees: int, bias: float, level: float, power: float) -> int:
    return first_enough(degrees, level, power, 4 * bias)


@wrong(
    "E04.power",
    "samples_for_power",
    "reaches_the_power",
    "your function takes one degree of freedom whatever the test has. More cells scatter more and need more samples.",
)
def one_degree_for_all(degrees: int, bias: float, level: float, power: float) -> int:
    return first_enough(1, level, power, 4 * bias**2)


@wrong(
    "E04.power",
    "samples_for_power",
    "reaches_the_power",
    "your function asks for half of the rejections: that is where the mean of the statistic meets the cut, power 0.5.",
)
def half_of_the_rejections(degrees: int, bias: float, level: float, power: float) -> int:
    return first_enough(degrees, level, 0.5, 4 * bias**2)


@wrong(
    "E04.power",
    "samples_for_power",
    "is_a_count",
    "your function returns a float; the number of samples is an int, rounded up.",
)
def returns_a_float(degrees: int, bias: float, level: float, power: float) -> float:
    return first_enough(degrees, level, power, 4 * bias**2) + 0.5


@wrong(
    "E04.power",
    "samples_for_power",
    "asks_for_no_more",
    "your function doubles until it is enough and stops there: up to twice too many. Halve the last step down again.",
)
def stops_doubling(degrees: int, bias: float, level: float, power: float) -> int:
    return 2 ** (math.ceil(math.log2(first_enough(degrees, level, power, 4 * bias**2))) + 1)
