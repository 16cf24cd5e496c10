"""The tables of docs/costs.md, from the presets and from the result files; `python -m specdec_labs.bench.page`.

A test keeps the page equal to what this writes.
"""

from collections.abc import Iterable, Mapping, Sequence
import json
from pathlib import Path
import re
from typing import Any

from specdec_core.cost_curve import CostCurve
from specdec_core.hardware_presets import hardware, hardware_names
from specdec_core.roofline import ridge_rows
from specdec_core.whole_file import write_whole
from specdec_labs.impossible import REFUSED, Speedup, curve_problem, needed, steps

KINDS = ("curve", "speedup")
_BLOCK = re.compile(r"(<!-- (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(page: str, results: Path) -> str:
    """The page with every block `<!-- name --> ... <!-- end -->` filled anew.

    `hardware` holds the presets; `speedup-NAME`, `curve-NAME` the tables of the file of that name in `results`.

    Raises:
        ValueError: a block whose file is not there, or with another name.
    """
    return _BLOCK.sub(lambda found: found[1] + _fill(found["name"], results) + "\n" + found[3], page)


def with_blocks(page: str, results: Path) -> str:
    """The page with an empty block at its end for every speed-up or curve file in `results` that has none yet."""
    for kind in KINDS:
        for path in sorted(results.glob(f"{kind}-*.json")):
            if f"<!-- {path.stem} -->" not in page:
                page = f"{page.rstrip()}\n\n## Measured: {path.stem}\n\n<!-- {path.stem} -->\n<!-- end -->\n"
    return page


def _fill(name: str, results: Path) -> str:
    if name == "hardware":
        return hardware_table()
    path = results / f"{name}.json"
    if not path.is_file() or name.split("-")[0] not in KINDS:
        raise ValueError(f"block {name!r} has no result file {path}; measure it, or take the block out")
    data = json.loads(path.read_text(encoding="utf-8"))
    return speedup_block(data) if name.startswith("speedup-") else curve_block(data)


def hardware_table() -> str:
    """The presets: bandwidth, arithmetic, the ridge in rows, and where each is from."""
    rows = []
    for name in hardware_names():
        device = hardware(name)
        dtype = "float16" if "float16" in device.flops_per_s else "float32"
        rows.append(
            (
                f"`{name}`",
                device.name,
                f"{device.bytes_per_s / 1e9:,.4g} GB/s",
                f"{device.peak(dtype) / 1e12:,.4g} TFLOP/s ({dtype})",
                f"{device.memory_bytes / 1e9:.0f} GB",
                f"{ridge_rows(device, dtype):.0f}",
                device.kind,
                device.source,
            )
        )
    return _table(("name", "device", "memory", "arithmetic", "size", "ridge, rows", "kind", "source"), rows)


def speedup_block(data: Mapping[str, Any]) -> str:
    """The error, the speed-ups and the break-even table of a `specdec bench speedup` file."""
    errors, settings, facts = data["errors"], data["settings"], data["curve"]["hardware"]
    curve = CostCurve.from_dict(data["curve"])
    refused = "".join(f" **Refused: {each['where']}: {each['problem']}.**" for each in data.get("findings", ()))
    error = "none, since every speed-up was refused"
    if errors is not None:
        error = (
            f"median {_percent(errors['median'])}, 90th percentile {_percent(errors['p90'])} of {errors['points']} "
            f"points; costs alone {_percent(errors['cost_median'])} and {_percent(errors['cost_p90'])}"
        )
    head = (
        f"Measured: {data['pair']}, {facts['threads']} thread(s) on {facts['processor']}, {facts['cores']} cores, "
        f"{settings['dtype']}, torch {facts['torch']}, {facts['date']}; {settings['tokens']} tokens of each prompt. "
        f"Prediction error: {error}.{refused}"
    )
    speedups = _table(
        ("task", "T", "drafter", "K", "prompts", "tokens/round", "measured", "90 % of prompts", "predicted", "formula"),
        (_speedup_row(row, curve_problem(curve)) for row in data["rows"]),
    )
    to_break_even = _table(
        ("drafter", "K", "tokens a round needs", "drafting", "verifying", "host", "tokens a round emitted"),
        (
            (
                row["drafter"],
                str(row["gamma"]),
                f"**{needed(row['needed'], curve)}**",
                f"{row['draft']:.2f}",
                f"{row['verify']:.2f}",
                f"{row['host']:.2f}",
                f"{row['lowest']:.2f}..{row['highest']:.2f}",
            )
            for row in data["break_even"]
        ),
    )
    return f"{head}\n\n{speedups}\n\n{to_break_even}"


def _speedup_row(row: Mapping[str, Any], baseline: str) -> tuple[str, ...]:
    judged = Speedup.of_row(row, baseline)
    slower = " slower" if not judged.problem and row["speedup"] < 1 else ""
    return (
        row["task"],
        f"{row['temperature']:g}",
        row["drafter"],
        str(row["gamma"]),
        str(row["prompts"]),
        f"{row['tokens_per_round']:.2f}",
        f"{judged.shown}{slower}",
        judged.interval,
        REFUSED if baseline else " ".join(f"{value:.2f}x" for value in row["predicted"]),
        REFUSED if baseline else f"{row['formula']:.2f}x",
    )


def curve_block(data: Mapping[str, Any]) -> str:
    """The cost curves of a `specdec bench curve` file: median milliseconds, and steps, by rows."""
    facts = data["curves"][0]["hardware"]
    head = (
        f"Measured: {data['pair']}, {facts['threads']} thread(s) on {facts['processor']}, {facts['cores']} cores, "
        f"{facts['dtype']}, torch {facts['torch']}, {facts['date']}; minimum / median of {facts['repeats']} passes, ms."
    )
    tables = []
    for curve in data["curves"]:
        measured = CostCurve.from_dict(curve)
        columns = [f"{curve['model']}, {held} cached" for held in curve["contexts"]]
        lines = [
            (
                str(rows),
                *(f"{1e3 * low[place]:.1f} / {1e3 * mid[place]:.1f}" for low, mid in _levels(curve)),
                steps(measured, rows, curve["contexts"][0]),
            )
            for place, rows in enumerate(curve["rows"])
        ]
        tables.append(_table(("rows", *columns, "in steps"), lines))
    return "\n\n".join((head, *tables))


def _levels(curve: Mapping[str, Any]) -> Iterable[tuple[Sequence[float], Sequence[float]]]:
    return zip(curve["min_s"], curve["median_s"])


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    docs = Path(__file__).resolve().parents[3] / "docs"
    text = with_blocks((docs / "costs.md").read_text(encoding="utf-8"), docs / "results")
    write_whole(docs / "costs.md", rewritten(text, docs / "results"))
