"""The passport without a script."""

from collections.abc import Mapping
from typing import Any

from specdec_labs.widgets.twin import paragraph, table

_STATES = {"solved": "✓ solved", "begun": "◐ begun", "new": "○ new"}


def render(view: Mapping[str, Any]) -> str:
    """HTML of what `view_model` returned."""
    rows = [
        (
            task["id"],
            task["title"],
            _STATES[task["state"]],
            f"{task['passed']} of {task['points']}",
            task["hints"] or "",
            "yes" if task["solution_seen"] else "",
        )
        for group in view["sets"]
        for task in group["tasks"]
    ]
    predicted = [
        (entry["question"], entry["answer"], f"{entry['measured']:.3g}", "✓" if entry["right"] else "✗")
        for entry in view["predictions"]
    ]
    predictions = table(("predicted", "your answer", "measured", ""), predicted) if predicted else ""
    return (
        paragraph(view["say"])
        + table(("task", "title", "state", "properties", "hints", "solution seen"), rows)
        + predictions
    )
