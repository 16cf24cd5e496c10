"""`specdec audit-seeds`: the seed documents' figures, quoted and recomputed."""

from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from specdec_core.whole_file import write_whole
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_output
from specdec_labs.seeds.audit import audit_rows, audit_table, h100_rows, h100_table, summary
from specdec_labs.seeds.finding import MEANING, Finding

WRONG = ("wrong", "inconsistent")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSeedsOptions:
    """The options of `specdec audit-seeds`, as its help describes them."""

    document: int | None = None
    json: Path | None = None
    markdown: Path | None = None


def run_audit_seeds(options: AuditSeedsOptions, console: Console) -> int:
    """0 after every figure is shown.

    Raises:
        ValueError: a document that is none, or a file that cannot be written.
    """
    for path in (options.json, options.markdown):
        check_output(path)
    rows = audit_rows()
    known = sorted({row.document for row in rows})
    if options.document is not None and options.document not in known:
        raise ValueError(f"document is {options.document}; expected one of {', '.join(map(str, known))}")
    shown = [row for row in rows if options.document in (None, row.document)]
    for document in sorted({row.document for row in shown}):
        console.print(_table(document, [row for row in shown if row.document == document]))
    if options.document in (None, 0):
        for devices in (1, 8):
            console.print(_h100(devices))
    console.print(f"{len(shown)} figures and claims: {summary(shown)}")
    used = {row.verdict for row in shown}
    for verdict, meaning in MEANING.items():
        if verdict in used:
            console.print(f"  {verdict}: {meaning}", style="dim")
    _write(options, rows, console)
    return 0


def _table(document: int, rows: list[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"seed document {document}", title_justify="left")
    for heading in ("place", "quoted", "recomputed", "verdict", "how"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        style = "bold magenta" if row.verdict in WRONG else None
        table.add_row(row.place, row.quoted, row.recomputed, row.verdict, row.why, style=style)
    return table


def _h100(devices: int) -> Table:
    title = f"the table on {devices} H100 by the roofline (modelled; tokens from the printed alpha, no overhead)"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    table.add_column("")
    for heading in ("tokens", "tok/s", "speed-up"):
        table.add_column(f"{heading}, printed", justify="right")
        table.add_column("modelled", justify="right")
    for entry in h100_rows(devices):
        printed, ours = entry["printed"], entry["modelled"]
        table.add_row(
            entry["row"],
            f"{printed['tokens']:.2f}",
            f"{ours['tokens']:.3f}",
            f"{printed['tokens_per_s']:.1f}",
            f"{ours['tokens_per_s']:.1f}",
            f"{printed['speedup']:.2f}",
            f"{ours['speedup']:.2f}",
        )
    return table


def _write(options: AuditSeedsOptions, rows: list[Finding], console: Console) -> None:
    if options.json is not None:
        tables = {str(devices): h100_rows(devices) for devices in (1, 8)}
        write_json(options.json, {"findings": [asdict(row) for row in rows], "h100": tables})
        console.print(f"written to {options.json}", style="dim")
    if options.markdown is not None:
        write_whole(options.markdown, f"{audit_table(rows)}\n\n{h100_table(1)}\n\n{h100_table(8)}\n")
        console.print(f"written to {options.markdown}", style="dim")
