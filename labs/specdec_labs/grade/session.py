"""The checker's side of the grading process: starts it, asks it, and ends it when it runs too long.

This isolates against accidents and against tricks within Python: endless loops, `exit()`, crashes, runaway memory,
output or processes, replaced functions, answers that claim to equal everything. It is no defence against code that
means harm to the machine: that code runs as the same user, with its files and its network. Use a container for files of
strangers.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
import json
import os
from pathlib import Path
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import specdec_core
from specdec_labs.grade.access import GRADING, Failure, LearnerError, LearnerStopped, Presence, Reply
from specdec_labs.grade.orphans import Orphans
from specdec_labs.grade.plain import Opaque, Shared, decode, encode, encode_arguments

START_S = 60.0
MAX_LINE = 64 * 2**20
_CORE = specdec_core.__file__


@dataclass(frozen=True, slots=True)
class Limits:
    """What the learner's code may take.

    Attributes:
        seconds: wall-clock, for each asked name, and for each statement while the file is loaded.
        memory: bytes of address space.
        output: bytes it may write to one file, printed output included.
        processes: that it may have at a time.
    """

    seconds: float = 20.0
    memory: int = 4 * 2**30
    output: int = 32 * 2**20
    processes: int = 64

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"timeout is {self.seconds}; expected seconds above 0")


class Child:
    """One grading process. Not to be used again after it was stopped."""

    def __init__(self, folder: Path, limits: Limits, orphans: Orphans) -> None:
        self._orphans = orphans
        self._limits = limits
        self._mark = secrets.token_hex(16)
        self._count = 0
        self._stopped = ""
        self.left = limits.seconds
        self.output = folder / f"output-{self._mark[:8]}.txt"
        with self.output.open("wb") as sink:
            self._process = subprocess.Popen(
                # -P keeps the learner's folder off the front of sys.path: a json.py there must not replace the real one
                [sys.executable, "-P", "-m", "specdec_labs.grade.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                cwd=folder,
                env=_environment(folder, self._mark),
                start_new_session=True,
            )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._ask({"do": "limits", "cpu_s": 3600, "memory": limits.memory, "output": limits.output}, START_S)

    def close(self) -> None:
        """Ends the process and whatever it started."""
        kill_marked(self._process, self._mark)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def add_source(self, name: str, text: str) -> None:
        """Hands over the text of a file or a cell."""
        self._ask({"do": "source", "name": name, "text": text}, START_S)

    def run(self, name: str, index: int) -> None:
        """Runs one top-level statement of a source.

        Raises:
            LearnerError: it raised.
            LearnerStopped: it ran too long, or the process is gone.
        """
        self._ask({"do": "run", "name": name, "index": index}, self._limits.seconds)

    def fresh_budget(self) -> None:
        """The next name has the whole time limit again."""
        self.left = self._limits.seconds

    def presence(self, name: str) -> tuple[Presence, str]:
        """Whether a name is there, and the name of its type."""
        answer = self._ask({"do": "presence", "name": name}, self._limits.seconds)
        presence = answer.get("presence")
        found: Presence = "function" if presence == "function" else "value" if presence == "value" else "missing"
        return found, str(answer.get("kind"))[:200]

    def value(self, name: str) -> Any:
        """The value of a name as plain data."""
        return safely(self._ask({"do": "value", "name": name}, self.left).get("value"))

    def call(self, name: str, args: Sequence[Any], grid: tuple[int, ...] | None = None) -> Reply:
        """As `Names.call`."""
        shared: list[Shared] = []
        request = {"do": "call", "name": name, "args": encode_arguments(list(args), shared), "grid": grid}
        began = time.monotonic()
        try:
            answer = self._ask(request, self.left, shared)
        finally:
            self.left = max(self.left - (time.monotonic() - began), 0.001)
        return Reply(safely(answer.get("value")), tuple(safely(entry) for entry in _entries(answer.get("after"))))

    def printed(self) -> str:
        """The last lines that the learner's code printed."""
        try:
            return self.output.read_bytes()[-2000:].decode("utf-8", errors="replace").strip()
        except OSError:  # the learner's code deleted it
            return ""

    def _ask(self, request: dict[str, Any], seconds: float, shared: Sequence[Shared] = ()) -> dict[str, Any]:
        if self._stopped:
            raise LearnerStopped(self._stopped)
        self._count += 1
        self._send(request | {"id": self._count})
        deadline = time.monotonic() + seconds
        while True:
            message = self._next(deadline)
            if "ask" in message:
                self._send(_answered(message, shared if message.get("call") == self._count else ()))
            elif message.get("id") == self._count:
                if "failure" in message:
                    kind, text, unfinished = [*_entries(message["failure"]), "", "", False][:3]
                    raise LearnerError(Failure(str(kind), str(text)[:4000], unfinished is True))
                return message

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps(message) + "\n").encode())
            self._process.stdin.flush()
        except OSError:
            self._gone()

    def _next(self, deadline: float) -> dict[str, Any]:
        while True:
            self._orphans.collect(besides=self._process.pid)
            wait = deadline - time.monotonic()
            if wait <= 0:
                self._stop(f"it ran longer than the limit of {self._limits.seconds:g} s (an endless loop?)")
            try:
                line = self._lines.get(timeout=max(min(wait, 0.25), 0.001))
            except queue.Empty:
                if (running := len(marked_processes(self._mark))) > self._limits.processes:
                    self._stop(f"it started {running} processes; at most {self._limits.processes} are allowed")
                continue
            if not line:
                self._gone()
            try:
                message = json.loads(line)
                if isinstance(message, dict):
                    return message
            except (ValueError, RecursionError):
                pass
            self._stop("it wrote to the pipe of the grader")

    def _gone(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        code = self._process.poll()
        self._stop(f"the process ended with code {code} before the checks were done")

    def _stop(self, reason: str) -> None:
        self._stopped = reason
        self.close()
        raise LearnerStopped(reason)

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        try:
            while line := pipe.readline(MAX_LINE):
                self._lines.put(line)
        except (OSError, ValueError):
            pass
        self._lines.put(b"")


def safely(data: Any) -> Any:
    """`decode`; data that nothing of ours wrote becomes an Opaque."""
    try:
        return decode(data)
    except Exception:
        return Opaque("something unreadable")


def _entries(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def _answered(message: dict[str, Any], shared: Sequence[Shared]) -> dict[str, Any]:
    try:
        number = message["ask"]
        target = shared[number] if type(number) is int and 0 <= number < len(shared) else None
        if target is None:
            raise ValueError("this object belongs to a call that is over")
        args, kwargs = decode(message["args"]), decode(message["kwargs"])
        return {"answer": encode(target.answer(str(message["method"]), args, kwargs))}
    except Exception as error:  # what the learner asked wrongly is theirs to see
        return {"raise": [type(error).__name__, str(error)[:2000]]}


def _environment(folder: Path, mark: str) -> dict[str, str]:
    roots = dict.fromkeys(str(Path(file).resolve().parents[depth]) for file, depth in ((__file__, 2), (_CORE, 1)))
    search = os.pathsep.join(filter(None, (*roots, os.environ.get("PYTHONPATH"))))
    own = {
        "PYTHONPATH": search,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONIOENCODING": "utf-8",
        "OMP_NUM_THREADS": "1",
        "TRITON_INTERPRET": "1",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        GRADING: mark,
    }
    return os.environ | own


def marked_processes(mark: str) -> list[int]:
    """The processes that carry the mark in their environment, wherever they went. Linux; elsewhere none is found."""
    sought = f"{GRADING}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ") if Path("/proc").is_dir() else ():
        try:
            if sought in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def kill_marked(process: "subprocess.Popen[bytes]", mark: str) -> None:
    """Ends a process, its group, and those it started that left the group."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    for _ in range(20):  # one that forks while it is hunted
        left = marked_processes(mark)
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
