"""How long checks take: the first check of each task after the import, and everything at once, on the references.

`python -m specdec_labs.grade.times` prints both; run it on an idle machine.
"""

import os
import time

os.environ.setdefault("TRITON_INTERPRET", "1")

from specdec_core.hardware import describe_hardware
from specdec_labs.grade.checking import look, reference
from specdec_labs.grade.tasks import TASKS


def main() -> None:
    """Seconds of the first check of each task, each with its references loaded before, then of all of them again."""
    namespaces = {task.id: {ask.name: reference(task, ask.name) for ask in task.asks} for task in TASKS.values()}
    slowest = 0.0
    for task in TASKS.values():
        began = time.perf_counter()
        (report,) = look([task], namespaces[task.id])
        seconds = time.perf_counter() - began
        slowest = max(slowest, seconds)
        print(f"{task.id:20} {seconds:6.2f} s  {report.summary}")
    everything = {name: value for names in namespaces.values() for name, value in names.items()}
    began = time.perf_counter()
    reports = look(list(TASKS.values()), everything, hidden_seed=1)
    machine = describe_hardware()
    print(f"slowest first check {slowest:.2f} s; everything with hidden cases {time.perf_counter() - began:.2f} s")
    print(f"{len(reports)} tasks; {machine['processor']}, threads {machine['threads']}, {machine['date']}")


if __name__ == "__main__":
    main()
