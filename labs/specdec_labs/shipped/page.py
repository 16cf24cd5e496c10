"""The tables of docs/drafters.md from what `specdec certify-shipped --json` wrote."""

from collections.abc import Mapping, Sequence
from typing import Any

from specdec_core.rules import RULES
from specdec_labs.shipped.combinations import KINDS, ON_SMOLLM2, Combination

MARK = "<!-- shipped -->"

Entries = Mapping[str, Mapping[str, Any]]


def shipped_tables(data: Mapping[str, Any]) -> str:
    """Everything behind the mark: a matrix for `tiny`, a table for SmolLM2, one for greedy texts."""
    parts = [_summary(data), _matrix(data["certificates"]), _smollm2(data["certificates"])]
    if data.get("greedy"):
        parts.append(_greedy(data["greedy"]))
    return "\n\n".join(parts) + "\n"


def _summary(data: Mapping[str, Any]) -> str:
    entries = list(data["certificates"].values())
    strength = data["asked"]["strength"]
    passed = sum(entry["verdict"] == "passed" for entry in entries)
    sizes = sorted({entry["n"] for entry in entries})
    power = min(entry["power"] for entry in entries)
    return (
        f"{passed} of {len(entries)} certificates made passed. Each: n = {_range(sizes)} samples, a bias of "
        f"{strength['bias']:g} caught with probability {power:.3f} or more, level {strength['level']:g}. In the table: "
        "the smallest p-value of each, times the number of its tests, at most 1. A dot: not made yet."
    )


def _range(sizes: Sequence[int]) -> str:
    return f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def _matrix(entries: Entries) -> str:
    rules = [name for name in RULES if any(name in kind.rules for kind in KINDS.values())]
    rows = [f"| tiny | {' | '.join(f'`{name}`' for name in rules)} |", "|---|" + "---|" * len(rules)]
    for drafter, kind in KINDS.items():
        cells = (_cell(entries, Combination("tiny", drafter, rule)) if rule in kind.rules else "" for rule in rules)
        rows.append(f"| {drafter} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _smollm2(entries: Entries) -> str:
    rows = ["| SmolLM2 | rule | n | p | rounds with all drafts kept |", "|---|---|---|---|---|"]
    for drafter, rule in ON_SMOLLM2:
        combination = Combination("smollm2", drafter, rule)
        entry = entries.get(combination.name)
        kept = "." if entry is None else f"{_share(entry['coverage']):.0%}"
        count = "." if entry is None else entry["n"]
        rows.append(f"| {drafter} | `{rule}` | {count} | {_cell(entries, combination)} | {kept} |")
    return "\n".join(rows)


def _share(coverage: Mapping[str, int]) -> float:
    drafted = coverage.get("bonus", 0) + coverage.get("recovered", 0)
    return coverage.get("bonus", 0) / drafted if drafted else 0.0


def _cell(entries: Entries, combination: Combination) -> str:
    entry = entries.get(combination.name)
    if entry is None:
        return "."
    number = f"{entry['p_value']:.2g}"
    return number if entry["verdict"] == "passed" else f"**{entry['verdict']}, {number}**"


def _greedy(greedy: Entries) -> str:
    rows = [
        "| SmolLM2, temperature 0 | rule | nodes | texts equal | part at a near-tie | wrong | tokens per round |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, entry in greedy.items():
        counts = f"{entry['equal']} of {entry['prompts']} | {len(entry['near_ties'])} | {len(entry['wrong'])}"
        length = f"{entry['mean_acceptance_length']:.2f}"
        rows.append(f"| {name} | `{entry['rule']}` | {entry['nodes']} | {counts} | {length} |")
    return "\n".join(rows)
