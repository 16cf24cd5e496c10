"""The panels' scripts in a real browser page, with their own view models as the kernel."""

from collections.abc import Callable, Iterator
import json
from pathlib import Path
from typing import Any

import pytest

from specdec_core.draft import DraftTree
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.toy import toy_pair
from specdec_core.warp import SamplingParams
from specdec_labs.grade.records import Progress, TaskProgress
from specdec_labs.grade.tasks import TASKS
from specdec_labs.widgets.coin.live import CoinEditor
from specdec_labs.widgets.passport import passport_csv
from specdec_labs.widgets.passport import view_model as passport_view
from specdec_labs.widgets.passport.live import Passport
from specdec_labs.widgets.predict import Prediction
from specdec_labs.widgets.predict.live import Card
from specdec_labs.widgets.predict.live import view_of as card_view
from specdec_labs.widgets.roofline.live import RooflineExplorer
from specdec_labs.widgets.speedup import SEED_POINTS, measured_costs, measured_points
from specdec_labs.widgets.speedup.live import SpeedupExplorer
from specdec_labs.widgets.theatre import view_model as theatre_model
from specdec_labs.widgets.theatre.live import Theatre
from specdec_labs.widgets.tree import frame_of
from specdec_labs.widgets.tree import view_model as tree_model
from specdec_labs.widgets.tree.live import TreeView

pytestmark = pytest.mark.browser

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
HOSTILE = "<img src=x onerror='window.broken=1'>"
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


def test_the_coin_editor_by_keyboard_and_pointer(show: Callable[..., Any]) -> None:
    page = show("coin")
    page.focus("input[aria-label=u]")
    page.keyboard.press("Home")
    page.wait_for_function("state.view.decision.accepted")
    assert "bee is kept (u = 0.000 < 5/18)" in page.inner_text(".sd-say")
    area = page.locator(".sd-gauge").bounding_box()
    page.mouse.move(area["x"] + 5, area["y"] + 5)
    page.mouse.down()
    page.mouse.move(area["x"] + 0.9 * area["width"], area["y"] + 5, steps=4)
    page.mouse.up()
    page.wait_for_function("!state.view.decision.accepted")
    assert page.evaluate("state.settings.u") == pytest.approx(0.9, abs=0.02)


def test_the_coin_editor_shows_a_mistake_and_mends_bad_input(show: Callable[..., Any]) -> None:
    page = show("coin")
    assert "✓ The output law is p" in page.inner_text(".sd-verdict")
    page.select_option("select[aria-label=code]", "recovery_from_target")
    page.wait_for_selector(".sd-verdict.sd-wrong")
    assert "1/12" in page.inner_text(".sd-verdict")
    page.click("button[aria-label='draw 100 rounds']")
    page.wait_for_selector(".sd-samples svg")
    assert "100 rounds: cat" in page.inner_text(".sd-counts") and page.locator(".sd-samples svg").count() == 2
    entry = page.locator("input[aria-label='p of cat']")
    entry.fill("1/x")
    entry.press("Enter")
    page.wait_for_selector(".sd-problem:visible")
    entry.fill("1/3")
    entry.press("Enter")
    page.wait_for_selector(".sd-problem", state="hidden")
    assert page.evaluate("state.view.rows[0].p.exact") == "1/10"


