"""The process that touches the device: a job a line on standard input, its answer a line on standard output.

A failing job is answered with its error and the next one goes on. An error that the device does not survive (an
illegal address) is answered as "poisoned": the supervisor then starts another process for the rest.
"""

from dataclasses import asdict
import gc
import json
import os
import sys
import traceback
from typing import Any


def main() -> int:
    """Answers jobs until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    # a library that prints must not be taken for an answer
    os.dup2(2, 1)
    import torch

    device = torch.device(sys.argv[1])
    if device.type == "cpu":
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(device)
    bench = Bench(device)
    for line in sys.stdin:
        answer = bench.answer(json.loads(line))
        if "error" in answer and not _is_alive(device):
            answer["poisoned"] = True
        print(json.dumps(answer), file=answers, flush=True)
    return 0


def _is_alive(device: Any) -> bool:
    import torch

    try:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            torch.zeros(8, device=device).sum().item()
    except RuntimeError:
        return False
    return True


class Bench:
    """Runs jobs; the inputs of a case are kept for the arms that follow."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._case: Any = None
        self._inputs: Any = None

    def answer(self, job: dict[str, Any]) -> dict[str, Any]:
        """What the job found, or {"unavailable": why}, or {"error": ..., "where": ...}."""
        from specdec_labs.bench_kernels.peers import NotAvailable

        try:
            return self._run(job)
        except NotAvailable as reason:
            return {"unavailable": str(reason)}
        except Exception as error:  # one broken case must not cost the others
            self._case = self._inputs = None
            self._tidy()
            where = [
                f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(error.__traceback__)[-4:]
            ]
            return {"error": f"{type(error).__name__}: {error}"[:1000], "where": where}

    def _run(self, job: dict[str, Any]) -> dict[str, Any]:
        from specdec_labs.bench_kernels.plan import Case
        from specdec_labs.bench_kernels.timing import copy_bandwidth, time_calls

        case, arm = Case(**job["case"]), job["arm"]
        if job["kind"] == "copy":
            return {"bytes_per_s": copy_bandwidth(self.device)}
        if job["kind"] == "check":
            from specdec_labs.bench_kernels.checks import run_check

            check = run_check(case.operator, arm, self.device)
            return {**asdict(check), "passed": check.passed}
        from specdec_labs.bench_kernels.arms import arm_calls

        inputs = self._of(case)
        calls, note = arm_calls(arm, inputs)
        return {**asdict(time_calls(calls, self.device)), "floor_bytes": inputs.floor_bytes, "note": note}

    def _of(self, case: Any) -> Any:
        from specdec_labs.bench_kernels.inputs import make_inputs

        if case != self._case:
            self._case = self._inputs = None
            self._tidy()
            self._inputs = make_inputs(case, self.device)
            self._case = case
        return self._inputs

    def _tidy(self) -> None:
        gc.collect()
        if self.device.type == "cuda":
            import torch

            try:
                torch.cuda.empty_cache()
            except RuntimeError:
                # the device is gone; the caller finds out
                return


if __name__ == "__main__":
    sys.exit(main())
