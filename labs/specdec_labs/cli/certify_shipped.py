"""`specdec certify-shipped`: a certificate for every drafter under every rule that takes its drafts."""

from pathlib import Path
from typing import Annotated

import typer

from specdec_labs.cli.bad_input import explained


@explained
def certify_shipped(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Those whose name holds this text, such as 'eagle tree'.")
    ] = None,
    n: Annotated[int | None, typer.Option(help="Samples of each. Default: what --power against --bias needs.")] = None,
    bias: Annotated[float, typer.Option(help="Total variation distance that is to be caught.")] = 0.15,
    power: Annotated[float, typer.Option(help="Probability of catching it.")] = 0.99,
    seed: Annotated[int, typer.Option(help="Seed of all noise.")] = 0,
    json: Annotated[
        Path | None, typer.Option(help="Keep the certificates in this file; those it has are not made again.")
    ] = None,
    greedy: Annotated[
        bool,
        typer.Option("--greedy", help="Instead compare SmolLM2's texts at temperature 0 with plain ones."),
    ] = False,
    page: Annotated[
        Path | None, typer.Option(help="Write the tables of --json into this page; nothing is certified then.")
    ] = None,
    plain_text: Annotated[bool, typer.Option("--plain-text", help="No colour and no moving lines.")] = False,
) -> None:
    """Certify all that ships: on the tiny pair every combination, on SmolLM2 three; exit code 1 when one fails."""
    from rich.console import Console

    from specdec_labs.shipped.command import run_certify_shipped, write_tables

    if page is not None:
        if json is None:
            raise ValueError("--page needs --json, the file whose tables it is to show")
        write_tables(json, page)
        raise typer.Exit(0)

    console = Console(force_terminal=False if plain_text else None, highlight=False, markup=False, emoji=False)
    raise typer.Exit(run_certify_shipped(only or [], n, bias, power, seed, json, console, greedy=greedy))
