"""Every widget in JupyterLab: the keys a person presses, a restarted kernel, a saved page without one, both themes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
import pytest

pytestmark = pytest.mark.browser

NAME = "every_widget"
TRACE = """
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.toy import toy_pair
from specdec_core.warp import SamplingParams
from specdec_labs.widgets.theatre import theatre

target, draft = toy_pair()
engine = Engine(target, ModelDrafter(draft), "chain", 4, record_top=6)
trace = engine.generate([1, 2, 3], SamplingParams(temperature=8.0, seed=3), 24).trace
theatre(trace)
"""
CELLS = {
    ".sd-theatre": TRACE,
    ".sd-panel.sd-coin": "from specdec_labs.widgets.coin import coin_editor\ncoin_editor()",
    ".sd-speedup": "from specdec_labs.widgets.speedup import speedup_explorer\nspeedup_explorer(cost='roofline')",
    ".sd-roofline": "from specdec_labs.widgets.roofline import roofline_explorer\nroofline_explorer()",
    ".sd-tree": """
from specdec_core.draft import DraftTree
from specdec_labs.widgets.tree import frame_of, tree_view
tree_view([frame_of(DraftTree((1, 2, 3), (-1, -1, 0)), label=f"tree {index}") for index in range(2)])
""",
    ".sd-passport": "from specdec_labs.widgets.passport import passport\npassport()",
    ".sd-card": """
from specdec_labs.widgets.predict import PredictionCard
card = PredictionCard("How many?", ["few", "some", "many"], [2.0, 3.0])
card.reveal(2.5)
card
""",
    ".js-plotly-plot": """