def test_the_explorers_map_moves_by_arrow_and_click(show: Callable[..., Any]) -> None:
    page = show("speedup")
    page.focus(".sd-map")
    for key in ("ArrowRight", "ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    page.wait_for_function("state.view.here.gamma === 7 && state.view.here.alpha === 0.82")
    assert "alpha 0.82 and gamma 7" in page.inner_text(".sd-say")
    page.click(".sd-map", position={"x": 120, "y": 100})
    page.wait_for_function("state.view.here.alpha < 0.3")
    assert page.locator(".sd-say.sd-slow").count() == 1 and "SLOWER" in page.inner_text(".sd-say")
    place = "(x, y) => { const s = module.mapScale(state.view); return [s.alpha(s.x(0.37)), s.gamma(s.y(9))]; }"
    assert page.evaluate(place) == [0.37, 9]


def test_the_map_is_painted_when_its_page_comes_to_the_screen_later(show: Callable[..., Any]) -> None:
    page = show("speedup")
    page.evaluate("""() => {
        stop();
        document.getElementById("host").replaceChildren();
        window.later = document.createElement("div");
        module.default.render({ model, el: later });
    }""")
    page.wait_for_timeout(100)
    page.evaluate("document.body.append(later)")
    page.wait_for_function(COLOURS_OF_THE_MAP + " > 20")


def test_keys_count_while_the_kernel_is_behind(show: Callable[..., Any]) -> None:
    page = show("speedup")
    page.evaluate("""() => {
        const answer = window.kernel;
        window.kernel = (text) => new Promise((done) => setTimeout(done, 250)).then(() => answer(text));
    }""")
    page.focus(".sd-map")
    for _ in range(6):
        page.keyboard.press("ArrowUp")
        page.wait_for_timeout(100)
    page.wait_for_function("state.view.here.gamma === 11")
    page.wait_for_timeout(600)
    assert page.evaluate("state.settings.gamma") == 11 == int(page.input_value("input[aria-label=gamma]"))


def test_the_explorer_changes_costs_and_writes_files(show: Callable[..., Any]) -> None:
    page = show("speedup")
    page.select_option("select[aria-label='costs from']", "roofline")
    page.wait_for_function("state.view.settings.cost === 'roofline'")
    page.locator("input[aria-label=batch]").fill("64")
    page.locator("input[aria-label=batch]").press("Enter")
    page.wait_for_function("state.view.settings.batch === 64")
    with page.expect_download() as csv:
        page.click("button[aria-label='save the numbers as CSV']")
    lines = csv.value.path().read_text(encoding="utf-8").splitlines()
    view = page.evaluate("state.view")
    assert lines[0] == "alpha,gamma,speedup,kind,label"
    assert len(lines) == 1 + len(view["alphas"]) * len(view["gammas"]) + 4
    assert f"0.8,5,{view['cells'][4][view['alphas'].index(0.8)]},roofline," in lines
    assert '0.5,3,1.2,measured,"mine"' in lines
    with page.expect_download() as png:
        page.click("button[aria-label='save the map as PNG']")
    assert png.value.path().read_bytes().startswith(b"\x89PNG")
    link = page.input_value("input[aria-label='link with these settings']")
    assert "#speedup?" in link and "batch=64" in link


@pytest.mark.parametrize("name", ["speedup-smollm2", "speedup-tiny"])
def test_values_of_crowded_points_lie_on_nothing(show: Callable[..., Any], root: Path, name: str) -> None:
    report = json.loads((root / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    settings = {"points": [*SEED_POINTS, *measured_points(report)]}
    page = show("speedup", {"settings": settings, "view": SpeedupExplorer.view_of(settings)})
    places = page.evaluate("module.labelPlaces(state.view.points, module.mapScale(state.view))")
    shown = [place for place in places if place]
    assert len(places) == len(settings["points"]) and len(shown) >= 0.8 * len(places)
    for index, (x, y) in enumerate(shown):
        # a value is about 43 wide and 13 high
        assert 60 < x < 600 and all(abs(x - a) > 43 or abs(y - b) > 13 for a, b in shown[:index])


@pytest.mark.parametrize("c", [0.02, 0.05, 0.1, 0.2])
def test_every_contour_on_the_map_has_its_name_and_no_two_lie_on_each_other(
    show: Callable[..., Any], root: Path, c: float
) -> None:
    report = json.loads((root / "docs" / "results" / "speedup-smollm2.json").read_text(encoding="utf-8"))
    settings = {"c": c, "points": [*SEED_POINTS, *measured_points(report)]}
    view = SpeedupExplorer.view_of(settings)
    page = show("speedup", {"settings": settings, "view": view})
    found = page.evaluate("module.contourPlaces(state.view, module.mapScale(state.view))")
    drawn = [f"{level}x" for level, alphas in view["contours"].items() if sum(a is not None for a in alphas) > 2]
    assert [name for name, _ in found] == drawn and len(drawn) >= 4
    for place, (_, (x, y)) in enumerate(found):
        assert all(abs(x - a) > 34 or abs(y - b) > 15 for _, (a, b) in found[:place])
    values = "module.labelPlaces(state.view.points, module.mapScale(state.view), NAMES)"
    values = page.evaluate(values.replace("NAMES", json.dumps([place for _, place in found])))
    assert all(abs(x - a) > 30 or abs(y - b) > 12 for x, y in filter(None, values) for _, (a, b) in found)


def test_measured_costs_are_chosen_and_name_their_machine(show: Callable[..., Any], root: Path) -> None:
    folder = root / "docs" / "results"
    report, curve = (json.loads((folder / f"{name}-smollm2.json").read_text("utf-8")) for name in ("speedup", "curve"))
    settings = {"points": [*SEED_POINTS, *measured_points(report)], "measured": measured_costs(curve)}
    page = show("speedup", {"settings": settings, "view": SpeedupExplorer.view_of(settings)})
    assert not page.is_visible("select[aria-label='drafts from']")
    page.select_option("select[aria-label='costs from']", "measured")
    page.wait_for_function("state.view.settings.cost === 'measured'")
    assert report["hardware"]["processor"] in page.inner_text(".sd-speedup") and not page.is_visible("[aria-label=c]")
    before = page.inner_text(".sd-say")
    page.select_option("select[aria-label='drafts from']", "distilled")
    page.wait_for_function("state.view.settings.measured_drafter === 'distilled'")
    assert page.inner_text(".sd-say") != before
    assert page.locator("td", has_text="another machine").count() == len(SEED_POINTS)
    assert page.locator("td", has_text="measured costs").count() == len(report["rows"])


def test_the_explorer_opens_where_its_link_points(show: Callable[..., Any]) -> None:
    page = show("speedup", address="#speedup?alpha=0.6&gamma=3&cost=ratio&c=0.2&unknown=1")
    page.wait_for_function("state.view.here.alpha === 0.6 && state.view.here.gamma === 3")
    assert page.input_value("input[aria-label=gamma]") == "3"


def test_the_roofline_answers_its_sliders(show: Callable[..., Any]) -> None:
    page = show("roofline")
    page.focus("input[aria-label^=batch]")
    page.keyboard.press("End")
    page.wait_for_function("state.view.settings.batch === 1024")
    assert "✗" in page.inner_text(".sd-gate") and "above the ridge" in page.inner_text(".sd-say")
    page.select_option("select[aria-label=hardware]", "l4")
    page.wait_for_function("state.view.settings.hardware === 'l4'")
    assert page.locator("svg .sd-roof").count() == 2


@pytest.mark.parametrize("load", [{"batch": 1024, "gamma": 63}, {"batch": 256}, {"gamma": 1}, {"batch": 64}, {}])
def test_no_text_of_the_roofline_charts_lies_on_another(show: Callable[..., Any], load: dict[str, int]) -> None:
    page = show("roofline", {"settings": load, "view": RooflineExplorer.view_of(load)})
    page.wait_for_selector("svg .sd-roof")
    assert page.evaluate(COVERED) == []
    assert page.evaluate(CROSSED) == [], "a name across the roof or the line of its ridge"
    marks = "(nodes) => nodes.map((node) => [node.firstChild.textContent, getComputedStyle(node)[KIND]])"
    drawn = page.locator("svg[aria-label^=Roofline] .sd-pass").evaluate_all(marks.replace("KIND", "'fill'"))
    listed = page.locator("td[class^=sd-pass]").evaluate_all(marks.replace("KIND", "'color'"))
    assert len(listed) == 3 and all(mark in listed for mark in drawn), "a pass has one sign and colour"


def test_the_tree_links_node_mask_and_row(show: Callable[..., Any]) -> None:
    page = show("tree")
    page.focus(".sd-node[tabindex='0']")
    for key, selected in (("ArrowRight", 0), ("ArrowDown", 1), ("ArrowRight", 3), ("ArrowLeft", 1), ("ArrowLeft", -1)):
        page.keyboard.press(key)
        assert page.evaluate("state.selected") == selected, key
    page.click(".sd-slot >> nth=4")
    assert page.evaluate("state.selected") == 3
    assert "“11” → “13”" in page.inner_text(".sd-say") and "moves from 11 to 9" in page.inner_text(".sd-say")
    assert page.locator(".sd-cell.sd-family").count() == 3, "pending, node 1, node 3"
    assert page.locator(".sd-slot.sd-family").count() == 3 and page.locator("g.sd-node.sd-family").count() == 3
    page.locator("input[aria-label=tree]").fill("1")
    assert page.evaluate("[state.frame, state.selected]") == [1, -1]


def test_a_node_has_one_name_in_the_tree_the_mask_and_the_cache(show: Callable[..., Any]) -> None:
    for prefix in (0, 7):
        page = show("tree", {"view": tree_model([frame_of(TREE, prefix=prefix, path=(1, 3))])})
        names = ["P", "0", "1", "2", "3", "4"]
        assert page.locator("g.sd-node .sd-name").all_text_contents() == names
        assert page.locator(".sd-row-name").all_text_contents() == names
        assert page.locator(".sd-column-name").all_text_contents() == names
        assert page.locator(".sd-slot .sd-name").all_inner_texts() == names
        slots = page.locator(".sd-slot .sd-caption").all_inner_texts()
        assert slots == [f"slot {prefix + place}" for place in range(6)]
        # a column of the cache only where something is cached
        assert page.locator(".sd-cached").count() == (6 if prefix else 0)
        for row in page.locator(".sd-row-name").all():
            assert row.bounding_box()["x"] >= page.locator("svg:has(.sd-row-name)").bounding_box()["x"]


def test_the_trees_legend_explains_the_signs_in_sight_and_no_other(show: Callable[..., Any]) -> None:
    signs = ("✓", "=", "←", "×", "?")
    frames = {
        "judged": frame_of(TREE, prefix=7, path=(1, 3)),
        "kept in place": frame_of(TREE, path=(0,)),
        "all refused": frame_of(TREE, path=()),
        "a shape": frame_of(TREE, name=lambda _: ""),
    }
    for kind, frame in frames.items():
        page = show("tree", {"view": tree_model([frame])})
        seen = (page.text_content(".sd-branches") or "") + page.inner_text(".sd-rows")
        legend = page.inner_text(".sd-legend")
        assert [sign for sign in signs if sign in seen] == [sign for sign in signs if sign in legend], kind


def test_a_shape_without_tokens_shows_numbers_and_says_its_path(show: Callable[..., Any]) -> None:
    page = show("tree", {"view": tree_model([frame_of(TREE, name=lambda _: "")])})
    page.click(".sd-slot >> nth=4")
    assert "Node 3, position 2: 1 → 3." in page.inner_text(".sd-say")
    assert page.locator("g.sd-node text").all_text_contents() == ["P", "0", "1", "2", "3", "4"]


def test_a_resting_pointer_does_not_undo_what_a_key_or_the_slider_chose(show: Callable[..., Any]) -> None:
    page = show("tree")
    # the two frames of a redraw, then the time in which the browser reports an element new under the pointer
    settled = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 150))))"
    page.hover(".sd-slot >> nth=4")
    assert page.evaluate("state.selected") == 3, "a pointer that moves there does choose"
    page.focus(".sd-node[tabindex='0']")
    page.keyboard.press("ArrowLeft")
    page.evaluate(settled)
    assert page.evaluate("state.selected") == 1
    page.locator("input[aria-label=tree]").fill("1")
    page.evaluate(settled)
    assert page.evaluate("[state.frame, state.selected]") == [1, -1]
    page.hover(".sd-slot >> nth=2")
    assert page.evaluate("state.selected") == 1


