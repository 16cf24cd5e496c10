"""The counts of a running certificate, and what they say so far."""

from collections.abc import Callable, Sequence
from dataclasses import replace
import math
from typing import Protocol

from jaxtyping import Float64, Int
import numpy as np
from numpy import ndarray

from specdec_core.certificate import Kind, PositionTest
from specdec_core.certify_plan import Demand, Plan
from specdec_core.evidence import RATIOS, acceptance_spent, is_too_small, log_e_strata, log_mean
from specdec_core.goodness import Fit, chi_square, fit_strata, mean_tv, repeat_p_value, tail_p_value
from specdec_core.noise_cells import Grid, Readings
from specdec_core.partition import Partition, Tokens

_UNIT = 1 << 40  # whole units: the sum of chances does not depend on the batches
_NEAR = 20
_LARGEST_REFINED = 0.1
"""P-values up to 20 times what rejects are computed anew, since the chi-square law is too light far out."""


class Count(Protocol):
    """The counts of one test."""

    kind: Kind
    positions: tuple[int, ...]
    cells: int
    degrees: int

    def add(self, samples: Sequence[Tokens], readings: Readings) -> None:
        """Counts a batch."""
        ...

    @property
    def chi_square(self) -> float:
        """Pearson's statistic."""
        ...

    def fit(self, level: float) -> Fit:
        """How well the counts fit."""
        ...

    def tail(self, found: Fit) -> float:
        """The p-value of this fit without the chi-square law."""
        ...

    def noise_tv(self) -> float:
        """Mean distance of a perfect sampler."""
        ...

    def log_e(self, planned: int) -> float:
        """The logarithm of the e-process."""
        ...


class CellCount:
    """Samples by cell, of texts or of a grid; several rows where the place in the batch is given."""

    def __init__(
        self,
        kind: Kind,
        positions: tuple[int, ...],
        p: Float64[ndarray, " cells"],
        strata: int,
        cells_of: Callable[[Sequence[Tokens], Readings], Int[ndarray, " samples"]],
    ) -> None:
        self.kind: Kind = kind
        self.positions, self.cells = positions, strata * len(p)
        self.degrees = strata * (len(p) - 1)
        self.counts = np.zeros((strata, len(p)), dtype=np.int64)
        self._p, self._cells_of = p, cells_of

    @classmethod
    def of_texts(cls, part: Partition) -> "CellCount":
        """Counts of a partition of texts."""

        def cells_of(samples: Sequence[Tokens], readings: Readings) -> Int[ndarray, " samples"]:
            return np.array([part.cell_of(tokens) for tokens in samples])

        return cls("text", part.positions, np.array(part.probabilities), 1, cells_of)

    @classmethod
    def of_grid(cls, grid: Grid) -> "CellCount":
        """Counts of a grid over u."""
        even = np.full(grid.cells, 1 / grid.cells)
        return cls(grid.kind, grid.positions, even, grid.strata, lambda samples, readings: grid.cells_of(readings))

    def add(self, samples: Sequence[Tokens], readings: Readings) -> None:
        """Counts a batch."""
        found = np.bincount(self._cells_of(samples, readings), minlength=self.counts.size)
        self.counts += found.reshape(self.counts.shape)

    @property
    def chi_square(self) -> float:
        """Pearson's statistic."""
        return chi_square(self.counts, self._p)

    def fit(self, level: float) -> Fit:
        """How well the counts fit."""
        return fit_strata(self.counts, self._p, level)

    def tail(self, found: Fit) -> float:
        """By importance sampling."""
        return tail_p_value(found.chi_square, self.counts.sum(axis=1).tolist(), self._p)

    def noise_tv(self) -> float:
        """Exact, by rows."""
        sizes = self.counts.sum(axis=1).tolist()
        return sum(size * mean_tv(size, self._p.tolist()) for size in sizes if size) / sum(sizes)

    def log_e(self, planned: int) -> float:
        """The logarithm of the e-process."""
        return float(log_e_strata(self.counts, self._p, planned))


