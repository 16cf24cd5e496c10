"""`specdec museum`: the kill matrix of the bug museum, or the story of one piece."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
import time
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from specdec_core.whole_file import write_whole
from specdec_labs.cli.bad_input import INTERRUPTED
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_output, use_threads
from specdec_labs.museum.catalogue import MUSEUM
from specdec_labs.museum.detect import CertificateKill, Finding, Kill, examine
from specdec_labs.museum.page import certificate_cells, measured_table, p_text, story_table
from specdec_labs.museum.piece import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class MuseumOptions:
    """The options of `specdec museum`, as its help describes them."""

    name: str | None = None
    seed: int = 0
    json: Path | None = None
    markdown: Path | None = None


def run_museum(options: MuseumOptions, console: Console) -> int:
    """0 when every piece shown is killed and every right counterpart passes, 1 when not, 130 after Ctrl-C.

    Raises:
        ValueError: an unknown piece, a negative seed, or files that cannot be written; nothing has run then.
    """
    if options.name is not None and options.name not in MUSEUM:
        raise ValueError(f"piece is {options.name!r}; expected one of {', '.join(MUSEUM)}")
    if options.seed < 0:
        raise ValueError(f"seed is {options.seed}; expected a whole number, at least 0")
    check_output(options.json)
    check_output(options.markdown)
    use_threads(1)
    pieces = list(MUSEUM.values()) if options.name is None else [MUSEUM[options.name]]
    start = time.perf_counter()
    findings: list[Finding] = []
    try:
        _examine_all(pieces, options.seed, findings, console)
    except KeyboardInterrupt:
        console.print(f"interrupted after {len(findings)} of {len(pieces)} pieces: no verdict")
        return INTERRUPTED
    killed = sum(finding.is_killed for finding in findings)
    if options.name is not None:
        _tell(findings[0], console)
    else:
        console.print(_matrix(findings))
        console.print(
            f"every detector is run on the wrong and on the right code; seed {options.seed}, "
            f"{time.perf_counter() - start:.0f} s",
            style="dim",
        )
    _write(options, findings, console)
    if options.name is None:
        console.print(f"{killed}/{len(MUSEUM)}", style="bold" if killed == len(MUSEUM) else "bold magenta")
    return 0 if killed == len(pieces) else 1


def _examine_all(pieces: Iterable[Piece], seed: int, findings: list[Finding], console: Console) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[samples]}"),
    )
    pieces = list(pieces)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("museum", total=len(pieces), samples="")
        for piece in pieces:
            bar.update(task, description=piece.name)

            def report(done: int, total: int) -> None:
                bar.update(task, samples=f"{done} of {total} samples")

            findings.append(examine(piece, seed=seed, progress=report))
            bar.update(task, advance=1, samples="")


def _matrix(findings: Iterable[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    # the name is what `specdec museum NAME` takes, so it is never cut; the words beside it fold instead
    table.add_column("piece", no_wrap=True, min_width=max(map(len, MUSEUM)))
    table.add_column("exact", overflow="fold")
    table.add_column("property", overflow="fold")
    for heading in ("n", "power", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for finding in findings:
        kill = finding.certificate_kill
        cells = ("-", "-", "-") if kill is None else certificate_cells(kill, "")[:3]
        marks = f"{finding.exact_kill.wrong.says}", f"{finding.property_kill.wrong.says}"
        verdict = "killed" if finding.is_killed else "NOT KILLED"
        table.add_row(finding.piece.name, *marks, *cells, verdict, style=None if finding.is_killed else "bold magenta")
    return table


def _tell(finding: Finding, console: Console) -> None:
    piece = finding.piece
    console.print(piece.title, style="bold")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    for heading, text in (
        ("symptom", piece.symptom),
        ("cause", piece.cause),
        ("met in", piece.met_in),
        ("fix", piece.fix),
        ("exact", _both(finding.exact_kill)),
        ("property", _both(finding.property_kill)),
        ("certificate", _certificate_story(finding.certificate_kill, piece.instead)),
    ):
        table.add_row(heading, text)
    console.print(table)
    console.print("killed" if finding.is_killed else "NOT KILLED", style="bold")


def _both(kill: Kill) -> str:
    return f"{kill.wrong.says} (the right code: {kill.right.says})"


def _certificate_story(kill: CertificateKill | None, instead: str) -> str:
    if kill is None:
        return f"samples cannot show it: {instead}"
    return (
        f"n = {kill.wrong.n}, power {kill.power:.4f} against this mistake at level {kill.wrong.level:g}, "
        f"p = {p_text(kill.wrong.p_value)} (the right code: p = {p_text(kill.right.p_value)})"
    )


def _write(options: MuseumOptions, findings: list[Finding], console: Console) -> None:
    if options.json is not None:
        write_json(options.json, {"seed": options.seed, "pieces": [_plain(finding) for finding in findings]})
        console.print(f"written to {options.json}", style="dim")
    if options.markdown is not None:
        pieces = [finding.piece for finding in findings]
        write_whole(options.markdown, f"{story_table(pieces)}\n\n{measured_table(findings)}\n")
        console.print(f"written to {options.markdown}", style="dim")


def _plain(finding: Finding) -> dict[str, Any]:
    """A finding as plain data."""
    piece, kill = finding.piece, finding.certificate_kill
    checks = {"exact": finding.exact_kill, "property": finding.property_kill}
    return {
        "name": piece.name,
        "title": piece.title,
        "killed": finding.is_killed,
        **{
            name: {"holds": check.holds, "wrong": check.wrong.says, "right": check.right.says}
            for name, check in checks.items()
        },
        "certificate": {"visible": False, "instead": piece.instead}
        if kill is None
        else {
            "visible": True,
            "holds": kill.holds,
            "power": kill.power,
            "wrong": kill.wrong.to_dict(),
            "right": kill.right.to_dict(),
        },
        "seconds": finding.seconds,
    }