def test_the_passport_shows_a_task_and_exports(show: Callable[..., Any]) -> None:
    page = show("passport")
    assert page.locator(".sd-task").count() == len(TASKS)
    page.locator(".sd-task").first.focus()
    page.keyboard.press("ArrowRight")
    second = list(TASKS)[1]
    assert (
        second in page.inner_text(".sd-detail") and page.locator(".sd-task.sd-now").get_attribute("data-task") == second
    )
    page.click("button[aria-label='read the notes again']")
    assert page.evaluate("sent") == ["refresh"]
    with page.expect_download() as saved:
        page.click("button[aria-label='save the passport as JSON']")
    assert json.loads(saved.value.path().read_text(encoding="utf-8"))["schema"] == "specdec.passport"


def test_text_is_shown_and_never_run(show: Callable[..., Any]) -> None:
    settings = {"names": [HOSTILE, "dog", "bee"]}
    page = show("coin", {"settings": settings, "view": CoinEditor.view_of(settings)})
    assert page.locator("img").count() == 0
    page = show("tree", {"view": tree_model([frame_of(TREE, name=lambda token: HOSTILE, pending=HOSTILE)])})
    page.click(".sd-slot >> nth=2")
    assert page.locator("img").count() == 0 and HOSTILE in page.inner_text(".sd-say")
    assert page.evaluate("window.broken") is None


