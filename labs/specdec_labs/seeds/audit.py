"""All findings about the seed documents, as rows, as Markdown and as plain data."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from specdec_labs.seeds.finding import MEANING, Finding
from specdec_labs.seeds.formulas import formula_findings
from specdec_labs.seeds.h100_table import H100_TABLE, h100_findings, modelled_row
from specdec_labs.seeds.texts import text_findings
from specdec_labs.seeds.thresholds import threshold_findings


def audit_rows() -> list[Finding]:
    """Every figure with its recomputation and a verdict: formulas, the H100 table, the texts, the thresholds."""
    return [*formula_findings(), *h100_findings(), *text_findings(), *threshold_findings()]


def h100_rows(devices: int) -> list[dict[str, Any]]:
    """The H100 table as it would be on `devices` devices by the roofline, beside what is printed."""
    return [{"row": row.name, "printed": asdict(row), "modelled": modelled_row(row, devices)} for row in H100_TABLE]


def summary(rows: Iterable[Finding]) -> str:
    """How many of each verdict, in a line."""
    counts = Counter(row.verdict for row in rows)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in MEANING if counts[verdict])


def audit_table(rows: Iterable[Finding]) -> str:
    """The findings as one Markdown table; docs/seed_audit.md holds it."""
    lines = [
        ("document", "place", "quoted", "recomputed", "verdict", "how"),
        ("---",) * 6,
        *((f"{row.document}", row.place, row.quoted, row.recomputed, row.verdict, row.why) for row in rows),
    ]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def h100_table(devices: int) -> str:
    """`h100_rows` as Markdown."""
    lines = [
        "| row | tokens, printed | modelled | tok/s, printed | modelled | speed-up, printed | modelled |",
        "| --- " * 7 + "|",
    ]
    for entry in h100_rows(devices):
        printed, ours = entry["printed"], entry["modelled"]
        lines.append(
            f"| {entry['row']} | {printed['tokens']:.2f} | {ours['tokens']:.3f} | {printed['tokens_per_s']:.1f} "
            f"| {ours['tokens_per_s']:.1f} | {printed['speedup']:.2f} | {ours['speedup']:.2f} |"
        )
    return "\n".join(lines)
