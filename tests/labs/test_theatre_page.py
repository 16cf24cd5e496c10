"""The theatre's script in a real browser page: keys, buttons, marks, and text that tries to be markup."""

from collections.abc import Iterator
import json
from typing import Any

import pytest

from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.toy import toy_pair
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams
from specdec_labs.widgets.theatre import view_model
from specdec_labs.widgets.theatre.live import Theatre

pytestmark = pytest.mark.browser

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
HOSTILE = "<img src=x onerror='window.broken=1'><script>window.broken=1</script>"
PAGE = """<!doctype html><meta charset="utf-8"><title>theatre</title><link rel="stylesheet" href="theatre.css">
<body><div id="host"></div><script type="module">
import theatre, {keyTarget, roundJump} from "./theatre.js";
const state = {view: VIEW, position: 0}, listeners = {};
const model = {
  get: (name) => state[name],
  set: (name, value) => {
    const changed = state[name] !== value;
    state[name] = value;
    if (changed) listeners[`change:${name}`]?.();
  },
  save_changes: () => {},
  on: (name, listener) => { listeners[name] = listener; },
  off: (name) => { delete listeners[name]; },
};
const stop = theatre.render({model, el: document.getElementById("host")});
Object.assign(window, {state, listeners, stop, keyTarget, roundJump});
</script></body>"""


def toy_trace() -> Trace:
    target, draft = toy_pair()
    engine = Engine(target, ModelDrafter(draft), "chain", 4, record_top=6)
    return engine.generate([1, 2, 3], SamplingParams(temperature=8.0, seed=3), 24).trace


@pytest.fixture
def show(browser: Any) -> Iterator[Any]:
    """A function that opens a page with the theatre of a view; the page must end without script errors."""
    pages, complaints = [], []

    def open_page(view: dict[str, Any], **options: Any) -> Any:
        page = browser.new_page(**options)
        pages.append(page)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.route("**/*", lambda route: _serve(route, view))
        page.goto("http://theatre.test/")
        page.wait_for_selector(".sd-theatre")
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


def _serve(route: Any, view: dict[str, Any]) -> None:
    name = route.request.url.rsplit("/", 1)[1]
    if name == "theatre.css":
        route.fulfill(body=Theatre._css, content_type="text/css")
    elif name == "theatre.js":
        route.fulfill(body=Theatre._esm, content_type="text/javascript")
    elif name == "":
        # "<" would end the script element early when a token's text says so
        route.fulfill(body=PAGE.replace("VIEW", json.dumps(view).replace("<", "\\u003c")), content_type="text/html")
    else:
        route.fulfill(status=404, body="")


def place(page: Any) -> str:
    return page.inner_text(".sd-place")


