"""What several tests start from: submissions that are graded, and the panels' scripts in a real browser page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import json
from pathlib import Path
import secrets
import time
from typing import Any

import pytest

from specdec_core.draft import DraftTree
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.toy import toy_pair
from specdec_core.warp import SamplingParams
from specdec_labs.grade import Reports, grade_submission
from specdec_labs.grade.access import GRADING
from specdec_labs.grade.records import Progress, TaskProgress
from specdec_labs.grade.session import Limits
from specdec_labs.grade.tasks import TASKS
from specdec_labs.widgets.coin.live import CoinEditor
from specdec_labs.widgets.passport import passport_csv
from specdec_labs.widgets.passport import view_model as passport_view
from specdec_labs.widgets.passport.live import Passport
from specdec_labs.widgets.predict import Prediction
from specdec_labs.widgets.predict.live import Card
from specdec_labs.widgets.predict.live import view_of as card_view
from specdec_labs.widgets.roofline.live import RooflineExplorer
from specdec_labs.widgets.speedup import SEED_POINTS
from specdec_labs.widgets.speedup.live import SpeedupExplorer
from specdec_labs.widgets.theatre import view_model as theatre_model
from specdec_labs.widgets.theatre.live import Theatre
from specdec_labs.widgets.tree import frame_of
from specdec_labs.widgets.tree import view_model as tree_model
from specdec_labs.widgets.tree.live import TreeView

OTHERS = """
def count_paths(branching, depth):
    return branching ** depth

def count_nodes(branching, depth):
    return sum(branching ** level for level in range(1, depth + 1))

PATHS_3_4 = 81

def tree_positions(parents, offset):
    positions = [offset]
    for parent in parents:
        positions.append(positions[parent + 1] + 1)
    return positions
"""
GOOD = """
def rejection_probability(p, q):
    return sum(max(a - b, 0) for a, b in zip(p, q))

def residual(p, q):
    excess = [max(a - b, 0) for a, b in zip(p, q)]
    if sum(excess) == 0:
        return list(p)
    return [mass / sum(excess) for mass in excess]
"""


@dataclass(frozen=True)
class Submissions:
    """Writes and grades submissions below a folder.

    `good` is right for E01, `others` for two tasks of E07: what must survive whatever is added.
    """

    folder: Path
    limits: Limits = Limits(seconds=3.0)
    good: str = GOOD
    others: str = OTHERS

    def write(self, text: str, name: str = "submission.py") -> Path:
        """A file."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def notebook(self, cells: list[str], name: str = "submission.ipynb") -> Path:
        """A notebook of code cells behind some text."""
        made = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": []} for cell in cells]
        data = {"cells": [{"cell_type": "markdown", "source": ["# x"]}, *made], "nbformat": 4, "nbformat_minor": 5}
        return self.write(json.dumps(data), name)

    def grade(self, text: str, exercise: str | None = None, **more: Any) -> Reports:
        """The reports on this text alone."""
        return grade_submission(self.write(text), exercise, **{"limits": self.limits, **more})

    def with_others(self, text: str, **more: Any) -> Reports:
        """The reports on a submission that is right but for `text`; the two other tasks keep their points."""
        began = time.monotonic()
        reports = self.grade(self.good + self.others + text, **more)
        assert time.monotonic() - began < 90
        assert reports.of("E07.paths").ok and reports.of("E07.positions").ok, str(reports)
        return reports


@pytest.fixture
def submissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submissions]:
    """Submissions in a folder of their own; afterwards no process of theirs is left, and nothing was noted."""
    monkeypatch.setenv("SPECDEC_FAST", "1")
    # children inherit it: other workers grade at the same time
    own = secrets.token_hex(16)
    monkeypatch.setenv("SPECDEC_OWN_SUBMISSIONS", own)
    yield Submissions(tmp_path)
    environments = ((path, _read(path)) for path in Path("/proc").glob("[0-9]*/environ"))
    assert [path for path, text in environments if GRADING.encode() in text and own.encode() in text] == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PAGE = """<!doctype html><meta charset="utf-8"><style>STYLE</style>
<body><div id="host"></div><script type="module" src="boot.js"></script>"""
BOOT = """import * as module from "./widget.js";
const state = STATE, listeners = {}, sent = [];
const emit = (event) => (listeners[event] ?? []).forEach((listener) => listener());
const tell = (name) => emit(`change:${name}`);
const model = {
  get: (name) => state[name],
  set: (name, value) => {
    if (state[name] === value) return;
    state[name] = value;
    tell(name);
    if (name !== "settings") return;
    kernel(JSON.stringify(value)).then((view) => { state.view = JSON.parse(view); tell("view"); emit("msg:custom"); });
  },
  save_changes: () => {},
  send: (content) => sent.push(content),
  on: (name, listener) => { (listeners[name] ??= []).push(listener); },
  off: (name, listener) => { listeners[name] = (listeners[name] ?? []).filter((entry) => entry !== listener); },
};
const stop = module.default.render({ model, el: document.getElementById("host") });
Object.assign(window, { state, sent, listeners, module, stop, model, emit });
"""
TREE = DraftTree((10, 11, 12, 13, 14), (-1, -1, 0, 1, 3))