@pytest.mark.parametrize("name", list(states()))
def test_a_panel_fits_is_named_and_readable_in_both_themes(show: Callable[..., Any], name: str) -> None:
    for scheme, width in (("light", 1280), ("dark", 480)):
        page = show(name, viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        ink, paper = page.locator(".sd-panel").evaluate(
            "(node) => [getComputedStyle(node).color, getComputedStyle(node).backgroundColor]"
        )
        assert contrast(ink, paper) >= 7 and (luminance(paper) > 0.5) == (scheme == "light")
        for kind in ("button:not([title])", "input", "select", "canvas"):
            assert page.locator(f"{kind}:not([aria-label])").count() == 0, kind
        assert page.evaluate(MOVING) == 0
        box = page.locator(".sd-panel").bounding_box()
        assert box["width"] > 300 and box["height"] > 100


@pytest.mark.parametrize("name", list(states()))
def test_a_closed_panel_listens_to_nothing(show: Callable[..., Any], name: str) -> None:
    page = show(name)
    page.evaluate("stop()")
    assert page.evaluate("Object.values(listeners).flat().length") == 0


@pytest.mark.parametrize("name", [*states(), "theatre"])
def test_every_control_takes_the_keys_and_none_reaches_the_notebook(show: Callable[..., Any], name: str) -> None:
    page = show(name)
    page.evaluate(NOTEBOOK)
    expected, seen = set(page.evaluate(CONTROLS)), set()
    for _ in range(200):
        page.keyboard.press("Tab")
        control = page.evaluate_handle("document.activeElement")
        label, kind = control.evaluate(KIND)
        if kind == "body":
            break
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert control.evaluate(RING) >= 3, f"{label}: no focus ring to see in the {scheme} theme"
        seen.add(label)
        use(page, control, kind, label)
        for key in KEYS:
            page.keyboard.press(key)
        if control.evaluate("(node) => node.isConnected"):
            control.focus()
    assert seen >= expected and len(expected) > 1
    assert [entry for entry in page.evaluate("leaks") if not entry.startswith("BODY")] == []


def use(page: Any, control: Any, kind: str, label: str) -> None:
    """Presses what a person presses to change this control, and sees it change."""
    page.evaluate("done.length = 0")
    if kind in ("range", "select-one"):
        before = control.input_value()
        page.keyboard.press("ArrowUp")
        if control.input_value() == before:
            page.keyboard.press("ArrowDown")
        assert control.input_value() != before, label
    elif kind == "text" and control.is_editable():
        page.keyboard.press("End")
        page.keyboard.type("1")
        page.keyboard.press("Enter")
        assert page.evaluate("done") == ["change"], label
    elif kind == "radio":
        page.keyboard.press("ArrowDown")
        assert not control.is_checked()
    elif kind == "button":
        page.keyboard.press("Enter")
        assert "click" in page.evaluate("done"), label
    elif kind in ("canvas", "g"):
        before = page.evaluate("JSON.stringify([state.settings, state.selected])")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("JSON.stringify([state.settings, state.selected])") != before, label


@pytest.mark.parametrize("name", ["coin", "speedup", "roofline", "card", "passport"])
def test_a_panel_whose_kernel_restarted_says_so_and_takes_nothing_more(show: Callable[..., Any], name: str) -> None:
    page = show(name)
    assert page.locator(".sd-notice").is_hidden()
    page.evaluate("emit('comm_live_update')")
    assert page.inner_text(".sd-notice") == "⚠ Kernel gone: run the cell again."
    page.evaluate("document.querySelector('.sd-gone input, .sd-gone button, button.sd-gone').focus()")
    assert page.evaluate("document.activeElement === document.body")
    needing = page.locator(".sd-panel > .sd-gone, button.sd-gone").count()
    assert needing == (1 if name in ("card", "passport") else page.locator(".sd-panel > :not(.sd-notice)").count())


def test_a_panel_without_an_answer_says_so_until_one_comes(show: Callable[..., Any]) -> None:
    page = show("coin")
    page.clock.install()
    page.evaluate("() => { window.answer = window.kernel; window.kernel = () => new Promise(() => {}); }")
    page.focus("input[aria-label=u]")
    page.keyboard.press("ArrowRight")
    page.clock.fast_forward(5_000)
    assert page.locator(".sd-notice").is_hidden()
    page.clock.fast_forward(2_000)
    assert "No answer from the kernel" in page.inner_text(".sd-notice")
    page.evaluate("() => { window.kernel = window.answer; }")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".sd-notice", state="hidden")


