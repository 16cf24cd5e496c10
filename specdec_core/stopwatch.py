"""Wall and processor time side by side: a lap that had to wait for a processor shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import statistics
import time
from typing import TypeVar

Result = TypeVar("Result")
_LEAST_SHARE = 0.85
_TICK_S = 0.004
"""The system brings the processor time of the *other* threads up to date once a tick (Linux, 250 Hz)."""

_JUDGED_S = 5 * _TICK_S


@dataclass(frozen=True, slots=True)
class Lap:
    """Seconds by the clock, and seconds of processor time of this process (all threads) between the same moments."""

    wall_s: float
    cpu_s: float

    @property
    def cpu_share(self) -> float:
        """Processors the process had on average."""
        return self.cpu_s / self.wall_s if self.wall_s > 0 else 0.0


def lap(run: Callable[[], Result]) -> tuple[Lap, Result]:
    """The time `run` took, and what it gave."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return Lap(time.perf_counter() - wall, time.process_time() - cpu), result


def usual_share(laps: Sequence[Lap]) -> float:
    """The processor share of laps that nothing disturbed: the upper quartile, the mean of short laps, or 0 of none."""
    shares = sorted(entry.cpu_share for entry in laps)
    if _too_short(laps):
        return sum(entry.cpu_s for entry in laps) / sum(entry.wall_s for entry in laps)
    return statistics.median(shares[len(shares) // 2 :]) if shares else 0.0


def _too_short(laps: Sequence[Lap]) -> bool:
    """Whether several threads ran for less than a few ticks a lap: one lap then has a tick too many, the next none."""
    if not laps or statistics.median(entry.wall_s for entry in laps) >= _JUDGED_S:
        return False
    return max(entry.cpu_share for entry in laps) > 1.05


def undisturbed(laps: Sequence[Lap], share: float | None = None) -> list[bool]:
    """Which laps had their usual share of the processors, at least 85 % of `share` (default: `usual_share(laps)`).

    A lap in which another program took the processor has less processor time by the same clock. This sees waiting
    for a processor, not waiting for memory that others keep busy. Laps of several threads that are shorter than 20 ms
    are all kept: the clock is too coarse to judge one.
    """
    if _too_short(laps):
        return [True] * len(laps)
    least = _LEAST_SHARE * (usual_share(laps) if share is None else share)
    return [entry.cpu_share >= least for entry in laps]