from specdec_labs.widgets.race import race_figure, race_view
race_figure(race_view({"plain": [trace], "drafted": [trace]}))
""",
}
THEMES = ["Light", pytest.param("Dark", marks=pytest.mark.slow)]
KEYS = ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "m", "Enter")
CONTROLS = "input, select, button:not(.sd-task ~ .sd-task), canvas, .sd-theatre, [tabindex='0']"
LISTEN = """() => {
    window.leaks = [];
    const name = (event) => `${event.target.tagName} ${event.target.getAttribute("aria-label")} ${event.key}`;
    for (const root of document.querySelectorAll(".sd-panel, .sd-theatre")) {
        // JupyterLab has looked for a shortcut by now: its listener is the document's
        const look = (event) => event.defaultPrevented && leaks.push(`shortcut ${name(event)}`);
        root.addEventListener("keydown", look, true);
    }
    const notebook = document.querySelector(".jp-Notebook");
    notebook.addEventListener("keydown", (event) => leaks.push(`notebook ${name(event)}`));
}"""


@pytest.fixture(scope="module")
def page(lab: Any, chromium: Any) -> Iterator[Any]:
    """A notebook with every widget after Run All Cells, saved."""
    cells = [cell for title, code in CELLS.items() for cell in (new_markdown_cell(f"# {title}"), new_code_cell(code))]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), lab.folder / f"{NAME}.ipynb")
    page = chromium.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(60_000)
    lab.run_all(page, NAME)
    assert lab.errors(NAME) == []
    lab.hide_files(page)
    yield page
    page.close()
    lab.end_kernels()


def test_a_live_view_is_shown_in_place_of_its_twin(page: Any) -> None:
    for kind in CELLS:
        page.locator(kind).wait_for()
    twins = page.locator("[id^=sd-twin-]")
    assert twins.count() == len(CELLS) - 1 and not any(twin.is_visible() for twin in twins.all())


def test_enter_commits_a_typed_number(page: Any) -> None:
    for kind, says in ((".sd-speedup", ".sd-speedup p.sd-caption"), (".sd-roofline", ".sd-roofline .sd-say")):
        before = page.inner_text(says)
        page.locator(f"{kind} input[aria-label=context]").fill("")
        page.keyboard.type("4096")
        page.keyboard.press("Enter")
        page.wait_for_function(
            "([says, before]) => document.querySelector(says)?.innerText !== before", arg=[says, before]
        )


@pytest.mark.parametrize("theme", THEMES)
def test_no_key_in_a_control_reaches_the_notebook(page: Any, lab: Any, theme: str, tmp_path: Path) -> None:
    lab.use_theme(page, theme)
    page.evaluate(LISTEN)
    for kind in list(CELLS)[:-1]:  # a figure has no control for keys
        controls = page.locator(kind).locator(CONTROLS)
        for place in range(controls.count()):
            control = controls.nth(place)
            if not control.is_visible() or not control.is_enabled():
                continue
            control.focus()
            before = control.input_value() if control.get_attribute("type") == "range" else ""
            for key in (*KEYS, "ArrowLeft"):
                page.keyboard.press(key)
            if not control.is_visible():  # the answer to the menu before it came late, and hides this one
                continue
            if before:  # one step left, or one right from the left end
                assert control.input_value() != before or control.get_attribute("min") == before, control
            assert page.evaluate("document.activeElement.closest('.sd-panel, .sd-theatre') !== null"), (
                f"{kind} {place}: the focus is gone"
            )
            page.keyboard.press("Escape")
    assert page.evaluate("leaks") == []
    assert page.locator(".jp-MarkdownCell.jp-mod-rendered").count() == len(CELLS), "a heading was folded or opened"
    assert page.locator(".jp-Cell:visible").count() == 2 * len(CELLS)
    lab.picture(page, tmp_path, f"keys_{theme.lower()}")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_figure_has_the_ground_of_its_page_and_readable_ink(page: Any, lab: Any, theme: str, tmp_path: Path) -> None:
    lab.use_theme(page, theme)
    plot = page.locator(".js-plotly-plot")
    plot.scroll_into_view_if_needed()
    lab.check_figure(plot)
    lab.picture(page, tmp_path, f"figure_{theme.lower()}")


def test_after_a_restart_what_needs_the_kernel_says_so_and_the_rest_works(page: Any, lab: Any, tmp_path: Path) -> None:
    page.evaluate("() => { jupyterapp.commands.execute('kernelmenu:restart'); }")
    page.click(".jp-Dialog button.jp-mod-accept")
    for kind in (".sd-coin", ".sd-speedup", ".sd-roofline", ".sd-passport", ".sd-card"):
        page.locator(f"{kind} .sd-notice").get_by_text("Kernel gone: run the cell again.").wait_for()
        assert page.locator(f"{kind} [inert], {kind} button.sd-gone").count() > 0
    alpha = page.locator(".sd-speedup input[aria-label=alpha]")
    before = alpha.input_value()
    alpha.evaluate("(node) => node.focus()")
    page.keyboard.press("Escape")
    assert alpha.input_value() == before and alpha.evaluate("(node) => document.activeElement !== node")
    page.focus(".sd-theatre")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".sd-place").startswith("step 2 of")
    said = set()
    for slot in page.locator(".sd-tree .sd-slot").all()[:2]:
        slot.click()
        said.add(page.inner_text(".sd-tree .sd-say"))
    assert len(said) == 2
    page.locator(".sd-coin").scroll_into_view_if_needed()
    lab.picture(page, tmp_path, "kernel_gone")


@pytest.mark.parametrize("theme", THEMES)
def test_a_saved_page_without_its_kernel_shows_the_twins(
    lab: Any, chromium: Any, page: Any, theme: str, tmp_path: Path
) -> None:
    assert "widgets" not in nbformat.read(lab.folder / f"{NAME}.ipynb", as_version=4).metadata
    page.goto("about:blank")
    lab.end_kernels()
    page.goto(f"{lab.address}/lab/workspaces/reopened-{theme}/tree/{NAME}.ipynb?token={lab.token}")
    page.locator("[id^=sd-twin-]").first.wait_for()
    lab.use_theme(page, theme)
    # past the two seconds in which JupyterLab hopes for the models to come
    page.get_by_text("model not found").first.wait_for(state="attached")
    page.wait_for_timeout(1000)
    assert not any(error.is_visible() for error in page.get_by_text("model not found").all())
    twins = page.locator("[id^=sd-twin-]")
    assert twins.count() == len(CELLS) - 1 and all(twin.is_visible() for twin in twins.all())
    # the picture that JupyterLab saved of the figure: without a ground of its own, it fits either theme
    figure = page.locator(".jp-RenderedPlotly img.plot-img, .js-plotly-plot")
    figure.scroll_into_view_if_needed()
    assert figure.bounding_box()["height"] > 100
    lab.picture(page, tmp_path, f"reopened_{theme.lower()}")
