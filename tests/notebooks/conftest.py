"""A running JupyterLab with the notebooks in it, and a browser page that runs one of them from top to bottom."""

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
from urllib.request import Request, urlopen

import nbformat
import pytest

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

# The ground a plotly figure paints, and the least contrast of its texts with the page.
_FIGURE = """(plot) => {
    const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
        .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0.05);
    const drawn = [...plot.querySelectorAll("svg.main-svg")].map((node) => getComputedStyle(node).backgroundColor);
    const page = light(getComputedStyle(document.querySelector(".jp-Notebook")).backgroundColor);
    const inks = [...plot.querySelectorAll("svg text")].map((node) => light(getComputedStyle(node).fill));
    return [drawn, Math.min(...inks.map((ink) => Math.max(ink, page) / Math.min(ink, page)))];
}"""


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, token, and the folder it serves."""

    address: str
    token: str
    folder: Path

    def get(self, path: str) -> Any:
        with urlopen(f"{self.address}{path}?token={self.token}", timeout=10) as answer:
            return json.load(answer)

    def kernel_state(self) -> str:
        try:
            kernels = self.get("/api/kernels")
        except HTTPError as error:  # the server answers 500 while the kernel is being started
            error.close()
            return "starting"
        return kernels[0]["execution_state"] if kernels else "missing"

    def end_kernels(self) -> None:
        """Shuts every kernel down, through the sessions that hold them."""
        wait_for(self._ends_kernels, START_S, lambda: f"kernel is {self.kernel_state()}")

    def _ends_kernels(self) -> bool:
        try:
            for session in self.get("/api/sessions"):
                path = f"{self.address}/api/sessions/{session['id']}?token={self.token}"
                urlopen(Request(path, method="DELETE"), timeout=30).close()
        except HTTPError as error:  # the server answers 500 about a kernel that is being restarted
            error.close()
            return False
        return True

    def cells(self, name: str) -> list[Any]:
        """The code cells of the saved notebook."""
        notebook = nbformat.read(self.folder / f"{name}.ipynb", as_version=4)
        return [cell for cell in notebook.cells if cell.cell_type == "code"]

    def errors(self, name: str) -> list[str]:
        """What raised in the saved notebook."""
        outputs = [output for cell in self.cells(name) for output in cell.outputs]
        return [output.evalue for output in outputs if output.output_type == "error"]

    def run_all(self, page: Any, name: str) -> None:
        """Opens the notebook, Run > Run All Cells, waits until it has run to its end or raised, and saves it."""
        # a workspace of its own: else the tabs of earlier pages come back, with dialogs about their ended kernels
        page.goto(f"{self.address}/lab/workspaces/{name}/tree/{name}.ipynb?token={self.token}")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        wait_for(lambda: self.kernel_state() == "idle", START_S, lambda: f"kernel is {self.kernel_state()}")
        menu(page, "Run", "Run All Cells")
        wait_for(lambda: self._is_finished(page, name), RUN_S, lambda: page.inner_text(".jp-NotebookPanel")[-3000:])

    def _is_finished(self, page: Any, name: str) -> bool:
        if self.kernel_state() != "idle":
            return False
        self.save(page)
        try:
            self.cells(name)
        except nbformat.reader.NotJSONError:
            return False  # JupyterLab is still writing the file
        return all(cell.execution_count for cell in self.cells(name)) or self.errors(name) != []

    def save(self, page: Any) -> None:
        """File > Save Notebook."""
        menu(page, "File", "Save Notebook")
        page.wait_for_timeout(500)

    def picture(self, page: Any, folder: Path, name: str) -> None:
        """A screenshot in `folder`, and in $SPECDEC_SCREENSHOTS when that is set."""
        page.wait_for_timeout(500)  # the newest token fades in
        path = folder / f"{name}.png"
        page.screenshot(path=path)
        assert path.stat().st_size > 10_000
        wanted = os.environ.get("SPECDEC_SCREENSHOTS")
        if wanted:
            Path(wanted).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, wanted)

    def check_figure(self, plot: Any) -> None:
        """A plotly figure stands on the ground of its page, with ink that can be read there."""
        grounds, contrast = plot.evaluate(_FIGURE)
        assert set(grounds) == {"rgba(0, 0, 0, 0)"} and contrast >= 7

    def use_theme(self, page: Any, name: str) -> None:
        """ "Light" or "Dark"; the choice outlives the page."""
        page.evaluate(
            "(name) => jupyterapp.commands.execute('apputils:change-theme', {theme: `JupyterLab ${name}`})", name
        )
        page.wait_for_selector(f"body[data-jp-theme-light={'true' if name == 'Light' else 'false'}]", state="attached")

    def hide_files(self, page: Any) -> None:
        """Closes the list of files, which takes a third of the window."""
        if page.locator("#jp-left-stack").is_visible():
            page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
            page.wait_for_selector("#jp-left-stack", state="hidden")


@pytest.fixture(scope="session")
def lab(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab over copies of all notebooks, with settings of its own; ended with the tests."""
    home = tmp_path_factory.mktemp("lab")
    served = home / "served"
    served.mkdir()
    for path in (root / "notebooks").glob("*.ipynb"):
        shutil.copy(path, served)
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


@pytest.fixture(scope="module")
def chromium(browser_path: str) -> Iterator[Any]:
    """A browser; pages are opened on it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        yield browser
        browser.close()


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


def menu(page: Any, name: str, entry: str) -> None:
    page.get_by_role("menuitem", name=name, exact=True).click()
    # the accessible name of an entry with a shortcut ends in it: "Save Notebook Ctrl+S"
    page.get_by_role("menuitem", name=re.compile(f"^{re.escape(entry)}( Ctrl\\+.*)?$")).click()
