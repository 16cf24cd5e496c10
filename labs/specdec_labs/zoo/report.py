"""The zoo's report: a file, and its table in docs/certificate.md."""

from collections.abc import Mapping, Sequence
import json
from pathlib import Path
from typing import Any

from specdec_core.whole_file import check_destination, write_whole
from specdec_labs.cli.json_file import write_json
from specdec_labs.zoo.samplers import ANIMALS
from specdec_labs.zoo.study import MODES, NULL_LEVEL, failures, study

START, END = "<!-- zoo -->", "<!-- end of zoo -->"


def run_zoo(seeds: int, runs: int, draws: int, only: Sequence[str], path: Path | None) -> int:
    """0 when everything holds, else 1. ValueError for a name that no animal has, or a file that cannot be written."""
    animals = [animal for animal in ANIMALS if not only or any(text in animal.name for text in only)]
    if not animals:
        raise ValueError(f"only is {list(only)!r}; expected a part of {', '.join(one.name for one in ANIMALS)}")
    if path is not None:
        check_destination(path)
    report = study(seeds, runs, draws, lambda line: print(line, flush=True), animals)
    found = failures(report)
    if path is not None:
        write_json(path, {**report, "failures": found})
    for line in found:
        print(f"DOES NOT HOLD: {line}")
    print(f"{len(report['animals'])} rows, {len(found)} do not hold")
    return 1 if found else 0


def write_table(source: Path, page: Path) -> None:
    """Puts the table of a report between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    if START not in text or END not in text:
        raise ValueError(f"{page} has no {START} and {END}; put the marks where the table is to stand")
    head, tail = text.split(START)[0], text.split(END)[1]
    report = json.loads(source.read_text(encoding="utf-8"))
    write_whole(page, f"{head}{START}\n{zoo_table(report)}\n{END}{tail}")


def zoo_table(report: Mapping[str, Any]) -> str:
    """A line an animal: how often it was caught over all its laws, by mode."""
    asked = report["asked"]
    lines = [
        f"Stated: bias {asked['bias']:g}, level {asked['level']:g}, power {asked['power']:g}; {asked['seeds']} seeds a "
        f"law and mode. {_alarms(report)}",
        "",
        "| sampler | what is wrong | vocabularies | caught, fixed | caught, sequential | mean n |",
        "|---|---|---|---|---|---|",
    ]
    for animal in ANIMALS:
        rows = [row for row in report["animals"] if row["animal"] == animal.name]
        if rows:
            shown = [_caught([row for row in rows if row["mode"] == mode]) for mode in MODES]
            sizes = [row["n"] for row in rows if row["mode"] == "sequential"]
            name = animal.name if animal.is_seen else f"*{animal.name}* (by design not seen)"
            vocabs = ", ".join(f"{vocab:,}" for vocab in animal.vocabs)
            mean = f"{sum(sizes) / len(sizes):,.0f}" if sizes else ""
            lines.append(f"| {name} | {animal.about} | {vocabs} | {shown[0]} | {shown[1]} | {mean} |")
    return "\n".join(lines)


def _caught(rows: Sequence[Mapping[str, Any]]) -> str:
    return f"{sum(row['caught'] for row in rows)} of {sum(row['runs'] for row in rows)}" if rows else ""


def _alarms(report: Mapping[str, Any]) -> str:
    rows = report["false_alarms"]["rows"]
    by_mode = []
    for mode in MODES:
        own = [row for row in rows if row["mode"] == mode]
        by_mode.append(f"{sum(row['alarms'] for row in own)} of {sum(row['runs'] for row in own):,} ({mode})")
    ratios = ", ".join(
        f"{row['ratio']:.2f} +- {row['error']:.2f} ({row['settings']}, V = {row['vocab']:,})"
        for row in report["levels"]
    )
    return (
        f"False alarms of the right sampler at level {NULL_LEVEL:g}: {' and '.join(by_mode)}. True level over stated "
        f"level of the cell tests: {ratios}."
    )
