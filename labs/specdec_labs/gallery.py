"""Runs every notebook as a learner does and keeps what they show: web pages, pictures, and a report of the run.

`make gallery` runs `python -m specdec_labs.gallery`. Each page gets a fresh kernel in the notebooks' folder, at full
size, and runs from top to bottom; nothing is noted as the learner's progress. A cell that fails ends its page; the
other pages still run, the exit status is 1, and the committed report stays as it was.
"""

import argparse
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
from tempfile import TemporaryDirectory
import time
from typing import TYPE_CHECKING, Any

from specdec_core.hardware import describe_hardware
from specdec_core.whole_file import write_whole, write_whole_bytes
from specdec_labs.exercises import WORK_VARIABLE

if TYPE_CHECKING:
    from nbformat import NotebookNode

FAST_VARIABLE = "SPECDEC_FAST"
PLOT, WIDGET = "application/vnd.plotly.v1+json", "application/vnd.jupyter.widget-view+json"
STATES = "application/vnd.jupyter.widget-state+json"
PICTURE = "image/png"
_TWIN = 'id="sd-twin-'
"""How the static twin begins that follows every live view."""
_MARKER = "<!-- gallery -->"
_TIMEOUT_S = 1800
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_WIDTH = 1000
# a widget without a kernel: its script, its style and the state it had when the page had run
_STAGE = """<!doctype html><meta charset="utf-8"><style>body { margin: 12px } STYLE</style>
<div id="host" style="width: fit-content; min-width: 600px"></div><script type="module">
const { esm, state } = DATA;
const model = {
  get: (name) => state[name], set: (name, value) => { state[name] = value; }, save_changes: () => {}, send: () => {},
  on: () => {}, off: () => {},
};
const module = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
await (module.default ?? module).render({ model, el: document.getElementById("host") });
window.drawn = true;
</script>"""


@dataclass(slots=True)
class Page:
    """One notebook after its run.

    Attributes:
        name: the notebook's name without its ending.
        notebook: with the outputs of every cell that ran.
        seconds: wall time from the start of the kernel to the last cell.
        peak_mib: the most memory the kernel held at once; None where the system does not say.
        failure: the failed cell's number and error in a line; empty when all cells ran.
        pictures: the PNG files written for it.
    """

    name: str
    notebook: "NotebookNode"
    seconds: float
    peak_mib: float | None
    failure: str = ""
    pictures: list[str] = field(default_factory=list)

    @property
    def outputs(self) -> list["NotebookNode"]:
        """All outputs of its cells in order."""
        return [output for cell in self.notebook.cells if cell.cell_type == "code" for output in cell.outputs]

    def to_dict(self) -> dict[str, Any]:
        """What the report keeps of it."""
        cells = sum(cell.cell_type == "code" for cell in self.notebook.cells)
        return {
            "notebook": self.name,
            "cells": cells,
            "pictures": len(self.pictures),
            "seconds": round(self.seconds, 1),
            "peak_mib": None if self.peak_mib is None else round(self.peak_mib),
        }


def run_page(path: Path, *, fast: bool = False, folder: Path | None = None, timeout_s: int = _TIMEOUT_S) -> Page:
    """The notebook at `path`, run from top to bottom in a fresh kernel, up to its first failing cell.

    The size is the learner's unless `fast`. The kernel stands in `folder`, by default the notebook's own, as in
    JupyterLab; progress and predictions go to a folder that is thrown away.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder or path.parent)}},
    )
    failure, peak, start = "", None, time.monotonic()
    with TemporaryDirectory() as scratch:
        kept = {name: value for name, value in os.environ.items() if name != FAST_VARIABLE}
        own = {WORK_VARIABLE: scratch, "IPYTHONDIR": scratch, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        with client.setup_kernel(env={**kept, **own, **({FAST_VARIABLE: "1"} if fast else {})}):
            for index, cell in enumerate(notebook.cells):
                try:
                    client.execute_cell(cell, index)
                except CellExecutionError as error:
                    failure = f"cell {index}: {error.ename}: {error.evalue}"
                except (CellTimeoutError, DeadKernelError) as error:
                    failure = f"cell {index}: {type(error).__name__}: {str(error).splitlines()[0]}"
                if failure:
                    break
            client.set_widgets_metadata()
            peak = _peak_mib(getattr(client.km.provisioner, "pid", None)) if client.km is not None else None
    return Page(path.stem, notebook, time.monotonic() - start, peak, failure)


def _peak_mib(pid: int | None) -> float | None:
    """The most memory a running process held at once, where the system keeps it in /proc."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)


