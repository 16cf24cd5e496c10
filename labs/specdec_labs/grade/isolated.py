"""Grades a learner's file in a process of its own, with a time limit.

This isolates against accidents: endless loops, `exit()`, crashes, runaway memory or output. It is no defence
against code that means harm: that code runs as the same user. Use a container for files of strangers.
"""

import ast
from collections import Counter
from contextlib import suppress
import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
from typing import Any

import specdec_core
from specdec_labs.grade.checks import suite_of
from specdec_labs.grade.engine import Suite, plan, result_of
from specdec_labs.grade.report import PropertyResult, Report

TIMEOUT_S = 20.0
_CORE = specdec_core.__file__


def grade_file(
    path: str | Path, exercise_id: str, timeout_s: float = TIMEOUT_S, hidden_seed: int | None = None
) -> Report:
    """The report on a file; whatever was judged before a crash or the time limit is kept.

    Args:
        path: a Python file that defines the exercise's functions.
        exercise_id: "E01", "e01" or "E01_residual".
        timeout_s: wall-clock seconds for loading and checking the whole file.
        hidden_seed: also run the same properties on fresh random cases from this seed.

    Raises:
        ValueError: an unknown exercise, no such file, not a .py file, or a time limit that is not positive.
    """
    suite, path = suite_of(exercise_id), Path(path)
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(
            f"path is {str(path)!r}; expected an existing .py file, for example one made by `specdec start`"
        )
    if not timeout_s > 0:
        raise ValueError(f"timeout_s is {timeout_s}; expected seconds above 0")
    with tempfile.TemporaryDirectory(prefix="specdec-grade-") as folder:
        events_path, output_path = Path(folder, "events.jsonl"), Path(folder, "output.txt")
        end = _run_child(path, suite.exercise_id, timeout_s, hidden_seed, events_path, output_path)
        events = _read_events(events_path)
        output = output_path.read_bytes()[-2000:].decode("utf-8", errors="replace").strip()
    notes = [event["text"] for event in events if event["event"] == "note"] + _defined_twice(path, suite)
    if output:
        notes.append("your file printed (last lines): " + " | ".join(output.splitlines()[-5:]))
    results = [PropertyResult(**event["result"]) for event in events if event["event"] == "result"]
    if not any(event["event"] == "end" for event in events):
        results += _unfinished(suite, len(results), hidden_seed, end)
        notes.append(f"grading stopped early: {end}")
    diagnoses = tuple(event["text"] for event in events if event["event"] == "diagnosis")
    return Report(suite.exercise_id, tuple(results), diagnoses, tuple(notes), hidden_seed)


def _run_child(
    path: Path, exercise_id: str, timeout_s: float, hidden_seed: int | None, events: Path, output: Path
) -> str:
    seed = "" if hidden_seed is None else str(hidden_seed)
    # -P keeps the learner's folder off the front of sys.path: a json.py there must not replace the real one.
    command = [sys.executable, "-P", "-m", "specdec_labs.grade.child"]
    command += [exercise_id, str(path.resolve()), str(events), str(timeout_s), seed]
    roots = dict.fromkeys(str(Path(file).resolve().parents[depth]) for file, depth in ((__file__, 2), (_CORE, 1)))
    search = os.pathsep.join(filter(None, (*roots, os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"}
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=path.resolve().parent,
            env=environment,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return f"it ran longer than the limit of {timeout_s:g} s (an endless loop?)"
        finally:
            _kill(process)
    return f"the process ended with code {code} before the checks were done"


def _kill(process: "subprocess.Popen[bytes]") -> None:
    # The whole group: a learner's code may have started processes of its own.
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _read_events(path: Path) -> list[dict[str, Any]]:
    events = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            events.append(json.loads(line))
        except ValueError:  # the last line may be cut off by the time limit
            break
    return events


def _unfinished(suite: Suite, done: int, hidden_seed: int | None, reason: str) -> list[PropertyResult]:
    rest = plan(suite, suite.functions, hidden_seed)[done:]
    reasons = [reason] + [f"not reached: at {rest[0][1].name} {reason}"] * (len(rest) - 1) if rest else []
    return [result_of(part, entry, "error", text) for (part, entry), text in zip(rest, reasons, strict=True)]


def _defined_twice(path: Path, suite: Suite) -> list[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    names = Counter(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return [
        f"{name} is defined {names[name]} times in {path.name}; Python keeps the last one, and that one is graded"
        for name in suite.functions
        if names[name] > 1
    ]
