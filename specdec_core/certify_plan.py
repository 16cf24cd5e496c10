"""What a certificate is asked for, and how many samples over which cells answer it."""

from collections.abc import Sequence
from dataclasses import dataclass
import math
from numbers import Integral, Real

from specdec_core.evidence import sequential_power, sequential_samples
from specdec_core.goodness import power, samples_needed
from specdec_core.noise_cells import Grid, grids, pairs_of
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
        slots: whether the sampler makes a batch together, so that a place in it may be broken.
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
    slots: bool = False
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
        parts: the partitions of texts.
        grids: the grids over the noise behind the texts.
        repeats: the pairs of positions whose equal tokens are counted.
        n: samples, at most so many in sequential mode.
        share: level of each single test, a share of the whole (Bonferroni).
        power: lowest probability, over the tests, to catch a law at the stated distance.
    """

    parts: tuple[Partition, ...]
    grids: tuple[Grid, ...]
    repeats: tuple[tuple[int, int], ...]
    n: int
    share: float
    power: float


@dataclass(frozen=True, slots=True)
class _Cells:
    """What a number of samples can fill."""

    parts: list[Partition]
    grids: list[Grid]
    pairs: int

    @property
    def tests(self) -> int:
        return len(self.parts) + len(self.grids) + self.pairs

    @property
    def degrees(self) -> int:
        """Of the test with most cells, which is the weakest."""
        return max([part.cells - 1 for part in self.parts] + [grid.degrees for grid in self.grids])


def plan(laws: NextLaws, demand: Demand) -> Plan:
    """Samples and cells that fit each other: the power is what is asked for, and every cell expects some samples.

    Fewer samples want coarser cells, and coarser cells need fewer samples. From the finest cells on, the two are
    settled in turn; both only shrink, so this ends at the finest cells that their own number of samples fills.

    Raises:
        ValueError: a law that leaves nothing to test; fewer samples than one test needs; more than a seed has.
    """
    joints = joint_laws(laws, demand.horizon)
    if demand.n is not None:
        n, cells = demand.n, _cells(joints, demand, demand.n)
        if not cells.parts:
            # a law with nothing to test raises here, whatever n is
            wanted, _ = _settled(joints, demand)
            raise ValueError(
                f"n is {n}; expected more samples, for no test has two cells that each expect {LEAST_EXPECTED} - leave "
                f"n out, or give the {wanted} that a distance of {demand.bias:g} takes at power {demand.wanted_power:g}"
            )
    else:
        n, cells = _settled(joints, demand)
    if n > REQUESTS_PER_SEED:
        raise ValueError(f"bias {demand.bias:g} needs n = {n}, above {REQUESTS_PER_SEED}; ask for a larger bias")
    return Plan(
        tuple(cells.parts),
        tuple(cells.grids),
        tuple(pairs_of(demand.horizon)),
        n,
        demand.level / cells.tests,
        _power(n, cells, demand),
    )


def _cells(joints: Sequence[JointLaw], demand: Demand, n: float, *, may_be_empty: bool = True) -> _Cells:
    parts = cut(joints, demand.max_cells, max(LEAST_PROBABLE, LEAST_EXPECTED / n), may_be_empty=may_be_empty)
    own = grids(demand.horizon, n, demand.max_cells, demand.batch if demand.slots else 1)
    return _Cells(parts, own, len(pairs_of(demand.horizon)))


def _settled(joints: Sequence[JointLaw], demand: Demand) -> tuple[int, _Cells]:
    cells = _cells(joints, demand, math.inf, may_be_empty=False)
    n = _needed(cells, demand)
    for _ in range(_MAX_ROUNDS):
        coarser = _cells(joints, demand, n)
        if not coarser.parts or coarser == cells:
            break
        cells = coarser
        before, n = n, _needed(cells, demand)
        if n >= before:
            break
    # the power may need less than the cells do: a law with one likely text has small cells only
    smallest = [min(part.probabilities) for part in cells.parts] + [
        1 / grid.cells / grid.strata for grid in cells.grids
    ]
    return max(n, math.ceil(LEAST_EXPECTED / min(smallest))), cells


def _needed(cells: _Cells, demand: Demand) -> int:
    """Samples for the wanted power in every test; it is the one with most cells that decides."""
    if demand.sequential:
        return sequential_samples(cells.degrees, demand.bias, cells.tests, demand.level, demand.wanted_power)
    return samples_needed(cells.degrees, demand.bias, demand.level / cells.tests, demand.wanted_power)


def _power(n: int, cells: _Cells, demand: Demand) -> float:
    if demand.sequential:
        return sequential_power(n, cells.degrees, demand.bias, cells.tests, demand.level, demand.wanted_power)
    return power(n, cells.degrees, demand.bias, demand.level / cells.tests)
