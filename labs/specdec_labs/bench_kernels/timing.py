"""Time of one call on the device: by events, over inputs that do not stay in the cache, singly and in a CUDA graph.

A call that starts several kernels is bound by the host when they are short: single calls are timed as an eager program
meets them, and all inputs in turn as one graph, which is how engines run them and what the kernels themselves cost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import gc
from statistics import median
from time import perf_counter
from typing import Any

import torch

Call = Callable[[], Any]
_FALLBACK_L2 = 128 << 20
_MOST_CALLS = 256


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds of one call; None where nothing was measured (dry run, or no graph could be captured).

    Attributes:
        inputs: how many inputs took turns.
        first_s: seconds of the first call, compilation included.
        min_us, median_us: of single calls.
        graph_min_us, graph_median_us: of a call inside a graph of one call an input.
        graph_error: why there is no graph.
    """

    inputs: int
    first_s: float | None = None
    min_us: float | None = None
    median_us: float | None = None
    graph_min_us: float | None = None
    graph_median_us: float | None = None
    graph_error: str | None = None


def copies_for(device: torch.device, size: int) -> int:
    """How many inputs of `size` bytes are together at least twice the L2 cache; two on a CPU, where nothing is timed.

    At most 256: inputs that small are bound by the launch.
    """
    if device.type != "cuda":
        return 2
    cache = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or _FALLBACK_L2
    return max(2, min(_MOST_CALLS, -(-2 * cache // max(1, size))))


def time_calls(calls: Sequence[Call], device: torch.device, *, seconds: float = 0.3) -> Timing:
    """The time of one call; `calls` do the same on different inputs. On a CPU each runs once and nothing is timed."""
    start = perf_counter()
    calls[0]()
    if device.type != "cuda":
        for call in calls[1:]:
            call()
        return Timing(len(calls))
    torch.cuda.synchronize(device)
    first = perf_counter() - start
    times = _single(calls, seconds)
    try:
        graph, error = _in_graph(calls, seconds), None
    except Exception as problem:  # whatever a capture can raise: the eager time stands
        graph, error = None, f"{type(problem).__name__}: {problem}"[:300]
    low, middle = (None, None) if graph is None else (min(graph), median(graph))
    return Timing(len(calls), first, min(times), median(times), low, middle, error)


def copy_bandwidth(device: torch.device, size: int = 1 << 30) -> float | None:
    """Bytes a second of a device-to-device copy, read plus written; the fastest of 20. None on a CPU."""
    if device.type != "cuda":
        torch.empty(1024).copy_(torch.zeros(1024))
        return None
    # half as large on a small card
    size = min(size, torch.cuda.mem_get_info(device)[0] // 8)
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / (min(_single([lambda: target.copy_(source)], 0.2, least=20)) * 1e-6)


def _single(calls: Sequence[Call], seconds: float, least: int = 30) -> list[float]:
    """Microseconds of single calls, in turn, for about `seconds`."""
    for call in [*calls[:8], *calls[:8]]:
        call()
    start = perf_counter()
    calls[-1]()
    torch.cuda.synchronize()
    wanted = max(least, min(1000, int(seconds / max(1e-6, perf_counter() - start))))
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(wanted)]
    gc.disable()
    try:
        for place, (before, after) in enumerate(marks):
            before.record()
            calls[place % len(calls)]()
            after.record()
    finally:
        gc.enable()
    torch.cuda.synchronize()
    return [1e3 * before.elapsed_time(after) for before, after in marks]


def _in_graph(calls: Sequence[Call], seconds: float) -> list[float]:
    """Microseconds of a call by replays of a graph that makes every call once."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls[:2]:
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    replays = _single([graph.replay], seconds, least=10)
    return [time / len(calls) for time in replays]
