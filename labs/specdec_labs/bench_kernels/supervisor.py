"""Runs the plan in a worker process: a crash, a hang or a lost device costs one job, and the clock stops the run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from time import monotonic
from typing import Any

from specdec_labs.bench_kernels.plan import Job

OWN = ("triton", "torch")
"""Arms that are tried at every size; another that ends a process or hangs (building its code, say) is given up."""

MOST_STARTS = 8
_HANG_S = 90.0
"""A job that says nothing for this long (or three times what it may take) is given up."""

_GRACE_S = 10.0
"""How long a job may go on after the end of the run's time."""


@dataclass(slots=True)
class Run:
    """What a run found.

    Attributes:
        answers: of each job that was begun, by its place in the plan.
        left_out: places of jobs that the clock or too many crashes left out.
        starts: how many worker processes it took.
        given_up: arms that ended a process or hung.
    """

    jobs: list[Job]
    answers: dict[int, dict[str, Any]] = field(default_factory=dict)
    left_out: list[int] = field(default_factory=list)
    starts: int = 0
    given_up: set[str] = field(default_factory=set)
    seconds: float = 0.0
    interrupted: bool = False


def supervise(jobs: list[Job], device: str, minutes: float, progress: Callable[[str], None]) -> Run:
    """Every job, in order, while `minutes` last. Ctrl-C ends the run and keeps what it has."""
    run, started = Run(jobs), monotonic()
    deadline = started + 60 * minutes
    waiting = list(range(len(jobs)))
    try:
        while waiting and run.starts < MOST_STARTS and monotonic() < deadline:
            run.starts += 1
            waiting = _one_worker(run, waiting, device, deadline, progress)
    except KeyboardInterrupt:
        run.interrupted = True
    run.left_out = [place for place in range(len(jobs)) if place not in run.answers]
    run.seconds = monotonic() - started
    return run


def _one_worker(
    run: Run, waiting: list[int], device: str, deadline: float, progress: Callable[[str], None]
) -> list[int]:
    """The jobs that are left when the worker has ended, in order."""
    worker = Worker(device)
    try:
        while waiting:
            left = deadline - monotonic()
            place = next((p for p in waiting if run.jobs[p].seconds <= left), None)
            if place is None:
                return []
            job = run.jobs[place]
            waiting = [p for p in waiting if p != place]
            if job.arm in run.given_up:
                run.answers[place] = {"unavailable": f"{job.arm} ended or hung an earlier process"}
                continue
            answer = worker.ask(job, min(max(_HANG_S, 3 * job.seconds), left + _GRACE_S))
            run.answers[place] = answer
            progress(f"{job.label}: {outcome(answer)}")
            if worker.has_ended:
                if job.kind == "time" and job.arm not in OWN:
                    run.given_up.add(job.arm)
                return waiting
        return []
    finally:
        worker.close()


def outcome(answer: dict[str, Any]) -> str:
    """One line on an answer."""
    if "error" in answer:
        return f"failed: {answer['error'].splitlines()[0][:160]}"
    if "unavailable" in answer:
        return answer["unavailable"]
    if "passed" in answer:
        verdict = "right" if answer["passed"] else f"WRONG in {answer['wrong']}"
        return f"{verdict}, {answer['cases']} compared, {answer['near_ties']} near-ties; {answer['note']}"
    if "bytes_per_s" in answer:
        return f"{answer['bytes_per_s'] / 1e9:.0f} GB/s" if answer["bytes_per_s"] else "ran"
    if answer.get("median_us") is None:
        return "ran"
    graph = answer["graph_median_us"]
    in_graph = f", in a graph {graph:.1f} us" if graph is not None else ", no graph"
    return f"{answer['median_us']:.1f} us{in_graph}"


class Worker:
    """A worker process and the lines it answers; `command` stands in for the worker in tests."""

    def __init__(self, device: str, command: Sequence[str] | None = None) -> None:
        environment = dict(os.environ)
        # read when a kernel is decorated, so it has to be set before the process imports one
        environment.pop("TRITON_INTERPRET", None)
        if device == "cpu":
            environment["TRITON_INTERPRET"] = "1"
        command = command or [sys.executable, "-m", "specdec_labs.bench_kernels.worker", device]
        # a session of its own: Ctrl-C reaches the supervisor alone, which keeps what it has and ends this process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.has_ended = False

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def ask(self, job: Job, patience: float) -> dict[str, Any]:
        """The worker's answer; an error of our own making when it dies or says nothing for `patience` seconds."""
        assert self._process.stdin is not None
        order = {"kind": job.kind, "case": asdict(job.case), "arm": job.arm}
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            self.has_ended = True
            return {"error": f"no answer in {patience:.0f} s; the process was ended"}
        except OSError:
            line = None
        if line is None:
            self.has_ended = True
            return {"error": f"the worker process ended with code {self._process.wait()}"}
        answer = json.loads(line)
        self.has_ended = answer.pop("poisoned", False)
        return answer

    def close(self) -> None:
        """Ends the process and what it started (a compiler of torch.compile): all of its session."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=5)
        for pipe in (self._process.stdin, self._process.stdout):
            # what was written to a dead process is still in the buffer
            with suppress(OSError):
                assert pipe is not None
                pipe.close()


def placed(run: Run) -> Iterator[tuple[Job, dict[str, Any]]]:
    """(job, answer) of every job that was begun, in the order of the plan."""
    yield from ((run.jobs[place], run.answers[place]) for place in sorted(run.answers))
