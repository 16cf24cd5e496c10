"""The peak memory of one batched call, in a process of its own: the high-water mark of its resident pages.

Linux counts it and lets a process set it back, so the inputs and the start of Python are left out. A process that did
other work before would hide allocations in memory it has not given back.
"""

import ctypes
from pathlib import Path
import re
import subprocess
import sys

import torch

from specdec_core.rules.batched import ScriptedBatchCoins
from specdec_labs.cli.bench_rules_arms import make_laws, uniforms

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_extra_bytes(batch: int, drafted: int, vocab: int) -> int | None:
    """Bytes beyond the inputs at the peak of one call with given uniforms; None where the system does not tell."""
    if not (_STATUS.exists() and _RESET.exists()):
        return None
    command = [sys.executable, "-m", __name__, str(batch), str(drafted), str(vocab)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        raise RuntimeError(f"the process that measures memory failed:\n{child.stderr}")
    return int(child.stdout)


def _measure(batch: int, drafted: int, vocab: int) -> int:
    torch.set_num_threads(1)
    # the first call of a process loads code; a large vocabulary takes the path that is measured
    warm_up = make_laws(2, 1, 20_000, seed=0)
    warm_up.verify(ScriptedBatchCoins(uniforms(warm_up, seed=0)))
    laws = make_laws(batch, drafted, vocab, seed=1)
    coins = ScriptedBatchCoins(uniforms(laws, seed=1))
    _give_back()
    _RESET.write_text("5")
    before = _kilobytes("VmRSS")
    laws.verify(coins)
    return 1024 * max(0, _kilobytes("VmHWM") - before)


def _give_back() -> None:
    """Hands freed memory back to the system, where its allocator can: reused pages would not count as growth."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _kilobytes(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1])


if __name__ == "__main__":
    print(_measure(*(int(argument) for argument in sys.argv[1:])))
