"""Samples from a worker in another Python, kept in a file as they come: nothing is sampled twice."""

from collections.abc import Sequence
from contextlib import suppress
import json
import os
from pathlib import Path
import subprocess
from types import TracebackType
from typing import Any

from specdec_core.whole_file import write_whole
from specdec_labs.audit.subject import REQUESTS_PER_SEED

WORKER = Path(__file__).with_name("vllm_worker.py")
BATCH = 32
_LAST_LINES = 3


class WorkerSamples:
    """A sampler, as `certify_callable` takes it, backed by a file of JSON lines and a worker that continues it.

    The first line holds the job and the versions, each other line the samples of a batch. Use it in a `with`
    statement, which ends the worker; a line that a stop has cut is dropped. `wheel` is handed to the worker as its
    argument and is no part of the job: the versions say what it holds.
    """

    def __init__(
        self, python: Path, job: dict[str, Any], path: Path, worker: Path = WORKER, wheel: Path | None = None
    ) -> None:
        self._python, self._job, self._path, self._worker = python, job, path, worker
        self._arguments = [] if wheel is None else [str(wheel.resolve())]
        self._rows: list[list[int]] = []
        self._process: subprocess.Popen[str] | None = None
        self.versions: dict[str, str] = {}

    def __enter__(self) -> "WorkerSamples":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._load()
        try:
            if not self.versions:
                self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def __call__(self, first: int, count: int) -> Sequence[Sequence[int]]:
        """The samples of requests first .. first + count - 1, of this job's seed."""
        start = first - self._job["seed"] * REQUESTS_PER_SEED
        while len(self._rows) < start + count:
            self._rows += self._next()["samples"]
        return self._rows[start : start + count]

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()
            self._process.wait()

    def _load(self) -> None:
        if not self._path.exists():
            return
        whole, _, cut = self._path.read_text(encoding="utf-8").rpartition("\n")
        if cut:
            write_whole(self._path, whole + "\n" if whole else "")
        try:
            self._take([json.loads(line) for line in whole.splitlines()])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{self._path} is no file of samples; delete it or name another folder") from error

    def _take(self, lines: list[dict[str, Any]]) -> None:
        for number, line in enumerate(lines):
            if number == 0:
                if line["job"] != json.loads(json.dumps(self._job)):
                    raise ValueError(f"{self._path} holds the samples of another job; delete it or name another folder")
                self.versions = line["versions"]
            elif line["first"] != len(self._rows):
                raise ValueError(f"{self._path} has a gap at line {number + 1}; delete it - did two runs write to it?")
            else:
                self._rows += line["samples"]

    def _start(self) -> subprocess.Popen[str]:
        log = self._path.with_suffix(".log").open("w", encoding="utf-8")
        with log:
            # isolated: neither this folder nor the user's settings may hide a module of that environment
            process = subprocess.Popen(
                [str(self._python), "-I", "-W", "ignore", str(self._worker), *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "VLLM_LOGGING_LEVEL": "ERROR"},
            )
        self._process = process
        assert process.stdin is not None
        first = len(self._rows)
        try:
            process.stdin.write(json.dumps({**self._job, "first": first, "stop": REQUESTS_PER_SEED, "batch": BATCH}))
            process.stdin.close()
        except BrokenPipeError:
            raise self._failure() from None
        versions = self._read()["versions"]
        if not self.versions:
            self.versions = versions
            self._keep({"job": self._job, "versions": versions})
        elif versions != self.versions:
            raise ValueError(f"{self._path} was made with {self.versions}, now it is {versions}; name another folder")
        return process

    def _next(self) -> dict[str, Any]:
        if self._process is None:
            self._start()
        line = self._read()
        if line["first"] != len(self._rows):
            raise ValueError(f"the worker answered request {line['first']}; expected {len(self._rows)}")
        self._keep(line)
        return line

    def _read(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise self._failure()
        return json.loads(line)

    def _keep(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _failure(self) -> ValueError:
        assert self._process is not None
        code = self._process.wait()
        log = self._path.with_suffix(".log")
        last = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()][-_LAST_LINES:]
        return ValueError("\n".join([f"{self._python} stopped with exit code {code}; its output is in {log}", *last]))
