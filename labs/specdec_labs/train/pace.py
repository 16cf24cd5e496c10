"""How many steps fit into the minutes that are given."""

from collections.abc import Callable
from dataclasses import replace
import math
from pathlib import Path
import time

from specdec_labs.train.checkpoint import load_checkpoint
from specdec_labs.train.loop import Task
from specdec_labs.train.settings import TrainSettings, matrix_products

_TIMED = 3


def with_steps(
    settings: TrainSettings, folder: Path, make: Callable[[TrainSettings], Task], *, minutes: float | None
) -> TrainSettings:
    """The settings with the steps of the run in `folder`, if there is one; else with what fits into `minutes`.

    The pace is that of three steps of a task that is thrown away. From then on the number is fixed: a run that is
    resumed on a busier machine takes longer, its curve stays the same.

    Raises:
        ValueError: minutes that are not above zero, or not finite.
    """
    if minutes is None:
        return settings
    if not 0 < minutes < math.inf:
        raise ValueError(f"minutes is {minutes}; expected more than 0, and a finite number")
    found = load_checkpoint(folder)
    if found is not None:
        return replace(settings, steps=found.description["settings"]["steps"])
    task = make(settings)
    device = next(task.module.parameters()).device
    seconds = []
    for step in range(_TIMED):
        start = time.perf_counter()
        with matrix_products(settings.precision, device):
            loss = task.loss(step)
        loss.backward()
        float(loss.detach())
        seconds.append(time.perf_counter() - start)
    return replace(settings, steps=max(1, int(60 * minutes / min(seconds))))
