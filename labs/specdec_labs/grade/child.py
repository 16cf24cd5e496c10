"""The grading process: loads one file, judges it, writes one JSON line an event. Started by `isolated.grade_file`."""

from dataclasses import asdict
import importlib.util
import json
import os
from pathlib import Path
import sys
from typing import Any, TextIO

from specdec_labs.grade.checks import suite_of
from specdec_labs.grade.engine import (
    Suite,
    diagnose,
    find_functions,
    judge_all,
    learner_traceback,
    original_builtins,
    plan,
    result_of,
)

MEMORY_BYTES = 4 * 2**30
OUTPUT_BYTES = 32 * 2**20


def main(exercise_id: str, path: str, events: str, timeout_s: str, hidden_seed: str) -> None:
    """Grades `path` and appends to `events`: results in order, then diagnoses, then the end."""
    _limit(float(timeout_s))
    with open(events, "w", encoding="utf-8", buffering=1) as sink:
        _grade(suite_of(exercise_id), Path(path), int(hidden_seed) if hidden_seed else None, sink)


def _grade(suite: Suite, path: Path, hidden_seed: int | None, sink: TextIO) -> None:
    try:
        namespace = _load(path)
    except BaseException as error:  # exit() in the file included: it must become a result
        reason = f"{path.name} could not be loaded:\n{learner_traceback(error)}"
        for part, entry in plan(suite, suite.functions, hidden_seed):
            _write(sink, "result", result=asdict(result_of(part, entry, "error", reason)))
        _write(sink, "end")
        return
    with original_builtins():
        functions = find_functions(suite, namespace)
        results = []
        for result in judge_all(suite, functions, hidden_seed):
            results.append(result)
            _write(sink, "result", result=asdict(result))
        for text in diagnose(suite, functions, results):
            _write(sink, "diagnosis", text=text)
        _write(sink, "end")


def _load(path: Path) -> dict[str, Any]:
    # At the end: the learner may import a file of their own, and none of the standard library is shadowed.
    sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"learner_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def _write(sink: TextIO, event: str, **content: Any) -> None:
    sink.write(json.dumps({"event": event, **content}) + "\n")


def _limit(timeout_s: float) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits; the parent's time limit still holds
        return
    for kind, amount in (
        (resource.RLIMIT_CPU, int(timeout_s) + 2),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (amount if hard == resource.RLIM_INFINITY else min(amount, hard), hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # a thread the learner's code left running must not keep the process alive
