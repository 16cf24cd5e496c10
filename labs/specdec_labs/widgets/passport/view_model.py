"""The progress passport: every task with what was passed and revealed, and how well the predictions went."""

from collections.abc import Iterable, Mapping, Sequence
import csv
import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdec_labs.grade.records import Progress, TaskProgress

CSV_COLUMNS = ("task", "title", "state", "passed", "points", "solved_at", "hints", "solution_seen")


def view_model(progress: "Progress", predictions: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The passport, ready for `json.dumps`.

    `sets` groups the tasks by their set; a task has id, title, minutes, difficulty, passed, points, state (solved,
    begun or new), solved_at, hints, solution_seen and museum. `totals` counts tasks, points and predictions;
    `next` is the first task that is not solved.
    """
    sets: dict[str, list[dict[str, Any]]] = {}
    for entry in progress.tasks:
        sets.setdefault(entry.task.set_id, []).append(_task(entry))
    tasks = [task for group in sets.values() for task in group]
    made = [dict(prediction) for prediction in predictions]
    right = sum(bool(prediction["right"]) for prediction in made)
    waiting = next((task for task in tasks if task["state"] != "solved"), None)
    totals = {
        "tasks": len(tasks),
        "solved": sum(task["state"] == "solved" for task in tasks),
        "points": sum(task["points"] for task in tasks),
        "passed": sum(task["passed"] for task in tasks),
        "predictions": len(made),
        "right": right,
    }
    return {
        "version": 1,
        "sets": [{"id": name, "tasks": group} for name, group in sets.items()],
        "predictions": made,
        "totals": totals,
        "next": None if waiting is None else waiting["id"],
        "say": _sentence(totals, waiting),
    }


def passport_json(view: Mapping[str, Any]) -> str:
    """The passport as a file to hand in or keep."""
    content = {"schema": "specdec.passport", **view}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def passport_csv(view: Mapping[str, Any]) -> str:
    """One line a task."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for task in _tasks(view):
        writer.writerow([task["id"], *(task[name] for name in CSV_COLUMNS[1:])])
    return text.getvalue()


def _tasks(view: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [task for group in view["sets"] for task in group["tasks"]]


def _task(entry: "TaskProgress") -> dict[str, Any]:
    state = "solved" if entry.solved else "begun" if entry.passed or entry.hints or entry.solution_seen else "new"
    return {
        "id": entry.task.id,
        "title": entry.task.title,
        "minutes": entry.task.minutes,
        "difficulty": entry.task.difficulty,
        "museum": entry.task.museum,
        "passed": entry.task.points if entry.solved else min(entry.passed, entry.task.points),
        "points": entry.task.points,
        "state": state,
        "solved_at": entry.solved_at,
        "hints": entry.hints,
        "solution_seen": entry.solution_seen,
    }


def _sentence(totals: Mapping[str, int], waiting: Mapping[str, Any] | None) -> str:
    solved = f"{totals['solved']} of {totals['tasks']} tasks solved"
    predicted = f", {totals['right']} of {totals['predictions']} predictions right" if totals["predictions"] else ""
    if waiting is None:
        return f"{solved}{predicted}. Nothing is left to do."
    return f"{solved}{predicted}. Next: {waiting['id']}, {waiting['title']}, about {waiting['minutes']} minutes."