def states() -> dict[str, tuple[type, dict[str, Any]]]:
    """Each widget class with the state its page starts from."""
    coin = {"names": ["cat", "dog", "bee"], "p": ["3", "2", "1"], "q": ["1", "1", "3"], "drafted": 2, "u": 0.9}
    speed = {"points": [*SEED_POINTS, {"label": "mine", "alpha": 0.5, "gamma": 3, "speedup": 1.2}]}
    done = tuple(
        TaskProgress(task, task.points * (place == 0), "2026-11-29" * (place == 0), place % 3, False)
        for place, task in enumerate(TASKS.values())
    )
    book = passport_view(Progress(done))
    return {
        "coin": (CoinEditor, {"settings": coin, "view": CoinEditor.view_of(coin)}),
        "speedup": (SpeedupExplorer, {"settings": speed, "view": SpeedupExplorer.view_of(speed)}),
        "roofline": (RooflineExplorer, {"settings": {}, "view": RooflineExplorer.view_of({})}),
        "tree": (
            TreeView,
            {
                "view": tree_model([frame_of(TREE, prefix=7, path=(1, 3), label=f"tree {i}") for i in range(2)]),
                "frame": 0,
                "selected": -1,
            },
        ),
        "passport": (Passport, {"view": book, "csv": passport_csv(book)}),
        "card": (AnsweringCard, {"settings": {"answer": None}, "view": AnsweringCard.view_of({"answer": None})}),
    }


class AnsweringCard:
    """The card's front end, with its view as a function of the latest answer."""

    _esm, _css = Card._esm, Card._css

    @staticmethod
    def view_of(settings: dict[str, Any]) -> dict[str, Any]:
        prediction = Prediction("How many?", ("few", "some", "many"), (2.0, 3.0))
        if settings["answer"] is not None:
            prediction.record(settings["answer"])
        return card_view(prediction)


def toy_theatre() -> tuple[type, dict[str, Any]]:
    target, draft = toy_pair()
    engine = Engine(target, ModelDrafter(draft), "chain", 4, record_top=6)
    trace = engine.generate([1, 2, 3], SamplingParams(temperature=8.0, seed=3), 12).trace
    return Theatre, {"view": theatre_model(trace), "position": 0}


@pytest.fixture(scope="module")
def browser(browser_path: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def show(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens the page of a widget; the page must end without script errors."""
    pages, complaints = [], []

    def open_page(name: str, changes: dict[str, Any] | None = None, address: str = "", **options: Any) -> Any:
        kind, state = toy_theatre() if name == "theatre" else states()[name]
        page = browser.new_page(**options)
        pages.append(page)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.expose_function("kernel", lambda text: answer(kind, state["view"], text))
        page.route("**/*", lambda route: serve(route, kind, {**state, **(changes or {})}))
        page.goto(f"http://panel.test/{address}")
        page.wait_for_selector(".sd-panel, .sd-theatre")
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


def answer(kind: Any, view: dict[str, Any], text: str) -> str:
    try:
        return json.dumps(kind.view_of(json.loads(text)))
    except ValueError as error:
        return json.dumps({**view, "problem": str(error)})


def serve(route: Any, kind: Any, state: dict[str, Any]) -> None:
    name = route.request.url.split("#")[0].rsplit("/", 1)[1]
    bodies = {
        "": (PAGE.replace("STYLE", kind._css), "text/html"),
        "widget.js": (kind._esm, "text/javascript"),
        "boot.js": (BOOT.replace("STATE", json.dumps(state).replace("<", "\\u003c")), "text/javascript"),
    }
    if name in bodies:
        body, content_type = bodies[name]
        route.fulfill(body=body, content_type=content_type)
    else:
        route.fulfill(status=404, body="")
