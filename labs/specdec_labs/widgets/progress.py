"""A line that counts while a long cell works: one line of output, rewritten in place, no thread and no widget."""

from collections.abc import Callable
import sys
import time

STEP_S = 0.2
"""At most five updates a second: each is a message to the page."""


def counting(label: str) -> Callable[[int, int], None]:
    """A callback (done, all) that keeps the line "label: done of all" up to date; the last call ends the line."""
    last = 0.0
    ended = False

    def show(done: int, total: int) -> None:
        nonlocal last, ended
        now = time.monotonic()
        if ended or (done < total and now - last < STEP_S):
            return
        last = now
        ended = done >= total
        sys.stdout.write(f"\r{label}: {done} of {total}{chr(10) if ended else ''}")
        sys.stdout.flush()

    return show
