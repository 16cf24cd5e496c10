"""Notebook 00 in JupyterLab, as a learner meets it: run all cells, step the theatre by key, look at the pictures."""

from collections.abc import Iterator
from pathlib import Path
import re
from typing import Any

import pytest

pytestmark = pytest.mark.browser

NAME = "00_start_here"


@pytest.fixture(scope="module")
def page(lab: Any, chromium: Any) -> Iterator[Any]:
    """The notebook in JupyterLab after Run > Run All Cells, saved."""
    page = chromium.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(60_000)
    lab.run_all(page, NAME)
    lab.use_theme(page, "Light")
    yield page
    page.close()
    lab.end_kernels()


def test_every_cell_ran_without_an_error(page: Any, lab: Any) -> None:
    cells = lab.cells(NAME)
    assert lab.errors(NAME) == []
    assert [cell.id for cell in cells if not cell.execution_count] == []
    assert "Traceback" not in page.inner_text(".jp-NotebookPanel")
    assert (lab.folder / f"{NAME}.ipynb").stat().st_size < 1_000_000


def test_the_theatre_steps_by_key(page: Any, lab: Any, tmp_path: Path) -> None:
    theatre = page.locator(".sd-theatre")
    theatre.scroll_into_view_if_needed()
    assert theatre.count() == 1, "the widget and its static twin must not both be shown"
    theatre.focus()
    place = theatre.locator(".sd-place")
    before, total = place.inner_text().removeprefix("step ").split(" of ")
    assert int(before) > 1 and int(total) > 5
    assert "is refused" in theatre.locator(".sd-say").inner_text(), "it opens on the first refusal"
    assert theatre.locator(".sd-gauge").is_visible() and theatre.locator(".sd-chart tr").count() > 3
    page.keyboard.press("Home")
    seen = [place.inner_text()]
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "Shift+ArrowRight", "End", "Home"):
        page.keyboard.press(key)
        seen.append(place.inner_text())
    positions = [int(text.removeprefix("step ").split(" of ")[0]) for text in seen]
    assert positions[:4] == [1, 2, 3, 2]
    assert positions[4] > 2 and positions[5:] == [int(total), 1]
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    lab.picture(page, tmp_path, "theatre_light")


def test_the_race_is_drawn(page: Any, lab: Any, tmp_path: Path) -> None:
    plot = page.locator(".js-plotly-plot")
    plot.scroll_into_view_if_needed()
    assert page.locator(".js-plotly-plot .bars path").count() > 10
    assert page.locator(".js-plotly-plot .scatterlayer .trace").count() == 3
    lab.picture(page, tmp_path, "race_light")


def test_a_prediction_is_answered_once_and_locked(page: Any) -> None:
    card = page.locator(".sd-card button", has_text="1 to 1.3 times")
    card.scroll_into_view_if_needed()
    card.click()
    # on a busy machine the single run may be refused, and then the card says that
    said = page.get_by_text(re.compile(r"You said 1 to 1\.3 times\. (Measured:|The measurement was refused:)"))
    said.wait_for()
    assert card.is_disabled() == ("Measured" in said.inner_text())


def test_the_passport_moves_by_key_and_saves(page: Any) -> None:
    passport = page.locator(".sd-passport")
    passport.scroll_into_view_if_needed()
    detail = passport.locator(".sd-detail")
    before = detail.inner_text()
    passport.locator(".sd-task").first.focus()
    page.keyboard.press("ArrowRight")
    assert detail.inner_text() != before
    with page.expect_download() as saved:
        passport.locator("button[aria-label='save the passport as CSV']").click()
    assert saved.value.path().read_text(encoding="utf-8").startswith("task,title,state")


def test_the_dark_theme_and_a_narrow_window_stay_readable(page: Any, lab: Any, tmp_path: Path) -> None:
    lab.use_theme(page, "Dark")
    page.set_viewport_size({"width": 820, "height": 900})
    theatre = page.locator(".sd-theatre")
    theatre.scroll_into_view_if_needed()
    paper, ink = theatre.evaluate(
        "(node) => { const s = getComputedStyle(node); return [s.backgroundColor, s.color]; }"
    )
    assert brightness(paper) < 80 < 180 < brightness(ink)
    inside = theatre.evaluate("(node) => node.scrollWidth <= node.clientWidth")
    assert inside
    lab.picture(page, tmp_path, "theatre_dark_narrow")


def brightness(colour: str) -> float:
    """Mean channel of "rgb(r, g, b)" or "rgba(...)", 0 to 255."""
    channels = colour.split("(")[1].rstrip(")").split(",")[:3]
    return sum(float(channel) for channel in channels) / 3
