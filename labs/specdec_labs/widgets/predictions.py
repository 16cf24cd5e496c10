"""Predictions that a learner made, kept in `work/predictions.json` for the passport."""

from collections.abc import Sequence
from datetime import UTC, datetime
import json
import os
from pathlib import Path
from typing import Any
import warnings

from specdec_core.whole_file import write_whole
from specdec_labs.exercises import work_root

SCHEMA = "specdec.predictions"
AUTOMATIC = "SPECDEC_FAST"
"""Set to 1 where notebooks run by themselves; nothing is noted then."""


def note_prediction(question: str, answer: str, measured: float, right: bool) -> None:
    """Keeps the latest answer to a question; a place that cannot be written gives a warning and nothing else."""
    if os.environ.get(AUTOMATIC) == "1":
        return
    noted = [entry for entry in noted_predictions() if entry["question"] != question]
    noted.append(
        {
            "question": question,
            "answer": answer,
            "measured": measured,
            "right": right,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )
    path = _path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"schema": SCHEMA, "version": 1, "predictions": noted}, indent=1) + "\n")
    except (OSError, ValueError) as error:
        warnings.warn(f"the prediction was not noted in {path}: {error}", stacklevel=3)


def noted_predictions() -> Sequence[dict[str, Any]]:
    """What was predicted so far, oldest first; empty for a file that is missing. An unreadable one is kept aside."""
    path = _path()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return [
            {**entry, "right": bool(entry["right"]), "question": str(entry["question"])}
            for entry in data["predictions"]
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        if path.is_file():
            kept = path.replace(path.with_suffix(".unreadable"))
            warnings.warn(f"{path.name} could not be read; it is kept as {kept.name} and a new one begun", stacklevel=3)
        return []


def _path() -> Path:
    return work_root() / "predictions.json"
