"""A run of the acceptance bench as data: versioned JSON, and rows by drafter, group of tasks and temperature."""

from collections.abc import Mapping, Sequence
import csv
from dataclasses import dataclass
import io
from typing import Any

from specdec_core.prompts import HUMANEVAL, MT_BENCH, TASKS
from specdec_labs.acceptance.counts import Counts, mean_length
from specdec_labs.acceptance.families import Family
from specdec_labs.acceptance.measure import Cell, cell_name
from specdec_labs.acceptance.record import TEMPERATURES

SCHEMA, SCHEMA_VERSION = "specdec.acceptance", 2
GROUPS: dict[str, tuple[str, ...]] = {
    "all": (MT_BENCH, HUMANEVAL, *TASKS),
    MT_BENCH: (MT_BENCH,),
    HUMANEVAL: (HUMANEVAL,),
    "own": TASKS,
    "copying": ("summary", "rag", "code_edit"),
    **{task: (task,) for task in TASKS},
}
"""Tasks taken together; "copying" are those whose answers repeat the prompt."""


@dataclass(frozen=True, slots=True)
class Row:
    """One drafter on one group of tasks at one temperature. `mean` is tokens a round, `low` and `high` its interval."""

    family: str
    title: str
    group: str
    temperature: float
    prompts: int
    mean: float | None
    low: float | None
    high: float | None
    counts: Counts


def result_of(
    families: Sequence[Family], cells: Mapping[str, Mapping[str, Cell]], facts: Mapping[str, Any], trees: Any = None
) -> dict[str, Any]:
    """Everything as plain data. `facts` say how it was made."""
    entries = [
        {
            "name": family.name,
            "title": family.title,
            "deterministic": family.deterministic,
            "identity": family.identity(),
            "cells": {name: [" ".join(map(str, row)) for row in cell] for name, cell in cells[family.name].items()},
        }
        for family in families
    ]
    return {"schema": SCHEMA, "version": SCHEMA_VERSION, **facts, "families": entries, "trees": trees}


def rows_of(result: Mapping[str, Any], groups: Sequence[str] = tuple(GROUPS)) -> list[Row]:
    """A row for every drafter, group and temperature that has rounds.

    Raises:
        ValueError: data that is no result of this bench, or of a newer one.
    """
    if result.get("schema") != SCHEMA or result.get("version") != SCHEMA_VERSION:
        raise ValueError(
            f"schema is {result.get('schema')!r}, version {result.get('version')!r}; expected {SCHEMA!r}, "
            f"{SCHEMA_VERSION} - make the file with `specdec bench acceptance --json`"
        )
    rows = []
    for entry in result["families"]:
        for temperature in TEMPERATURES:
            for group in groups:
                found = counts_in(entry["cells"], group, temperature)
                if found:
                    mean = mean_length(found)
                    total = sum(found, Counts())
                    rows.append(Row(entry["name"], entry["title"], group, temperature, len(found), *mean, total))
    return rows


def counts_in(cells: Mapping[str, Sequence[str]], group: str, temperature: float) -> list[Counts]:
    """The counts of every prompt of a group; prompts without a round are left out.

    A cell holds a line a prompt: its number, then its counts in the order of `Counts.to_list`.
    """
    names = [cell_name(task, temperature) for task in GROUPS[group]]
    lines = [line for name in names for line in cells.get(name, [])]
    found = [Counts.from_list([int(number) for number in line.split()[1:]]) for line in lines]
    return [counts for counts in found if counts.rounds]


def csv_of(rows: Sequence[Row]) -> str:
    """One line a row; rates by position stand in columns survival_1, conditional_1, ..."""
    depth = max((len(row.counts.positions) for row in rows), default=0)
    places = range(1, depth + 1)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = ["drafter", "group", "temperature", "prompts", "rounds", "tokens_per_round", "low", "high", "alpha"]
    writer.writerow(
        [*heads, "drafted_per_round", *(f"survival_{i}" for i in places), *(f"conditional_{i}" for i in places)]
    )
    for row in rows:
        counts = row.counts
        rates = [*_filled(counts.survival, depth), *_filled(counts.conditional, depth)]
        drafted = counts.drafted / counts.rounds
        numbers = [row.mean, row.low, row.high, counts.alpha, drafted, *rates]
        shown = ["" if number is None else f"{number:.4f}" for number in numbers]
        writer.writerow([row.family, row.group, f"{row.temperature:g}", row.prompts, counts.rounds, *shown])
    return text.getvalue()


def _filled(rates: Sequence[float | None], depth: int) -> list[float | None]:
    return [*rates, *[None] * (depth - len(rates))]
