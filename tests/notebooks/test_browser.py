"""Notebook 00 in JupyterLab, as a learner meets it: run all cells, step the theatre by key, look at the pictures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import json
import os
from pathlib import Path
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import nbformat
import pytest

pytestmark = pytest.mark.browser

NAME = "00_start_here.ipynb"
START_S, RUN_S = 90, 600
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
QUIET = {
    "notification.jupyterlab-settings": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
}


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, token, and the folder it serves."""

    address: str
    token: str
    folder: Path

    def get(self, path: str) -> Any:
        with urlopen(f"{self.address}{path}?token={self.token}", timeout=10) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def lab(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("lab")
    served = home / "served"
    served.mkdir()
    shutil.copy(root / "notebooks" / NAME, served)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = Lab(f"http://127.0.0.1:{port}", secrets.token_hex(16), served)
    log = home / "server.log"
    with log.open("wb") as sink:
        server = subprocess.Popen(
            lab_command(home, served, port, running.token),
            env=lab_environment(home),
            cwd=served,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for(lambda: is_up(running, server), START_S, lambda: log.read_text(errors="replace")[-3000:])
            yield running
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait(timeout=30)


def lab_command(home: Path, served: Path, port: int, token: str) -> list[str]:
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    for name, content in QUIET.items():
        (settings / name).write_text(json.dumps(content), encoding="utf-8")
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"),
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={served}",
        f"--IdentityProvider.token={token}",
        f"--LabApp.user_settings_dir={home / 'settings'}",
        f"--LabApp.workspaces_dir={home / 'workspaces'}",
        "--LabApp.expose_app_in_browser=True",
    ]


def lab_environment(home: Path) -> dict[str, str]:
    """The learner's own configuration stays out, and nothing is written outside `home`."""
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    return {**os.environ, "SPECDEC_FAST": "1", **{name: str(home / name.lower()) for name in folders}}


def is_up(lab: Lab, server: "subprocess.Popen[bytes]") -> bool:
    assert server.poll() is None, f"JupyterLab ended with status {server.returncode}"
    try:
        return "started" in lab.get("/api/status")
    except (URLError, ConnectionError, TimeoutError):
        return False


def wait_for(is_done: Callable[[], bool], seconds: float, explain: Callable[[], str]) -> None:
    """Returns when `is_done()`; fails with `explain()` when it takes longer."""
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline, f"not done after {seconds} s: {explain()}"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def page(lab: Lab, browser_path: str) -> Iterator[Any]:
    """The notebook in JupyterLab after Run > Run All Cells, saved."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(60_000)
        page.goto(f"{lab.address}/lab/tree/{NAME}?token={lab.token}")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        wait_for(lambda: kernel_state(lab) == "idle", START_S, lambda: f"kernel is {kernel_state(lab)}")
        menu(page, "Run", "Run All Cells")
        wait_for(lambda: is_finished(page, lab), RUN_S, lambda: page.inner_text(".jp-NotebookPanel")[-3000:])
        yield page
        browser.close()


def menu(page: Any, name: str, entry: str) -> None:
    page.get_by_role("menuitem", name=name, exact=True).click()
    # the accessible name of an entry with a shortcut ends in it: "Save Notebook Ctrl+S"
    page.get_by_role("menuitem", name=re.compile(f"^{re.escape(entry)}( Ctrl\\+.*)?$")).click()


def kernel_state(lab: Lab) -> str:
    try:
        kernels = lab.get("/api/kernels")
    except HTTPError as error:  # the server answers 500 while the kernel is being started
        error.close()
        return "starting"
    return kernels[0]["execution_state"] if kernels else "missing"


def is_finished(page: Any, lab: Lab) -> bool:
    """Whether the saved file has run to its end, or up to a cell that raised."""
    if kernel_state(lab) != "idle":
        return False
    menu(page, "File", "Save Notebook")
    page.wait_for_timeout(500)
    cells = code_cells(lab)
    return all(cell.execution_count for cell in cells) or errors(cells) != []


def code_cells(lab: Lab) -> list[Any]:
    notebook = nbformat.read(lab.folder / NAME, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def errors(cells: list[Any]) -> list[str]:
    return [output.evalue for cell in cells for output in cell.outputs if output.output_type == "error"]


def picture(page: Any, folder: Path, name: str) -> None:
    """A screenshot in `folder`, and in $SPECDEC_SCREENSHOTS when that is set."""
    page.wait_for_timeout(500)  # the newest token fades in
    path = folder / f"{name}.png"
    page.screenshot(path=path)
    assert path.stat().st_size > 10_000
    wanted = os.environ.get("SPECDEC_SCREENSHOTS")
    if wanted:
        Path(wanted).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, wanted)


def test_every_cell_ran_without_an_error(page: Any, lab: Lab) -> None:
    cells = code_cells(lab)
    assert errors(cells) == []
    assert [cell.id for cell in cells if not cell.execution_count] == []
    assert "Traceback" not in page.inner_text(".jp-NotebookPanel")
    assert (lab.folder / NAME).stat().st_size < 1_000_000


def test_the_theatre_steps_by_key(page: Any, tmp_path: Path) -> None:
    theatre = page.locator(".sd-theatre")
    theatre.scroll_into_view_if_needed()
    assert theatre.count() == 1, "the widget and its static twin must not both be shown"
    theatre.focus()
    place = theatre.locator(".sd-place")
    before, total = place.inner_text().removeprefix("step ").split(" of ")
    assert before == "1" and int(total) > 5
    seen = [place.inner_text()]
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "Shift+ArrowRight", "End", "Home"):
        page.keyboard.press(key)
        seen.append(place.inner_text())
    positions = [int(text.removeprefix("step ").split(" of ")[0]) for text in seen]
    assert positions[:4] == [1, 2, 3, 2]
    assert positions[4] > 2 and positions[5:] == [int(total), 1]
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    picture(page, tmp_path, "theatre_light")


def test_the_race_is_drawn(page: Any, tmp_path: Path) -> None:
    plot = page.locator(".js-plotly-plot")
    plot.scroll_into_view_if_needed()
    assert page.locator(".js-plotly-plot .bars path").count() > 10
    assert page.locator(".js-plotly-plot .scatterlayer .trace").count() == 3
    picture(page, tmp_path, "race_light")


def test_a_prediction_is_answered_once_and_locked(page: Any) -> None:
    card = page.locator(".widget-toggle-buttons button", has_text="1 to 1.3 times")
    card.scroll_into_view_if_needed()
    card.click()
    page.get_by_text("You said 1 to 1.3 times. Measured:").wait_for()
    assert card.is_disabled()


def test_the_dark_theme_and_a_narrow_window_stay_readable(page: Any, tmp_path: Path) -> None:
    page.evaluate("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
    page.set_viewport_size({"width": 820, "height": 900})
    theatre = page.locator(".sd-theatre")
    theatre.scroll_into_view_if_needed()
    paper, ink = theatre.evaluate(
        "(node) => { const s = getComputedStyle(node); return [s.backgroundColor, s.color]; }"
    )
    assert brightness(paper) < 80 < 180 < brightness(ink)
    inside = theatre.evaluate("(node) => node.scrollWidth <= node.clientWidth")
    assert inside
    picture(page, tmp_path, "theatre_dark_narrow")


def brightness(colour: str) -> float:
    """Mean channel of "rgb(r, g, b)" or "rgba(...)", 0 to 255."""
    channels = colour.split("(")[1].rstrip(")").split(",")[:3]
    return sum(float(channel) for channel in channels) / 3
