"""What a speed-up run says per arm and cell: both halves together with an interval, and what it takes to break even."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
import statistics
from typing import Any

import numpy as np

from specdec_core.cost_curve import CostCurve
from specdec_core.metrics import summarize
from specdec_core.prediction import RoundPrices
from specdec_labs.bench.arms import PLAIN, Arm
from specdec_labs.bench.grid import Cell, CellRun
from specdec_labs.bench.points import Clock, Point, with_rounds

_RESAMPLES = 2000
_FEWEST = 4
"""Prompts below which an interval over prompts is not given."""


@dataclass(frozen=True, slots=True)
class SpeedupRow:
    """An arm on all prompts of a cell.

    Attributes:
        speedup: plain / speculative seconds per token over all prompts.
        low, high: the middle 90 % of resampled prompts; None with fewer than four.
        tokens_per_round, alpha: over all rounds.
        predicted: each half's prediction, made from the other half; predicted_tokens: the tokens a round in each.
        ratios: measured / predicted of each half.
        formula: the textbook's value, mean of the halves.
        disturbed: share of the arm's rounds that did not have their processors.
    """

    cell: Cell
    arm: Arm
    prompts: int
    speedup: float
    low: float | None
    high: float | None
    tokens_per_round: float
    alpha: float | None
    predicted: tuple[float, ...]
    predicted_tokens: tuple[float, ...]
    ratios: tuple[float, ...]
    formula: float
    disturbed: float

    @property
    def label(self) -> str:
        """Which row it is."""
        return f"{self.arm.drafter}, gamma {self.arm.gamma}, {self.cell.task}, T = {self.cell.temperature:g}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        data = asdict(self)
        del data["cell"], data["arm"]
        names = {"drafter": self.arm.drafter, "gamma": self.arm.gamma}
        return {**names, "task": self.cell.task, "temperature": self.cell.temperature, **data}


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Tokens a round with all gamma drafts must emit to be as fast as plain decoding, and what rounds emitted.

    `lowest` and `highest` are the smallest and largest mean over the cells; `cost` counts in plain steps.
    """

    arm: Arm
    needed: float
    draft: float
    verify: float
    host: float
    lowest: float
    highest: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        data = asdict(self)
        del data["arm"]
        return {"drafter": self.arm.drafter, "gamma": self.arm.gamma, **data}


def speedup_rows(runs: Sequence[CellRun], points: Sequence[Point], clock: Clock) -> list[SpeedupRow]:
    """A row for every cell and arm that has a point."""
    rows = []
    for cell, arm in dict.fromkeys((point.cell, point.arm) for point in points):
        mine = [point for point in points if (point.cell, point.arm) == (cell, arm)]
        plain, fast = with_rounds([run for run in runs if run.cell == cell], PLAIN, arm)
        slow_time, fast_time = clock.of(plain), clock.of(fast)
        assert slow_time is not None and fast_time is not None, "a point has rounds"
        found = summarize([run.trace for run in fast])
        sums = [(*one, *two) for one, two in zip(slow_time.by_run, fast_time.by_run)]
        low, high = _interval(np.array(sums, dtype=float))
        rows.append(
            SpeedupRow(
                cell=cell,
                arm=arm,
                prompts=len(fast),
                speedup=slow_time.seconds_per_token / fast_time.seconds_per_token,
                low=low,
                high=high,
                tokens_per_round=found.mean_acceptance_length or 1.0,
                alpha=found.alpha,
                predicted=tuple(point.predicted.speedup for point in mine),
                predicted_tokens=tuple(point.predicted.tokens_per_round for point in mine),
                ratios=tuple(point.ratio for point in mine),
                formula=statistics.mean(point.formula for point in mine),
                disturbed=fast_time.disturbed,
            )
        )
    return rows


def break_even_rows(
    runs: Sequence[CellRun], rows: Sequence[SpeedupRow], curve: CostCurve, clock: Clock
) -> list[BreakEven]:
    """One a drafter and gamma, at the mean context of the run, for rounds that draft all gamma tokens."""
    found = []
    plain = clock.of([entry for run in runs for entry in run.runs if entry.arm == PLAIN])
    if plain is None:
        return []
    plain_host = statistics.mean(entry.t_host_s for entry in plain.undisturbed)
    for arm in dict.fromkeys(row.arm for row in rows):
        time = clock.of([entry for run in runs for entry in run.runs if entry.arm == arm])
        if time is None:
            continue
        context = statistics.mean(entry.length - 1 for entry in time.undisturbed)
        prices = RoundPrices.from_rounds(time.undisturbed)
        step = curve.seconds(1, context) + plain_host
        parts = (
            prices.of_drafting(arm.gamma) / step,
            curve.seconds(arm.gamma + 1, context) / step,
            prices.of_host(arm.gamma) / step,
        )
        tokens = [row.tokens_per_round for row in rows if row.arm == arm]
        found.append(BreakEven(arm, sum(parts), *parts, min(tokens), max(tokens)))
    return found


def _interval(sums: np.ndarray) -> tuple[float | None, float | None]:
    """The middle 90 % of the speed-up when the prompts are drawn anew, plain and speculative times together.

    `sums` has seconds and tokens of the plain arm, then of the other, a row a prompt. They come from the very cleaning
    that the speed-up comes from, so that the two cannot part.
    """
    if len(sums) < _FEWEST:
        return None, None
    drawn = np.random.default_rng(0).integers(0, len(sums), size=(_RESAMPLES, len(sums)))
    slow, slow_tokens, fast, fast_tokens = sums[drawn].sum(axis=1).T
    ratios = (slow / slow_tokens) / (fast / fast_tokens)
    low, high = np.quantile(ratios, (0.05, 0.95))
    return float(low), float(high)
