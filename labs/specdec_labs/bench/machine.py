"""What this machine's memory and arithmetic give a program: the measured entry among the hardware presets."""

from collections.abc import Callable
from functools import partial
import os
import time

import torch

from specdec_core.hardware import describe_hardware
from specdec_core.hardware_presets import Hardware
from specdec_core.models.linear import ROUTES, Linear

COMMAND = "specdec bench machine"
_ROWS, _WIDTH = 16384, 8192
_SQUARE = 2048
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def measure_machine(*, repeats: int = 7, rows: int = _ROWS, width: int = _WIDTH, square: int = _SQUARE) -> Hardware:
    """Bandwidth of a matrix-vector product over rows x width float32 weights, FLOP/s of a square product; best of all.

    The product takes every route that decoding may take (`specdec_core.models.routes`); the fastest counts.

    That is how decoding reads its weights and how a long prompt uses them, so the ridge of the result is the one a
    model here can reach. The default matrix has 0.5 GB: no cache holds it.

    Raises:
        ValueError: repeats below 1.
    """
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}; expected at least 1")
    product, row = Linear(torch.ones(rows, width)), torch.ones(1, width)
    calls = [(route, run) for route in ROUTES if product.can_route or route == "linear" for run in (1, 2, 4)]
    product.follow(product.plan, keep=[route for route, _ in calls])
    seconds = min(_best(partial(product.through, route, row, run), repeats) for route, run in calls)
    peaks = {name: _flops(dtype, square, repeats) for name, dtype in _DTYPES.items()}
    facts = describe_hardware()
    threads = f"{facts['threads']} thread{'' if facts['threads'] == 1 else 's'}"
    return Hardware(
        name=f"{facts['processor']}, {threads}",
        bytes_per_s=4.0 * rows * width / seconds,
        flops_per_s=peaks,
        memory_bytes=float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        link_bytes_per_s=None,
        kind="measured",
        source=f"{COMMAND}, {threads} of {facts['cores']} cores, torch {facts['torch']}, {facts['date']}",
    )


def _flops(dtype: torch.dtype, square: int, repeats: int) -> float:
    matrix = torch.ones(square, square, dtype=dtype)
    return 2 * square**3 / _best(lambda: matrix @ matrix, repeats)


def _best(run: Callable[[], object], repeats: int) -> float:
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
