"""The table of ahead-of-time compilation in the documentation, and the file it is made from.

`python -m specdec_kernels.aot --write docs` renews `docs/results/kernels-aot.json` and the table of `docs/kernels.md`.
"""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import date
import json
from pathlib import Path
from typing import Any

from specdec_core.whole_file import check_destination, write_whole
from specdec_kernels.aot_cases import Case
from specdec_kernels.compilation import TARGETS, KernelResources

RESULTS, PAGE = Path("results", "kernels-aot.json"), Path("kernels.md")
BEGIN, END = "<!-- aot -->\n\n", "\n\n<!-- end of aot -->"
COMMAND = "python -m specdec_kernels.aot --write docs"


def flat(rows: Iterable[tuple[Case, KernelResources]]) -> list[dict[str, Any]]:
    """A row for each (kernel, configuration, target)."""
    return [{"kernel": case.kernel, "config": case.config, **asdict(used)} for case, used in rows]


def page_table(rows: Iterable[dict[str, Any]]) -> str:
    """A line a kernel and configuration: registers and shared bytes for each target, spilled bytes where there are any.

    Raises:
        ValueError: rows that lack a target.
    """
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["kernel"], row["config"]), {})[row["target"]] = row
    lines = ["| kernel | configuration | " + " | ".join(TARGETS) + " |", "|---|---|" + "---|" * len(TARGETS)]
    for (kernel, config), by_target in found.items():
        if missing := TARGETS.keys() - by_target:
            raise ValueError(f"{kernel} ({config}) was not compiled for {', '.join(sorted(missing))}")
        lines.append(f"| `{kernel}` | {config} | " + " | ".join(_cell(by_target[target]) for target in TARGETS) + " |")
    return "\n".join(lines)


def write(folder: Path, rows: Iterable[dict[str, Any]]) -> tuple[Path, Path]:
    """Writes the rows and the page's table below `folder`; the paths.

    Raises:
        ValueError: no page with a place for the table there, or rows that lack a target.
    """
    import triton

    rows = list(rows)
    page = folder / PAGE
    if not page.is_file():
        raise ValueError(f"--write wants a folder with {PAGE} in it, such as docs; {str(page)!r} is not there")
    results, text = check_destination(folder / RESULTS), page.read_text(encoding="utf-8")
    head, begun, rest = text.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not (begun and ended):
        raise ValueError(f"{str(page)!r} has no place for the table between {BEGIN.strip()!r} and {END.strip()!r}")
    data = {"command": COMMAND, "triton": triton.__version__, "date": date.today().isoformat(), "rows": rows}
    table = page_table(rows)
    write_whole(results, json.dumps(data, indent=1) + "\n")
    write_whole(page, head + BEGIN + table + END + tail)
    return page, results


def _cell(row: dict[str, Any]) -> str:
    spills = f", **{row['spill_bytes']} spilled**" if row["spill_bytes"] else ""
    return f"{row['registers']} / {row['shared_bytes']:,}{spills}"
