"""The counts of a running certificate, and what they say so far."""

from collections.abc import Sequence
import math

from specdec_core.certificate import PositionTest
from specdec_core.certify_plan import Demand, Plan
from specdec_core.evidence import acceptance_spent, is_too_small, log_e_value, log_mean
from specdec_core.goodness import Fit, chi_square, fit, mean_tv
from specdec_core.partition import Tokens


class Tally:
    """Counts samples by cell. In sequential mode it looks after each batch; `is_decided` says to stop.

    `n` samples so far; `e_value` is the largest that the mean of the e-processes has been at a look.
    """

    def __init__(self, planned: Plan, demand: Demand) -> None:
        self.n = 0
        self.is_decided = False
        self._plan, self._demand = planned, demand
        self._counts = [[0] * part.cells for part in planned.parts]
        self._looks = 0
        self._largest_log_e = 0.0
        self._spent = 0.0

    def add(self, samples: Sequence[Tokens]) -> None:
        """Counts a batch and, in sequential mode, looks."""
        self.n += len(samples)
        for part, counts in zip(self._plan.parts, self._counts):
            for tokens in samples:
                counts[part.cell_of(tokens)] += 1
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
        return min(1.0, len(self._counts) * min(found.p_value for found in self._fits()))

    def tests(self) -> tuple[PositionTest, ...]:
        """What each partition shows."""
        return tuple(
            PositionTest(
                part.positions,
                part.cells,
                found,
                mean_tv(self.n, part.probabilities),
                _exp(log_e) if self._demand.sequential else None,
            )
            for part, found, log_e in zip(self._plan.parts, self._fits(), self._log_e_values())
        )

    def _fits(self) -> list[Fit]:
        # bounds at look 1, 2, ... hold together with these levels: 1/(k (k + 1)) sums to 1
        level = self._plan.share / (self._looks * (self._looks + 1) if self._demand.sequential else 1)
        return [fit(counts, part.probabilities, level) for part, counts in zip(self._plan.parts, self._counts)]

    def _log_e_values(self) -> list[float]:
        return [
            log_e_value(counts, part.probabilities, self._plan.n)
            for part, counts in zip(self._plan.parts, self._counts)
        ]

    def _look(self) -> None:
        log_e = log_mean(self._log_e_values())
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
                is_too_small(chi_square(counts, part.probabilities), self.n, part.cells - 1, self._demand.bias, chance)
                for part, counts in zip(self._plan.parts, self._counts)
            )
        )


def _exp(logarithm: float) -> float:
    """e^x, infinite where that is too large a number."""
    return math.exp(logarithm) if logarithm < 700 else math.inf
