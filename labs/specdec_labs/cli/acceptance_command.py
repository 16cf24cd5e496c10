"""`specdec bench acceptance` and its options; the work is in `bench_acceptance`, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from specdec_labs.cli.bad_input import explained


@explained
def acceptance(
    only: Annotated[list[str] | None, typer.Option(help="May be repeated: ngram, suffix, draft, medusa, ...")] = None,
    folder: Annotated[Path, typer.Option(help="Texts, states and finished cells; git ignores the default.")] = Path(
        "data/acceptance"
    ),
    corpus: Annotated[Path, typer.Option(help="The target's own answers, for suffix-corpus.")] = Path("data/smollm2"),
    corpus_tokens: Annotated[int, typer.Option(help="At most so many tokens of them.")] = 300_000,
    tokens: Annotated[int, typer.Option(help="Longest answer.")] = 96,
    curve: Annotated[
        Path | None, typer.Option(help="What `bench curve --json` wrote: trees are then sized by it.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a line a drafter, group and temperature.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it in this HTML file (5 MB, needs no network).")] = None,
    page: Annotated[Path | None, typer.Option(help="Fill the tables of this page: docs/acceptance.md.")] = None,
    plain_text: Annotated[bool, typer.Option("--plain-text", help="No colour and no moving lines.")] = False,
) -> None:
    """Measure the acceptance of every drafter on recorded answers of SmolLM2; stop at any time, it goes on."""
    from rich.console import Console

    from specdec_labs.cli.bench_acceptance import BenchAcceptanceOptions, run_bench_acceptance

    options = BenchAcceptanceOptions(
        only=only or [],
        folder=folder,
        corpus=corpus,
        corpus_tokens=corpus_tokens,
        tokens=tokens,
        curve=curve,
        threads=threads,
        json=json,
        csv=csv,
        plot=plot,
        page=page,
    )
    console = Console(force_terminal=False if plain_text else None, highlight=False, markup=False, emoji=False)
    raise typer.Exit(run_bench_acceptance(options, console))