# What stands around a panel in JupyterLab: the search for a shortcut, which sees each key before the page does and
# goes from the focused element upwards (Lumino, `targetDistance`), and the notebook, which hears what is not stopped.
NOTEBOOK = """() => {
    Object.assign(window, { leaks: [], done: [] });
    const name = (event) => `${event.target.tagName} ${event.target.getAttribute("aria-label")} ${event.key}`;
    document.addEventListener("keydown", (event) => {
        let node = event.target;
        const isEnd = (node) => node.hasAttribute("data-lm-suppress-shortcuts");
        while (node && !isEnd(node) && !node.matches(":focus")) node = node.parentElement;
        if (!node || isEnd(node)) return;
        leaks.push(`${name(event)}: taken for a shortcut`);
        event.preventDefault();
    }, true);
    document.addEventListener("keydown", (event) => leaks.push(`${name(event)}: heard by the notebook`));
    for (const kind of ["change", "click"]) document.addEventListener(kind, () => done.push(kind), true);
}"""

# Contrast of the focus ring with the panel's ground.
RING = """(node) => {
    const mark = node.querySelector(":scope > rect") ?? node;
    const style = getComputedStyle(mark);
    const hasOutline = parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none";
    const ring = mark !== node ? style.stroke : hasOutline ? style.outlineColor : null;
    const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
        .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0.05);
    const ground = getComputedStyle(document.querySelector(".sd-panel, .sd-theatre")).backgroundColor;
    const both = ring ? [light(ring), light(ground)] : [1, 1];
    return Math.max(...both) / Math.min(...both);
}"""

