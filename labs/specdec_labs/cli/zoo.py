"""`specdec audit zoo`: does the certificate catch what it says it catches?"""

from pathlib import Path
from typing import Annotated

import typer

from specdec_labs.cli.bad_input import explained


@explained
def audit_zoo(
    seeds: Annotated[int, typer.Option(help="Runs of each broken sampler over each law, in each mode.")] = 100,
    runs: Annotated[int, typer.Option(help="Runs of the right sampler in each mode.")] = 2000,
    draws: Annotated[int, typer.Option(help="Simulated counts a test, for its true level.")] = 100_000,
    only: Annotated[list[str] | None, typer.Option("--only", help="Those whose name holds this text.")] = None,
    json: Annotated[Path | None, typer.Option(help="Keep the report in this file.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write the table of --json into this page; nothing is run.")] = None,
) -> None:
    """Certify broken samplers of known faults, and the right one; exit code 1 when one is missed too often."""
    from specdec_labs.zoo.report import run_zoo, write_table

    for name, value in (("seeds", seeds), ("runs", runs), ("draws", draws)):
        if value < 1:
            raise ValueError(f"{name} is {value}; expected at least 1")
    if page is not None:
        if json is None:
            raise ValueError("--page needs --json, the file whose table it is to show")
        write_table(json, page)
        raise typer.Exit(0)
    raise typer.Exit(run_zoo(seeds, runs, draws, only or [], json))
