"""`specdec doctor`: what is installed, what is missing, and the command that gets it."""

from dataclasses import dataclass
import importlib.metadata
import os
from pathlib import Path
import platform
import shutil
import sys

from rich import box
from rich.console import Console
from rich.table import Table

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# distribution, the extra that brings it, what it is for; an empty extra: the lab does not work without it
PACKAGES = (
    ("torch", "", ""),
    ("numpy", "", ""),
    ("scipy", "", ""),
    ("jaxtyping", "", ""),
    ("transformers", "labs", "Hugging Face models and tokenizers"),
    ("tokenizers", "labs", "the tokenizer of SmolLM2"),
    ("jupyterlab", "labs", "the notebooks"),
    ("anywidget", "labs", "the widgets"),
    ("plotly", "labs", "the plots"),
    ("triton", "gpu", "the kernels (Linux)"),
    ("playwright", "labs", "pictures of widgets, the browser tests"),
    ("pytest", "dev", "the tests"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked for, what was found (None: nothing), and what to do about it.

    `required` parts are those without which core and command line do not work.
    """

    part: str
    found: str | None
    remedy: str = ""
    required: bool = False


def run_doctor(console: Console) -> int:
    """0 when the basic lab works here, 1 when a required part is missing."""
    findings = [*machine(), *packages(), smollm2(), tiny_pair(), browser(), self_test()]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("found", overflow="fold")
    for finding in findings:
        style = "" if finding.found else "bold magenta" if finding.required else "magenta"
        table.add_row(finding.part, finding.found or "missing", style=style)
    console.print(table)
    _show_routes(console)
    missing = [finding for finding in findings if finding.found is None]
    for finding in missing:
        console.print(f"{finding.part}: {finding.remedy}", soft_wrap=True)
    broken = [finding.part for finding in missing if finding.required]
    if broken:
        console.print(f"The lab does not work without: {', '.join(broken)}", style="bold magenta")
        return 1
    console.print("The lab works here." + (" What is missing is optional." if missing else ""), style="bold")
    return 0


def _show_routes(console: Console) -> None:
    """The routes of the matrix products that were measured to be fastest here, with the threads torch has now."""
    try:
        from specdec_core.models.routes import describe_routes
    except ImportError:
        return
    rows, remarks = describe_routes()
    if rows:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("matrix", "fastest route up to ROWS=ROUTE:FILL", "one row, us"):
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for remark in remarks:
        console.print(f"routes: {remark}", style="dim", soft_wrap=True)


def machine() -> list[Finding]:
    """Python, processor, threads, GPU and memory."""
    version = platform.python_version()
    return [
        Finding("python", f"{version} ({sys.executable})", required=True),
        Finding("system", f"{platform.system()} {platform.machine()}"),
        Finding("threads", _threads()),
        Finding("gpu", _gpu()),
        Finding("memory", _memory()),
    ]


def packages() -> list[Finding]:
    """This lab and the packages it uses, by their versions; nothing is imported."""
    found = [Finding("specdec-lab", _version("specdec-lab"), f'{_pip()} install -e ".[labs]" in the clone', True)]
    for name, extra, purpose in PACKAGES:
        wanted = f'-e ".[{extra}]"' if extra else "-e ."
        remedy = f"{_pip()} install {wanted} in the clone" + (f" ({purpose})" if purpose else "")
        found.append(Finding(name, _version(name), remedy, required=not extra))
    return found


def smollm2() -> Finding:
    """The wheel with SmolLM2, its file's hash compared with the known one."""
    try:
        from specdec_core.models.gguf import GGUFFile
        from specdec_core.models.pairs import SMOLLM2_INSTALL, SMOLLM2_SHA256, find_smollm2
    except ImportError as error:
        return Finding("SmolLM2", None, f"cannot be looked for: {error}")
    command = SMOLLM2_INSTALL.replace("pip", _pip(), 1)
    path = find_smollm2()
    if path is None:
        return Finding("SmolLM2", None, f"{command} (93 MB; until then the demo runs the tiny pair)")
    try:
        GGUFFile(path, sha256=SMOLLM2_SHA256)
    except ValueError as error:
        return Finding("SmolLM2", None, f"{error}; {command.replace('install', 'install --force-reinstall', 1)}")
    return Finding("SmolLM2", f"{path.stat().st_size / 1e6:.0f} MB, hash as expected")


def tiny_pair() -> Finding:
    """The tiny target and draft that come with the lab, their files' hashes compared with their cards."""
    try:
        from specdec_core.models.shipped import load_tiny_pair

        return Finding("tiny pair", f"{load_tiny_pair().description}, hashes as expected")
    except (ImportError, ValueError) as error:
        return Finding("tiny pair", None, f"{error}; {_pip()} install --force-reinstall --no-deps -e . in the clone")


def browser() -> Finding:
    """A Chromium on the search path."""
    path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    remedy = "apt-get install chromium on Debian or Ubuntu (the browser tests are skipped without it)"
    return Finding("chromium", path, remedy)


def self_test() -> Finding:
    """The toy pair, decoded with and without drafts."""
    remedy = "the toy pair's speculative text differs from plain decoding: the installation is damaged"
    try:
        from specdec_core.drafters import ModelDrafter
        from specdec_core.engine import Engine
        from specdec_core.toy import toy_pair
        from specdec_core.warp import SamplingParams
    except ImportError as error:
        return Finding("self-test", None, f"specdec_core cannot be imported: {error}", True)
    target, draft = toy_pair()
    greedy = SamplingParams(temperature=0)
    plain = Engine(target).generate([1, 2, 3], greedy, 16).tokens
    fast = Engine(target, ModelDrafter(draft)).generate([1, 2, 3], greedy, 16).tokens
    return Finding("self-test", "speculative text equals plain decoding" if plain == fast else None, remedy, True)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _pip() -> str:
    return f"{sys.executable} -m pip"


def _threads() -> str:
    limit = os.environ.get("OMP_NUM_THREADS")
    note = f" (OMP_NUM_THREADS={limit})" if limit else ""
    try:
        import torch
    except ImportError:
        return f"{os.cpu_count()} cores{note}"
    return f"{torch.get_num_threads()} for torch{note}, {os.cpu_count()} cores"


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        return "unknown without torch"
    if not torch.cuda.is_available():
        return "none; everything runs on the CPU"
    total = torch.cuda.get_device_properties(0).total_memory
    return f"{torch.cuda.get_device_name(0)}, {total / 2**30:.0f} GiB"


def _memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return "unknown on this system"
    return f"{total / 2**30:.1f} GiB{_available()}"


def _available() -> str:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return ""
    kilobytes = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
    return "" if kilobytes is None else f", {kilobytes / 2**20:.1f} GiB available"
