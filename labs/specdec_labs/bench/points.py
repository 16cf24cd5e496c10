"""Measured against predicted speed-ups: every half of the prompts is predicted from the other half alone."""

from collections.abc import Sequence
from dataclasses import dataclass
import statistics
from typing import Any

from specdec_core.cost_curve import CostCurve
from specdec_core.prediction import Prediction, RoundPrices, TraceStats, predict
from specdec_core.speed_formulas import speedup as formula_speedup
from specdec_labs.bench.arms import PLAIN, Arm, ArmRun, Timing, timing
from specdec_labs.bench.grid import HALVES, Cell, CellRun

AIM_MEDIAN, AIM_P90 = 0.10, 0.20


@dataclass(frozen=True, slots=True)
class Clock:
    """How times are cleaned: whether processor time says something about the work."""

    on_cpu: bool

    def of(self, runs: Sequence[ArmRun]) -> Timing | None:
        """The clean times of these runs."""
        return timing(runs, on_cpu=self.on_cpu)


@dataclass(frozen=True, slots=True)
class Point:
    """One arm on one half of a cell's prompts.

    Attributes:
        measured: speed-up, clean times, plain arm interleaved.
        predicted: from the other half's survival, rows, drafting and host prices, and the cost curve.
        cost_only: the same with this half's own survival and rows: what is left is the error of the costs.
        formula: the textbook's value from the other half's alpha and the draft's relative cost; for comparison.
        tokens_per_round, prompts: of this half.
    """

    cell: Cell
    arm: Arm
    half: int
    prompts: int
    tokens_per_round: float
    measured: float
    predicted: Prediction
    cost_only: Prediction
    formula: float
    alpha: float | None

    @property
    def ratio(self) -> float:
        """Measured / predicted."""
        return self.measured / self.predicted.speedup

    @property
    def error(self) -> float:
        """|measured / predicted - 1|."""
        return abs(self.ratio - 1)

    @property
    def cost_error(self) -> float:
        """|measured / cost_only - 1|."""
        return abs(self.measured / self.cost_only.speedup - 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: `measured` and `predicted` never share a name."""
        return {
            "drafter": self.arm.drafter,
            "gamma": self.arm.gamma,
            "task": self.cell.task,
            "temperature": self.cell.temperature,
            "half": self.half,
            "prompts": self.prompts,
            "alpha": self.alpha,
            "measured": {"speedup": self.measured, "tokens_per_round": self.tokens_per_round},
            "predicted": self.predicted.to_dict(),
            "cost_only": self.cost_only.to_dict(),
            "formula": self.formula,
            "ratio": self.ratio,
        }


@dataclass(frozen=True, slots=True)
class Errors:
    """|measured / predicted - 1| over all points, and what is left of it with each half's own survival."""

    points: int
    median: float
    p90: float
    cost_median: float
    cost_p90: float

    @property
    def reaches_aim(self) -> bool:
        """Median at most 10 % and 90th percentile at most 20 %."""
        return self.median <= AIM_MEDIAN and self.p90 <= AIM_P90


def errors(points: Sequence[Point]) -> Errors:
    """The errors of these points. ValueError when there are none."""
    if not points:
        raise ValueError("there is no point to compare; measure at least two prompts of a task")
    out = sorted(point.error for point in points)
    costs = sorted(point.cost_error for point in points)
    return Errors(len(points), statistics.median(out), _p90(out), statistics.median(costs), _p90(costs))


def speedup_points(runs: Sequence[CellRun], curve: CostCurve, clock: Clock) -> list[Point]:
    """Every arm, cell and half that has rounds in both halves."""
    points = []
    for cell in dict.fromkeys(run.cell for run in runs):
        halves = [[run for run in runs if run.cell == cell and run.half == half] for half in range(HALVES)]
        arms = dict.fromkeys(entry.arm for run in runs for entry in run.runs if entry.arm != PLAIN)
        for arm in sorted(arms):
            for half in range(HALVES):
                point = _point(cell, arm, half, halves[half], halves[1 - half], curve, clock)
                if point is not None:
                    points.append(point)
    return points


def with_rounds(runs: Sequence[CellRun], *arms: Arm) -> list[list[ArmRun]]:
    """For each of these arms its runs, of the prompts on which all of them have a round."""
    chosen: list[list[ArmRun]] = [[] for _ in arms]
    for run in runs:
        found = [entry for arm in arms for entry in run.runs if entry.arm == arm]
        if len(found) == len(arms) and all(entry.trace.rounds for entry in found):
            for place, entry in enumerate(found):
                chosen[place].append(entry)
    return chosen


def _point(
    cell: Cell, arm: Arm, half: int, here: list[CellRun], there: list[CellRun], curve: CostCurve, clock: Clock
) -> Point | None:
    plain, fast = with_rounds(here, PLAIN, arm)
    other_plain, other_fast = with_rounds(there, PLAIN, arm)
    plain_time, fast_time = clock.of(plain), clock.of(fast)
    other_plain_time, other_time = clock.of(other_plain), clock.of(other_fast)
    if plain_time is None or fast_time is None or other_plain_time is None or other_time is None:
        return None
    prices = RoundPrices.from_rounds(other_time.undisturbed)
    plain_host = statistics.mean(entry.t_host_s for entry in other_plain_time.undisturbed)
    other = TraceStats.from_traces(run.trace for run in other_fast)
    own = TraceStats.from_traces(run.trace for run in fast)
    predicted = predict(other, curve, prices, plain_host_s=plain_host)
    return Point(
        cell=cell,
        arm=arm,
        half=half,
        prompts=len(fast),
        tokens_per_round=own.tokens_per_round,
        measured=plain_time.seconds_per_token / fast_time.seconds_per_token,
        predicted=predicted,
        cost_only=predict(own, curve, prices, plain_host_s=plain_host),
        formula=_formula(arm, other, predicted),
        alpha=other.alpha,
    )


def _formula(arm: Arm, stats: TraceStats, predicted: Prediction) -> float:
    drafted = sum(entry.share * entry.drafted for entry in stats.shares)
    step = predicted.draft_s / drafted / predicted.plain_s if drafted else 0.0
    return float(formula_speedup(stats.alpha or 0.0, arm.gamma, step))


def _p90(ordered: Sequence[float]) -> float:
    """90th percentile, linear between neighbours."""
    place = 0.9 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
