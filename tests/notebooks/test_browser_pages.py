"""Every other notebook in JupyterLab: Run All without an error, every widget in sight, one interaction a kind."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAMES = [
    "01_bandwidth_wall",
    "02_rejection_sampling",
    "03_losslessness",
    "04_speedup_curves",
    "05_draft_and_target",
    "06_trees_and_masks",
    "12_triton_kernels",
    "90_explorers",
]
COLOURS = """(map) => {
    const { data } = map.getContext('2d').getImageData(0, 0, map.width, map.height);
    return new Set(new Uint32Array(data.buffer)).size;
}"""
PANELS = ".sd-panel, .sd-theatre, .js-plotly-plot"


def step_theatre(theatre: Any, page: Any) -> None:
    theatre.focus()
    before = theatre.locator(".sd-place").inner_text()
    page.keyboard.press("ArrowRight")
    assert theatre.locator(".sd-place").inner_text() != before


def drag_u(editor: Any, page: Any) -> None:
    before = editor.locator(".sd-say").inner_text()
    editor.locator("input[aria-label=u]").focus()
    page.keyboard.press("End")
    until(page, lambda: editor.locator(".sd-say").inner_text() != before)


def move_on_the_map(explorer: Any, page: Any) -> None:
    before = explorer.locator(".sd-say").inner_text()
    explorer.locator(".sd-map").focus()
    page.keyboard.press("ArrowUp")
    until(page, lambda: explorer.locator(".sd-say").inner_text() != before)
    for name, start in (("save the numbers as CSV", b"alpha,gamma,speedup"), ("save the map as PNG", b"\x89PNG")):
        with page.expect_download() as saved:
            explorer.locator(f"button[aria-label='{name}']").click()
        assert saved.value.path().read_bytes().startswith(start)


def raise_the_batch(explorer: Any, page: Any) -> None:
    before = explorer.locator(".sd-say").inner_text()
    explorer.locator("input[aria-label^=batch]").focus()
    page.keyboard.press("End")
    until(page, lambda: explorer.locator(".sd-say").inner_text() != before)


def walk_the_tree(tree: Any, page: Any) -> None:
    before = tree.locator(".sd-say").inner_text()
    tree.locator(".sd-node[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    until(page, lambda: tree.locator(".sd-say").inner_text() != before)


def answer_the_card(buttons: Any, page: Any) -> None:
    button = buttons.locator("button").first
    button.focus()
    page.keyboard.press("Enter")
    until(page, lambda: button.get_attribute("aria-pressed") == "true")


INTERACTIONS: dict[str, Callable[[Any, Any], None]] = {
    ".sd-theatre": step_theatre,
    ".sd-coin": drag_u,
    ".sd-speedup": move_on_the_map,
    ".sd-roofline": raise_the_batch,
    ".sd-tree": walk_the_tree,
    ".sd-card": answer_the_card,
}


def until(page: Any, is_true: Callable[[], bool], seconds: float = 30.0) -> None:
    for _ in range(int(10 * seconds)):
        if is_true():
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"nothing changed within {seconds} s")


@pytest.fixture(params=NAMES)
def run(request: pytest.FixtureRequest, lab: Any, chromium: Any) -> Iterator[tuple[str, Any]]:
    """A notebook after Run > Run All Cells."""
    page = chromium.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(60_000)
    lab.run_all(page, request.param)
    lab.use_theme(page, "Light")
    lab.hide_files(page)
    yield request.param, page
    page.close()
    lab.end_kernels()


def test_a_page_runs_and_its_widgets_answer(run: tuple[str, Any], lab: Any, tmp_path: Path) -> None:
    name, page = run
    assert lab.errors(name) == []
    assert "Traceback" not in page.inner_text(".jp-NotebookPanel")
    assert (lab.folder / f"{name}.ipynb").stat().st_size < 1_000_000
    look(page, lab, tmp_path, f"{name}_light_1280")
    for kind, interact in INTERACTIONS.items():
        found = page.locator(kind)
        if found.count():
            found.first.scroll_into_view_if_needed()
            interact(found.first, page)
    if name == "90_explorers":
        open_its_link(page, lab)
    lab.use_theme(page, "Dark")
    page.set_viewport_size({"width": 800, "height": 1000})
    look(page, lab, tmp_path, f"{name}_dark_800")


def open_its_link(page: Any, lab: Any) -> None:
    """The link of the explorer, with another alpha in it, leads to the notebook and there to that place of the map."""
    lab.save(page)
    link = page.locator(".sd-speedup .sd-link").input_value()
    address, settings = link.split("#")
    assert "alpha=0.8&" in settings
    page.goto("about:blank")
    page.goto(f"{address}?token={lab.token}#{settings.replace('alpha=0.8&', 'alpha=0.37&')}")
    page.locator(".sd-speedup .sd-say").filter(has_text="With alpha 0.37").wait_for()
    lab.hide_files(page)


def look(page: Any, lab: Any, folder: Path, name: str) -> None:
    """Every widget has a size and fits its cell; a picture of each kind."""
    widgets = page.locator(PANELS)
    assert widgets.count() > 1, "a page has a card and something to see"
    pictured = set()
    for place in range(widgets.count()):
        widget = widgets.nth(place)
        widget.scroll_into_view_if_needed()
        box = widget.bounding_box()
        assert box is not None and box["width"] > 100 and box["height"] > 20
        assert widget.evaluate("(node) => node.scrollWidth <= node.clientWidth + 1")
        for canvas in widget.locator("canvas.sd-map").all():
            assert canvas.evaluate(COLOURS) > 20, "a map without its colours"
        kind = (widget.get_attribute("class") or "").split()[-1]
        if "js-plotly-plot" in (widget.get_attribute("class") or ""):
            lab.check_figure(widget)
        if kind not in pictured:
            pictured.add(kind)
            lab.picture(page, folder, f"{name}_{kind}")