class RepeatCount:
    """Equal tokens at two positions, each with the chance that the text before the later one gave it."""

    kind: Kind = "repeat"
    cells, degrees = 2, 1

    def __init__(self, positions: tuple[int, int], column: int) -> None:
        self.positions = positions
        self._column = column
        self._n = self._hits = self._units = 0
        self._log_fair = np.zeros(len(RATIOS))

    def add(self, samples: Sequence[Tokens], readings: Readings) -> None:
        """Counts a batch."""
        chances = readings.chances[:, self._column]
        self._n += len(chances)
        self._hits += int(readings.repeats[:, self._column].sum())
        self._units += int(np.rint(chances * _UNIT).astype(np.int64).sum())
        self._log_fair += np.log1p(chances[:, None] * (np.array(RATIOS) - 1)).sum(axis=0)

    @property
    def _chance(self) -> float:
        return self._units / _UNIT / self._n

    @property
    def chi_square(self) -> float:
        """Of the two cells, at the mean chance."""
        return chi_square([self._hits, self._n - self._hits], [self._chance, 1 - self._chance])

    def fit(self, level: float) -> Fit:
        """The p-value is a bound (Hoeffding), and so is the distance."""
        tv = abs(self._hits / self._n - self._chance)
        upper = min(1.0, tv + math.sqrt(math.log(2 / level) / (2 * self._n)))
        return Fit(self.chi_square, 1, repeat_p_value(self._hits, self._chance, self._n), tv, upper)

    def tail(self, found: Fit) -> float:
        """The same: it is a bound already."""
        return found.p_value

    def noise_tv(self) -> float:
        """Of samples that all have the mean chance."""
        return mean_tv(self._n, [self._chance, 1 - self._chance])

    def log_e(self, planned: int) -> float:
        """The mean over the odds of r^hits / prod (1 - p + r p)."""
        return log_mean((self._hits * np.log(RATIOS) - self._log_fair).tolist())


class Tally:
    """Counts samples by cell. In sequential mode it looks after each batch; `is_decided` says to stop.

    `n` samples so far; `e_value` is the largest that the mean of the e-processes has been at a look.
    """

    def __init__(self, planned: Plan, demand: Demand) -> None:
        self.n = 0
        self.is_decided = False
        self.counts: list[Count] = [
            *map(CellCount.of_texts, planned.parts),
            *map(CellCount.of_grid, planned.grids),
            *(RepeatCount(pair, column) for column, pair in enumerate(planned.repeats)),
        ]
        self._plan, self._demand = planned, demand
        self._looks = 0
        self._largest_log_e = 0.0
        self._spent = 0.0

    def add(self, samples: Sequence[Tokens], readings: Readings) -> None:
        """Counts a batch and, in sequential mode, looks."""
        self.n += len(samples)
        for count in self.counts:
            count.add(samples, readings)
        self._looks += 1
        if self._demand.sequential:
            self._look()

    @property
    def e_value(self) -> float:
        """Evidence against the law."""
        return _exp(self._largest_log_e)

    @property
    def p_value(self) -> float:
        """Of the whole certificate, at most 1."""
        if self._demand.sequential:
            return math.exp(-self._largest_log_e)
        return min(1.0, len(self.counts) * min(found.p_value for found in self._fits()))

    def tests(self) -> tuple[PositionTest, ...]:
        """What each test shows."""
        return tuple(
            PositionTest(
                count.positions,
                count.cells,
                found,
                count.noise_tv(),
                _exp(count.log_e(self._plan.n)) if self._demand.sequential else None,
                count.kind,
            )
            for count, found in zip(self.counts, self._fits())
        )

    def _fits(self) -> list[Fit]:
        # bounds at look 1, 2, ... hold together with these levels: 1/(k (k + 1)) sums to 1
        level = self._plan.share / (self._looks * (self._looks + 1) if self._demand.sequential else 1)
        found = [count.fit(level) for count in self.counts]
        return found if self._demand.sequential else self._refined(found)

    def _refined(self, found: list[Fit]) -> list[Fit]:
        """The smallest p-values anew, until the smallest is a bound itself."""
        near, done = min(_LARGEST_REFINED, _NEAR * self._plan.share), set()
        while (worst := min(range(len(found)), key=lambda place: found[place].p_value)) not in done:
            done.add(worst)
            own = found[worst]
            if not 0 < own.p_value <= near:
                break
            found[worst] = replace(own, p_value=max(own.p_value, self.counts[worst].tail(own)))
        return found

    def _look(self) -> None:
        log_e = log_mean([count.log_e(self._plan.n) for count in self.counts])
        # the stake of 1 at the start is a look as well, so that a p-value is never above 1
        self._largest_log_e = max(self._largest_log_e, log_e)
        if self._largest_log_e >= -math.log(self._demand.level):
            self.is_decided = True
            return
        spent = acceptance_spent(self.n, self._plan.n, self._demand.wanted_power)
        chance, self._spent = spent - self._spent, spent
        # no pass while the bet is ahead: smaller biases than the stated one are welcome too.
        # `all` ends at the first test that is not settled, which most often is the first
        self.is_decided |= (
            chance > 0
            and log_e < 0
            and all(
                is_too_small(count.chi_square, self.n, count.degrees, self._demand.bias, chance)
                for count in self.counts
            )
        )


def _exp(logarithm: float) -> float:
    """e^x, infinite where that is too large a number."""
    return math.exp(logarithm) if logarithm < 700 else math.inf
