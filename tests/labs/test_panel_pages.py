"""The panels' scripts in a real browser page, with their own view models as the kernel."""

from collections.abc import Callable
import json
from typing import Any

import pytest

from specdec_core.draft import DraftTree
from specdec_labs.grade.tasks import TASKS
from specdec_labs.widgets.coin.live import CoinEditor
from specdec_labs.widgets.tree import frame_of
from specdec_labs.widgets.tree import view_model as tree_model

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror='window.broken=1'>"
PANELS = ("coin", "speedup", "roofline", "tree", "passport", "card")
TREE = DraftTree((10, 11, 12, 13, 14), (-1, -1, 0, 1, 3))


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


@pytest.mark.parametrize("name", PANELS)
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


@pytest.mark.parametrize("name", PANELS)
def test_a_closed_panel_listens_to_nothing(show: Callable[..., Any], name: str) -> None:
    page = show(name)
    page.evaluate("stop()")
    assert page.evaluate("Object.values(listeners).flat().length") == 0


@pytest.mark.parametrize("name", [*PANELS, "theatre"])
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
