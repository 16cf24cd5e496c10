"""What the learner has solved so far, noted in `work/progress.json`: the best result of each task, nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
import json
import os
from pathlib import Path
from typing import Any
import warnings

from specdec_core.whole_file import write_whole
from specdec_labs.exercises import work_root
from specdec_labs.grade.hints import hints_used
from specdec_labs.grade.report import Report
from specdec_labs.grade.task import Task
from specdec_labs.grade.tasks import TASKS

SCHEMA = "specdec.progress"
AUTOMATIC = "SPECDEC_FAST"
"""Set to 1 where notebooks run by themselves; nothing is noted then."""


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """One task: the best number of properties passed, of how many, when it was first solved, what was revealed."""

    task: Task
    passed: int
    solved_at: str
    hints: int
    solution_seen: bool

    @property
    def solved(self) -> bool:
        """Whether every public property passed once."""
        return bool(self.solved_at)


@dataclass(frozen=True, slots=True, repr=False)
class Progress:
    """Every task in order."""

    tasks: tuple[TaskProgress, ...]

    @property
    def solved(self) -> int:
        """Tasks solved."""
        return sum(entry.solved for entry in self.tasks)

    def __str__(self) -> str:
        lines = [f"{self.solved} of {len(self.tasks)} tasks solved"]
        for entry in self.tasks:
            mark = "solved" if entry.solved else f"{entry.passed}/{entry.task.points}"
            revealed = f"  hints {entry.hints}" if entry.hints else ""
            revealed += "  solution seen" if entry.solution_seen else ""
            lines.append(f"  {entry.task.id:20} {mark:8} {entry.task.title}{revealed}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td><code>{escape(entry.task.id)}</code></td><td style='text-align:left'>{escape(entry.task.title)}"
            f"</td><td>{'&#10003; solved' if entry.solved else f'{entry.passed} of {entry.task.points}'}</td>"
            f"<td>{entry.hints or ''}</td></tr>"
            for entry in self.tasks
        )
        head = "<tr><th>task</th><th>title</th><th>done</th><th>hints</th></tr>"
        return f"<p><b>{self.solved} of {len(self.tasks)} tasks solved</b></p><table>{head}{rows}</table>"


def progress() -> Progress:
    """What was solved so far, of every task."""
    noted = _read(_path())
    entries = []
    for task in TASKS.values():
        best = noted.get(task.id)
        best = best if isinstance(best, dict) else {}
        used = [entry.get("level") for entry in hints_used(task.id)]
        passed = best.get("passed")
        entries.append(
            TaskProgress(
                task,
                passed if isinstance(passed, int) else 0,
                str(best.get("solved_at") or ""),
                sum(level != "solution" for level in used),
                "solution" in used,
            )
        )
    return Progress(tuple(entries))


def record(reports: Sequence[Report]) -> None:
    """Notes better results; a place that cannot be written gives a warning and nothing else."""
    if os.environ.get(AUTOMATIC) == "1" or not any(report.started for report in reports):
        return
    path = _path()
    noted = _read(path)
    before = json.dumps(noted)
    for report in reports:
        task = TASKS.get(report.task_id)
        public = [result for result in report.results if result.part == "public"]
        if task is None or not report.started or len(public) != task.points:
            continue
        passed = sum(result.status == "passed" for result in public)
        old = noted.get(report.task_id)
        best = dict(old) if isinstance(old, dict) else {}
        best["passed"] = max(passed, best["passed"] if isinstance(best.get("passed"), int) else 0)
        if passed == task.points:
            best.setdefault("solved_at", datetime.now(UTC).isoformat(timespec="seconds"))
        noted[report.task_id] = best
    if json.dumps(noted) == before:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"schema": SCHEMA, "version": 1, "tasks": noted}, indent=1) + "\n")
    except (OSError, ValueError) as error:
        warnings.warn(f"progress was not noted in {path}: {error}", stacklevel=3)


def _path() -> Path:
    return work_root() / "progress.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("tasks"), dict):
        if path.is_file():
            kept = path.replace(path.with_suffix(".unreadable"))
            warnings.warn(f"{path.name} could not be read; it is kept as {kept.name} and a new one begun", stacklevel=4)
        return {}
    return data["tasks"]