def test_keys_step_jump_and_play(show: Any) -> None:
    view = view_model(toy_trace())
    total = len(view["steps"])
    first_round = next(index for index, step in enumerate(view["steps"]) if step["round"] == 1)
    second_round = next(index for index, step in enumerate(view["steps"]) if step["round"] == 2)
    page = show(view)
    page.focus(".sd-theatre")
    assert place(page) == f"step 1 of {total}"
    for key, position in (
        ("ArrowRight", 1),
        ("ArrowLeft", 0),
        ("ArrowLeft", 0),
        ("Shift+ArrowRight", first_round),
        ("PageDown", second_round),
        ("PageUp", first_round),
        ("Shift+ArrowLeft", 0),
        ("End", total - 1),
        ("ArrowRight", total - 1),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        assert place(page) == f"step {position + 1} of {total}", key
        assert page.evaluate("state.position") == position
        assert page.inner_text(".sd-say") == view["steps"][position]["say"]
    page.keyboard.press("Space")
    assert page.get_attribute(".sd-button:nth-child(3)", "aria-label") == "Pause"
    page.wait_for_function("state.position >= 1")
    page.keyboard.press("Space")
    stopped = page.evaluate("state.position")
    page.wait_for_timeout(1500)
    assert page.evaluate("state.position") == stopped


def test_keys_with_modifiers_and_other_keys_are_left_to_the_page(show: Any) -> None:
    page = show(view_model(toy_trace()))
    for event in ({"key": "ArrowRight", "ctrlKey": True}, {"key": "a"}, {"key": "ArrowDown"}, {"key": "Tab"}):
        assert page.evaluate("(event) => keyTarget(event, state.view.steps, 2)", event) is None


def test_buttons_scrub_bar_and_the_kernel_move_the_same_position(show: Any) -> None:
    view = view_model(toy_trace())
    page = show(view)
    page.click("button[aria-label='Next step']")
    assert place(page).startswith("step 2 of")
    page.locator(".sd-scrub").fill("5")
    assert page.evaluate("state.position") == 5
    page.evaluate("() => { state.position = 3; listeners['change:position'](); }")
    assert place(page).startswith("step 4 of")
    assert page.input_value(".sd-scrub") == "3"
    page.evaluate("stop()")
    assert page.evaluate("Object.keys(listeners).length") == 0


def test_every_step_shows_its_tokens_and_numbers(show: Any) -> None:
    view = view_model(toy_trace())
    page = show(view)
    page.focus(".sd-theatre")
    for step in view["steps"]:
        assert page.locator(".sd-story > .sd-token:visible").count() == step["shown"]
        assert page.locator(".sd-drafts .sd-token").count() == len(step["drafts"])
        if step["bars"]:
            rows = len(step["bars"]["rows"]) + any(step["bars"]["rest"])
            assert page.locator(".sd-chart tr").count() == 1 + rows
        has_gauge = step["coin"] is not None and step["coin"]["ratio"] is not None
        assert page.locator(".sd-gauge").count() == has_gauge
        if has_gauge:
            assert float(page.get_attribute(".sd-needle", "title").removeprefix("u = ")) == step["coin"]["u"]
        page.keyboard.press("ArrowRight")


def test_token_text_is_shown_and_never_run(show: Any) -> None:
    trace = toy_trace()
    trace.texts = dict.fromkeys(range(10), HOSTILE)
    page = show(view_model(trace))
    page.focus(".sd-theatre")
    for _ in view_model(trace)["steps"]:
        page.keyboard.press("ArrowRight")
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    assert HOSTILE in page.inner_text(".sd-story")


def test_an_empty_trace_has_two_steps(show: Any) -> None:
    page = show(view_model(Trace(prompt=(1,))))
    page.focus(".sd-theatre")
    page.keyboard.press("End")
    assert place(page) == "step 2 of 2"


def test_no_stage_is_blank_and_the_strip_shows_the_whole_generation(show: Any) -> None:
    view = view_model(toy_trace())
    page = show(view)
    page.focus(".sd-theatre")
    cells = page.locator(".sd-origins .sd-token")
    marks = {"accepted": "✓", "recovered": "↺", "bonus": "★", "plain": "·", "prefill": "·"}
    assert cells.all_inner_texts() == [marks[origin] for _, origin, _ in view["tokens"]]
    for _ in view["steps"]:
        assert page.inner_text(".sd-stage").strip()
        page.keyboard.press("ArrowRight")
    assert page.locator(".sd-whole .sd-token").count() == len(view["tokens"])
    place = next(index for index, (_, origin, _) in enumerate(view["tokens"]) if origin == "recovered")
    cells.nth(place).click()
    step = view["steps"][page.evaluate("state.position")]
    assert step["kind"] == "recovered" and step["token"] == view["tokens"][place][0]
    assert page.locator(".sd-origins .sd-ahead").count() == len(view["tokens"]) - step["shown"]
    assert "tokens by origin" in (page.get_attribute(".sd-origins", "aria-label") or "")


def test_a_long_prompt_is_folded_and_reads_as_text(show: Any) -> None:
    trace = toy_trace()
    trace.prompt, trace.texts = (1, 2, 3) * 20, {1: "␣one", 2: "␣two", 3: "↵"}
    page = show(view_model(trace))
    shown = page.locator(".sd-prompt .sd-token:visible")
    assert shown.count() == 12
    assert " one two↵" in page.inner_text(".sd-prompt") and "␣" not in page.inner_text(".sd-prompt")
    fold = page.locator(".sd-fold")
    assert fold.inner_text() == "… 48 tokens of the prompt" and fold.get_attribute("aria-expanded") == "false"
    fold.focus()
    page.keyboard.press("Enter")
    assert shown.count() == 60 and fold.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Space")
    assert shown.count() == 12 and page.get_attribute("[aria-label=Play]", "aria-label") == "Play"


@pytest.mark.parametrize("width", [360, 800, 1440])
def test_no_number_is_cut_and_no_step_moves_the_controls(show: Any, width: int) -> None:
    trace = toy_trace()
    trace.texts = {token: f"␣word{token}" for token in range(10)}
    view = view_model(trace)
    for bars in filter(None, (step["bars"] for step in view["steps"])):
        # the longest numbers there are: a token that was not listed has a bound only
        bars["rows"][-1][1:] = [None for _ in bars["series"]]
        bars["bound"] = [0.000467 for _ in bars["series"]]
    page = show(view, viewport={"width": width, "height": 900})
    page.focus(".sd-theatre")
    places, bounds = set(), 0
    for _ in view["steps"]:
        places.add(page.locator(".sd-controls").bounding_box()["y"])
        cut = "(nodes) => nodes.filter((node) => node.scrollWidth > node.clientWidth).map((node) => node.textContent)"
        assert page.locator(".sd-number").evaluate_all(cut) == []
        bounds += page.locator(".sd-number", has_text="≤ 0.000467").count()
        page.keyboard.press("ArrowRight")
    assert len(places) == 1 and bounds > 3


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_and_text_has_contrast(show: Any, width: int, scheme: str) -> None:
    trace = toy_trace()
    trace.texts = {token: f"{'long' * 20}{token}" for token in range(5)}
    page = show(view_model(trace), viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.focus(".sd-theatre")
    for _ in range(12):
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    colours = "(node) => [getComputedStyle(node).color, getComputedStyle(node).backgroundColor]"
    ink, paper = page.locator(".sd-theatre").evaluate(colours)
    assert contrast(ink, paper) >= 7
    assert (luminance(paper) > 0.5) == (scheme == "light")


def test_reduced_motion_stops_every_transition(show: Any) -> None:
    page = show(view_model(toy_trace()), reduced_motion="reduce")
    page.focus(".sd-theatre")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    moving = page.evaluate(
        """() => [...document.querySelectorAll('.sd-theatre *')].filter((node) => {
            const style = getComputedStyle(node);
            return style.animationName !== 'none' || style.transitionDuration !== '0s';
        }).length"""
    )
    assert moving == 0


def test_controls_have_names_and_changes_are_announced(show: Any) -> None:
    page = show(view_model(toy_trace()))
    unnamed = page.locator("button:not([aria-label]), input:not([aria-label])").count()
    assert unnamed == 0
    assert page.get_attribute("[role=status]", "aria-live") == "polite"
    page.focus(".sd-theatre")
    page.keyboard.press("ArrowRight")
    assert "Prefill" in page.inner_text("[role=status]")
    assert "Prefill" in page.get_attribute(".sd-scrub", "aria-valuetext")


def luminance(colour: str) -> float:
    """Relative luminance of "rgb(r, g, b)" (WCAG 2)."""
    channels = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2)."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
