"""What a certificate is asked for, and how many samples over which cells answer it."""

from collections.abc import Sequence
from dataclasses import dataclass
import math
from numbers import Integral, Real

from specdec_core.evidence import sequential_power, sequential_samples
from specdec_core.goodness import power, samples_needed
from specdec_core.partition import LEAST_EXPECTED, LEAST_PROBABLE, JointLaw, NextLaws, Partition, cut, joint_laws

MAX_HORIZON = 20
"""The tests grow with the square of the horizon, and a longer one would find nothing but thinner cells."""

REQUESTS_PER_SEED = 1 << 20
"""Samples that one seed can have before it would read the noise of the next."""

_MAX_ROUNDS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What is asked of a certificate.

    Attributes:
        horizon: tokens under test.
        n: samples, at most so many in sequential mode; None takes what `wanted_power` against `bias` needs.
        bias, wanted_power: a law at total variation distance `bias` is to be caught with this probability.
        level: false-alarm probability of the whole certificate.
        seed: which noise.
        max_cells: of each partition.
        batch: samples asked for at a time; a sequential certificate looks after each batch.
        sequential: look as it goes and stop early.

    Raises:
        ValueError: a value out of range.
    """

    horizon: int
    n: int | None = None
    bias: float = 0.06
    wanted_power: float = 0.99
    level: float = 1e-3
    seed: int = 0
    max_cells: int = 40
    batch: int = 256
    sequential: bool = False

    def __post_init__(self) -> None:
        for name in ("bias", "wanted_power", "level"):
            value = getattr(self, name)
            number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
            if not 0 < number < 1:
                raise ValueError(f"{name} is {value!r}; expected a number between 0 and 1")
            # plain numbers, whatever came: a certificate is written as JSON
            object.__setattr__(self, name, number)
        ranges = {
            "horizon": (self.horizon, 1, MAX_HORIZON),
            "n": (1 if self.n is None else self.n, 1, REQUESTS_PER_SEED),
            "seed": (self.seed, 0, math.inf),
            "max_cells": (self.max_cells, 2, math.inf),
            "batch": (self.batch, 1, math.inf),
        }
        for name, (value, least, most) in ranges.items():
            if not isinstance(value, Integral) or not least <= value <= most:
                upper = "" if most == math.inf else f" and at most {most}"
                raise ValueError(f"{name} is {value!r}; expected a whole number, at least {least}{upper}")
            if getattr(self, name) is not None:
                object.__setattr__(self, name, int(value))


@dataclass(frozen=True, slots=True)
class Plan:
    """The cells of each test, the samples, and what they promise.

    Attributes:
        parts: the partitions.
        n: samples, at most so many in sequential mode.
        share: level of each single test, a share of the whole (Bonferroni).
        power: lowest probability, over the tests, to catch a law at the stated distance.
    """

    parts: tuple[Partition, ...]
    n: int
    share: float
    power: float


def plan(laws: NextLaws, demand: Demand) -> Plan:
    """Samples and cells that fit each other: the power is what is asked for, and every cell expects some samples.

    Fewer samples want coarser cells, and coarser cells need fewer samples. From the finest cells on, the two are
    settled in turn; both only shrink, so this ends at the finest cells that their own number of samples fills.

    Raises:
        ValueError: a law that leaves nothing to test; fewer samples than one test needs; more than a seed has.
    """
    joints = joint_laws(laws, demand.horizon)
    if demand.n is not None:
        n, parts = demand.n, cut(joints, demand.max_cells, _least(demand.n), may_be_empty=True)
        if not parts:
            # a law with nothing to test raises here, whatever n is
            wanted, _ = _settled(joints, demand)
            raise ValueError(
                f"n is {n}; expected more samples, for no test has two cells that each expect {LEAST_EXPECTED} - leave "
                f"n out, or give the {wanted} that a distance of {demand.bias:g} takes at power {demand.wanted_power:g}"
            )
    else:
        n, parts = _settled(joints, demand)
    if n > REQUESTS_PER_SEED:
        raise ValueError(f"bias {demand.bias:g} needs n = {n}, above {REQUESTS_PER_SEED}; ask for a larger bias")
    return Plan(tuple(parts), n, demand.level / len(parts), min(_power(n, part, parts, demand) for part in parts))


def _settled(joints: Sequence[JointLaw], demand: Demand) -> tuple[int, list[Partition]]:
    parts = cut(joints, demand.max_cells)
    n = _needed(parts, demand)
    for _ in range(_MAX_ROUNDS):
        if n * LEAST_PROBABLE >= LEAST_EXPECTED:
            break
        coarser = cut(joints, demand.max_cells, _least(n), may_be_empty=True)
        if not coarser:
            break
        parts = coarser
        before, n = n, _needed(parts, demand)
        if n >= before:
            break
    # the power may need less than the cells do: a law with one likely text has small cells only
    fills = math.ceil(LEAST_EXPECTED / min(min(part.probabilities) for part in parts))
    return max(n, fills), parts


def _least(n: int) -> float:
    return max(LEAST_PROBABLE, LEAST_EXPECTED / n)


def _needed(parts: Sequence[Partition], demand: Demand) -> int:
    """Samples for the wanted power in every test; it is the one with most cells that decides."""
    degrees = max(part.cells for part in parts) - 1
    if demand.sequential:
        return sequential_samples(degrees, demand.bias, len(parts), demand.level, demand.wanted_power)
    return samples_needed(degrees, demand.bias, demand.level / len(parts), demand.wanted_power)


def _power(n: int, part: Partition, parts: Sequence[Partition], demand: Demand) -> float:
    if demand.sequential:
        return sequential_power(n, part.cells - 1, demand.bias, len(parts), demand.level, demand.wanted_power)
    return power(n, part.cells - 1, demand.bias, demand.level / len(parts))