# The map names its values in its label, which change.
KIND = """(node) => [(node.getAttribute("aria-label") ?? "").slice(0, 30), node.type ?? node.tagName.toLowerCase()]"""

CONTROLS = """() => [...document.querySelectorAll("input, select, button, [tabindex]")]
    .filter((node) => node.tabIndex >= 0 && node.checkVisibility() && !node.disabled)
    .filter((node) => node.type !== "radio" || node.checked)
    .map((node) => node.getAttribute("aria-label").slice(0, 30))"""

KEYS = ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "End", "Home", "m", "Shift+Enter", "Enter", "Escape")

COLOURS_OF_THE_MAP = """(() => {
    const map = document.querySelector('.sd-map');
    const { data } = map.getContext('2d').getImageData(0, 0, map.width, map.height);
    return new Set(new Uint32Array(data.buffer)).size;
})()"""

COVERED = """() => [...document.querySelectorAll('.sd-panel svg')].flatMap((chart) => {
    const texts = [...chart.querySelectorAll('text:not(.sd-pass)')];
    const boxes = texts.map((node) => [node.textContent, node.getBoundingClientRect()]);
    return boxes.flatMap(([one, a], index) => boxes.slice(index + 1).flatMap(([other, b]) => {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        return across > 2 && down > 4 ? [`${one} | ${other}`] : [];
    }));
})"""

CROSSED = """() => {
    const chart = document.querySelector('svg[aria-label^=Roofline]');
    const line = chart.querySelector('.sd-level').getBoundingClientRect();
    const roof = chart.querySelector('.sd-roof'), place = chart.getScreenCTM();
    const length = roof.getTotalLength() / 199;
    const along = [...Array(200).keys()].map((step) => roof.getPointAtLength(step * length).matrixTransform(place));
    return [...chart.querySelectorAll('text:not(.sd-pass)')].filter((node) => {
        const box = node.getBoundingClientRect();
        const isInside = ({ x, y }) => x > box.left && x < box.right && y > box.top + 4 && y < box.bottom - 4;
        const isBeside = box.left >= line.left || box.right <= line.right;
        return (!isBeside && box.bottom > line.top && box.top < line.bottom) || along.some(isInside);
    }).map((node) => node.textContent);
}"""

MOVING = """() => [...document.querySelectorAll('.sd-panel *')].filter((node) => {
    const style = getComputedStyle(node);
    return style.animationName !== 'none' || style.transitionDuration !== '0s';
}).length"""


def luminance(colour: str) -> float:
    """Relative luminance of "rgb(r, g, b)" (WCAG 2)."""
    channels = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2)."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