def find_browser() -> str | None:
    """The browser that draws the pictures, or None."""
    return os.environ.get("BROWSER_PATH") or next((path for name in _BROWSERS if (path := shutil.which(name))), None)


def draw(page: Page, folder: Path) -> None:
    """Writes a PNG of every picture output to `folder`, and puts it into the page in place of its script.

    Plots are drawn by kaleido; a widget by its own script, in the state it had at the end of the run, with its text
    under it. Without a browser plots stay out and widgets are shown as text.
    """
    states = page.notebook.metadata.get("widgets", {}).get(STATES, {}).get("state", {})
    browser = find_browser()
    stages = {} if browser is None else _stages(page, states)
    shots = _photograph(stages, browser) if browser is not None and stages else {}
    for place, output in enumerate(page.outputs):
        data = output.get("data", {})
        if PLOT in data and browser is not None:
            data[PICTURE] = b64encode(_plot(data[PLOT])).decode("ascii")
            del data[PLOT]
            data.pop("text/html", None)
        if PICTURE in data:
            output["metadata"] = {PICTURE: {"alt": "a plot"}}
            _keep(page, folder, b64decode(data[PICTURE]))
        elif place in shots:
            _keep(page, folder, shots[place])
            data["text/html"] = (
                f'<img alt="the widget" src="data:{PICTURE};base64,{b64encode(shots[place]).decode("ascii")}">'
            )
        elif place - 1 in shots and _TWIN in data.get("text/html", ""):
            data["text/html"] = f"<details><summary>the same as text</summary>{data['text/html']}</details>"
        if data.pop(WIDGET, None) is not None and not data:
            data["text/plain"] = ""
    page.notebook.metadata.pop("widgets", None)


def _plot(data: Mapping[str, Any]) -> bytes:
    import plotly.graph_objects as go

    from specdec_labs.plots.png import png_of

    return png_of(go.Figure({"data": data["data"], "layout": data.get("layout", {})}, skip_invalid=True))


def _keep(page: Page, folder: Path, picture: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{page.name}-{len(page.pictures) + 1:02d}.png"
    write_whole_bytes(folder / name, picture)
    page.pictures.append(name)


def _stages(page: Page, states: Mapping[str, Any]) -> dict[int, str]:
    """By the place of the output, a web page that draws its widget; outputs without a script of ours are left out."""
    found = {}
    for place, output in enumerate(page.outputs):
        shown = output.get("data", {}).get(WIDGET)
        state = states.get(shown["model_id"], {}).get("state", {}) if shown else {}
        if "_esm" in state:
            plain = {name: value for name, value in state.items() if not name.startswith("_")}
            data = json.dumps({"esm": state["_esm"], "state": plain}).replace("</", "<\\/")
            found[place] = _STAGE.replace("STYLE", state.get("_css", "")).replace("DATA", data)
    return found


def _photograph(stages: Mapping[int, str], browser: str) -> dict[int, bytes]:
    """A picture of each page's widget; none where playwright is not installed."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return {}
    pictures = {}
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=list(_FLAGS))
        view = chromium.new_page(viewport={"width": _WIDTH, "height": 800})
        for place, stage in stages.items():
            view.set_content(stage)
            view.wait_for_function("window.drawn === true")
            pictures[place] = view.locator("#host").screenshot()
        chromium.close()
    return pictures


def write_page(page: Page, stamp: str, folder: Path) -> None:
    """The page as HTML, its pictures inside, under a line that says what it was run on."""
    from nbconvert import HTMLExporter
    import nbformat

    head = nbformat.v4.new_markdown_cell(
        f"*{stamp}; this page: {page.seconds:.0f} s{'' if page.peak_mib is None else f', {page.peak_mib:.0f} MiB'}*"
        + (f"\n\n**It stopped at {page.failure}**" if page.failure else "")
    )
    shown: Any = nbformat.from_dict({**page.notebook, "cells": [head, *page.notebook.cells]})
    text, _ = HTMLExporter(template_name="lab").from_notebook_node(shown, {"metadata": {"name": page.name}})
    write_whole(folder / f"{page.name}.html", text)


def stamp_of(hardware: Mapping[str, Any], commit: str) -> str:
    """Processor, threads, torch, date and commit in a line."""
    device = f"{hardware['gpu']}, " if hardware["gpu"] else ""
    return (
        f"{device}{hardware['processor']}, {hardware['cores']} cores, threads: {hardware['threads']}, torch "
        f"{hardware['torch']}, {hardware['date']}, commit {commit}"
    )


def commit_of(folder: Path) -> str:
    """The short name of the commit, with a + where files differ from it; "unknown" outside a clone."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=10", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def report_table(report: Mapping[str, Any]) -> str:
    """The stamp and a row a page, as Markdown."""
    rows = [
        f"| {page['notebook']} | {page['cells']} | {page['pictures']} | {page['seconds']:.1f} | "
        f"{'-' if page['peak_mib'] is None else page['peak_mib']} |"
        for page in report["pages"]
    ]
    total = sum(page["seconds"] for page in report["pages"])
    return "\n".join(
        (
            f"{stamp_of(report['hardware'], report['commit'])}. No cell failed.",
            "",
            "| notebook | code cells | pictures | seconds | peak memory, MiB |",
            "|---|---|---|---|---|",
            *rows,
            f"| all | | | {total:.1f} | |",
        )
    )


def write_index(pages: Sequence[Page], stamp: str, folder: Path) -> None:
    """index.html: the stamp, a link to each page, its time and memory, and its pictures small."""
    items = []
    for page in pages:
        memory = "" if page.peak_mib is None else f", {page.peak_mib:.0f} MiB"
        said = f" <strong>stopped at {escape(page.failure)}</strong>" if page.failure else ""
        images = "".join(
            f'<a href="{name}"><img alt="{name}" src="{name}" style="height: 8rem; margin: 2px"></a>'
            for name in page.pictures
        )
        items.append(
            f'<h2><a href="{page.name}.html">{page.name}</a></h2><p>{page.seconds:.0f} s{memory}{said}</p>{images}'
        )
    text = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>SpecDec Lab: the gallery</title>'
        '<body style="font-family: sans-serif; max-width: 70rem; margin: auto; padding: 1rem">'
        f"<h1>Every notebook, run at the learner's setting</h1><p>{escape(stamp)}</p>{''.join(items)}</body></html>"
    )
    write_whole(folder / "index.html", text)


