"""Ends what a learner's code left running, whatever it did to get away: sessions of its own, an empty environment.

On Linux a process whose parent is gone falls to its nearest ancestor that asked for orphans, here the grader. It stays
a child until the grader has collected it, so its number is no one else's, and none is hit by mistake. Elsewhere nobody
can ask for orphans, and nothing here finds any.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
import ctypes
import os
from pathlib import Path
import signal
import sys
import time

PATIENCE_S = 10.0
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37  # of prctl


class Orphans:
    """The children of this process that were not there when this was made."""

    def __init__(self) -> None:
        self._before = _listed() | _scanned()

    def collect(self, besides: int) -> None:
        """Forgets those that have ended, but for one: each would hold a process number until then."""
        for pid in _listed() - self._before - {besides}:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def end(self) -> bool:
        """Ends them, and what falls to this process as they end. False when some are left after ten seconds."""
        deadline = time.monotonic() + PATIENCE_S
        # the quick list may miss one while others end; the scan is too slow for one that forks and leaves at once
        while left := (_listed() - self._before) or (_scanned() - self._before):
            if time.monotonic() > deadline:
                return False
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            for pid in left:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            os.sched_yield()
        return True


@contextmanager
def adopted_orphans() -> Iterator[Orphans]:
    """Meanwhile orphaned descendants become children of this process.

    To be used where no other thread starts processes: `end` takes them for the learner's.
    """
    if not sys.platform.startswith("linux"):
        yield Orphans()
        return
    prctl = ctypes.CDLL(None).prctl
    was = ctypes.c_int()
    prctl(_GET_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    prctl(_SET_SUBREAPER, 1, 0, 0, 0)
    try:
        yield Orphans()
    finally:
        prctl(_SET_SUBREAPER, was.value, 0, 0, 0)


def _listed() -> set[int]:
    found = set()
    for entry in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found |= {int(pid) for pid in entry.read_bytes().split()}
    return found


def _scanned() -> set[int]:
    own = str(os.getpid()).encode()
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # PID (NAME) STATE PARENT ...; the name may hold spaces and brackets
            if entry.read_bytes().rpartition(b")")[2].split()[1] == own:
                found.add(int(entry.parent.name))
    return found
