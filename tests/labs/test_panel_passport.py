"""The passport reads what was noted, counts it, and writes it out; predictions are kept and never in the way."""

import csv
import io
import json
from pathlib import Path

import pytest

from specdec_labs.grade.records import Progress, TaskProgress
from specdec_labs.grade.tasks import TASKS
from specdec_labs.widgets import predictions
from specdec_labs.widgets.passport import passport_csv, passport_json, view_model
from specdec_labs.widgets.passport.static import render
from specdec_labs.widgets.predict import PredictionCard

RIGHT = {"question": "faster?", "answer": "yes", "measured": 1.5, "right": True, "at": "2026-11-29T10:00:00+00:00"}


def some_progress() -> Progress:
    """The first task solved, the second begun, the rest new."""
    entries = []
    for place, task in enumerate(TASKS.values()):
        passed = {0: task.points, 1: 1}.get(place, 0)
        solved_at = "2026-11-29T10:00:00+00:00" if place == 0 else ""
        entries.append(TaskProgress(task, passed, solved_at, 2 if place == 1 else 0, False))
    return Progress(tuple(entries))


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(predictions, "work_root", lambda: tmp_path / "work")
    monkeypatch.delenv("SPECDEC_FAST", raising=False)
    return tmp_path / "work" / "predictions.json"


def test_states_totals_and_what_is_next() -> None:
    view = view_model(some_progress(), [RIGHT, {**RIGHT, "question": "slower?", "right": False}])
    tasks = [task for group in view["sets"] for task in group["tasks"]]
    assert [task["state"] for task in tasks][:3] == ["solved", "begun", "new"]
    assert [task["id"] for task in tasks] == list(TASKS)
    assert view["totals"]["solved"] == 1 and view["totals"]["points"] == sum(task.points for task in TASKS.values())
    assert view["next"] == tasks[1]["id"] and "1 of 2 predictions right" in view["say"]


def test_everything_solved_leaves_nothing_next() -> None:
    done = tuple(TaskProgress(task, task.points, "2026-11-29", 0, False) for task in TASKS.values())
    view = view_model(Progress(done))
    assert view["next"] is None and "Nothing is left" in view["say"]


def test_the_exports_hold_every_task() -> None:
    view = view_model(some_progress(), [RIGHT])
    assert json.loads(passport_json(view))["totals"] == view["totals"]
    rows = list(csv.DictReader(io.StringIO(passport_csv(view))))
    assert [row["task"] for row in rows] == list(TASKS)
    assert rows[0]["state"] == "solved" and rows[1]["hints"] == "2"


def test_the_twin_has_a_row_for_each() -> None:
    html = render(view_model(some_progress(), [RIGHT]))
    assert "✓ solved" in html and "faster?" in html and all(task in html for task in TASKS)


def test_a_revealed_prediction_is_noted_once_with_its_verdict(notes: Path) -> None:
    card = PredictionCard("speed-up?", ["below 1", "1 to 2", "2 and more"], [1.0, 2.0])
    card.reveal(1.4)
    assert not notes.exists(), "nothing is noted before there is an answer"
    card.card.set_state({"settings": {"answer": "1 to 2"}})
    (entry,) = predictions.noted_predictions()
    assert (entry["question"], entry["answer"], entry["measured"], entry["right"]) == ("speed-up?", "1 to 2", 1.4, True)
    card.reveal(9.0)
    assert len(predictions.noted_predictions()) == 1


def test_a_question_asked_again_keeps_the_latest_answer(notes: Path) -> None:
    predictions.note_prediction("q", "low", 3.0, False)
    predictions.note_prediction("q", "high", 3.1, True)
    assert [entry["answer"] for entry in predictions.noted_predictions()] == ["high"]


def test_automatic_runs_note_nothing(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDEC_FAST", "1")
    predictions.note_prediction("q", "low", 3.0, False)
    assert not notes.exists()


def test_an_unreadable_file_is_kept_aside(notes: Path) -> None:
    notes.parent.mkdir(parents=True)
    notes.write_text("{", encoding="utf-8")
    with pytest.warns(UserWarning, match="kept as predictions.unreadable"):
        assert predictions.noted_predictions() == []
    assert notes.with_suffix(".unreadable").read_text(encoding="utf-8") == "{"
    predictions.note_prediction("q", "low", 3.0, False)
    assert len(predictions.noted_predictions()) == 1