def write_report(pages: Sequence[Page], hardware: Mapping[str, Any], commit: str, docs: Path) -> None:
    """docs/results/gallery.json, and its table in docs/gallery.md behind the marker."""
    report = {
        "schema": "specdec.gallery",
        "version": 1,
        "command": "make gallery",
        "hardware": dict(hardware),
        "commit": commit,
        "pages": [page.to_dict() for page in pages],
    }
    write_whole(docs / "results" / "gallery.json", json.dumps(report, indent=1) + "\n")
    text = (docs / "gallery.md").read_text(encoding="utf-8")
    write_whole(docs / "gallery.md", f"{text.split(_MARKER)[0]}{_MARKER}\n\n{report_table(report)}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 1 when a cell of any page failed. The report is written when all pages ran through."""
    parser = argparse.ArgumentParser(prog="python -m specdec_labs.gallery", description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all; the report is written for all alone")
    parser.add_argument("--root", type=Path, default=Path(), help="the clone (default: the current folder)")
    parser.add_argument("--output", type=Path, help="where pages and pictures go (default: build/gallery)")
    options = parser.parse_args(arguments)
    every = sorted((options.root / "notebooks").glob("*.ipynb"))
    chosen = options.notebooks or every
    if not chosen:
        parser.error(f"{options.root / 'notebooks'} has no .ipynb; run it from the repository's folder or give --root")
    for path in chosen:
        if not path.is_file():
            parser.error(f"notebooks names {str(path)!r}, which is no file; give paths such as {every[0]}")
    output = options.output or options.root / "build" / "gallery"
    output.mkdir(parents=True, exist_ok=True)
    hardware, commit = describe_hardware(), commit_of(options.root)
    stamp, pages = stamp_of(hardware, commit), []
    if find_browser() is None:
        print("no Chrome or Chromium found: widgets are shown as text, plots are left out", file=sys.stderr)
    for path in chosen:
        page = run_page(path)
        draw(page, output)
        write_page(page, stamp, output)
        pages.append(page)
        says = f"FAILED at {page.failure}" if page.failure else f"{len(page.pictures)} pictures"
        print(f"{page.name}: {page.seconds:.0f} s, {says}", flush=True)
    write_index(pages, stamp, output)
    print(f"{output / 'index.html'}: {len(pages)} pages in {sum(page.seconds for page in pages):.0f} s")
    failed = [page.name for page in pages if page.failure]
    if failed:
        print(f"not every cell ran: {', '.join(failed)}; the report was left as it was", file=sys.stderr)
    elif not options.notebooks:
        write_report(pages, hardware, commit, options.root / "docs")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
