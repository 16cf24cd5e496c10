"""`specdec train`: a tiny pair from text; a draft, Medusa heads or an EAGLE head for SmolLM2."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdec_labs.cli.bad_input import explained
from specdec_labs.cli.data import CORPUS, WRITTEN, CorpusFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdec_labs.train.commands import RunOptions
    from specdec_labs.train.loop import Progress

train = typer.Typer(
    name="train",
    help="Train targets, drafts and heads. Every command goes on from its folder's checkpoint.",
    no_args_is_help=True,
)

TOKENS, RUNS = Path("data/tiny"), Path("data/runs")

Tokens = Annotated[Path, typer.Option("--tokens", help="Folder of `specdec train tokens`.")]
Records = Annotated[Path, typer.Option("--text", help="Folder of `specdec data generate`.")]
Count = Annotated[int | None, typer.Option("--records", help="Use the first so many records. Default: all there are.")]
Steps = Annotated[int | None, typer.Option(help="Steps of the whole run.")]
Minutes = Annotated[float | None, typer.Option(help="Choose the steps so that the run takes about so long.")]
Seed = Annotated[int, typer.Option(help="Seed of weights and batches.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
Precision = Annotated[str, typer.Option(help="Of matrix products: float32, bfloat16, or auto.")]
Loss = Annotated[str, typer.Option(help="kl, reverse_kl or tv (1 - alpha).")]
BeginWith = Annotated[Path | None, typer.Option(help="Folder of an earlier run whose weights this one starts from.")]
Rate = Annotated[float | None, typer.Option(help="Learning rate after the warm-up.")]
DomainName = Annotated[str, typer.Option("--domain", help="prose, code or both.")]


@train.command()
@explained
def tokens(corpus: CorpusFolder = CORPUS, folder: Tokens = TOKENS) -> None:
    """Train the byte-level BPE tokenizer on the corpus and encode it."""
    from specdec_labs.train.streams import make_streams

    streams = make_streams(corpus, folder)
    for (split, domain), ids in streams.ids.items():
        typer.echo(f"{split} {domain}: {len(ids):,} tokens")


@train.command()
@explained
def tiny(
    folder: Annotated[Path, typer.Option(help="Folder of the run.")] = RUNS / "tiny-target",
    streams: Tokens = TOKENS,
    domain: DomainName = "both",
    steps: Steps = None,
    minutes: Minutes = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Train the tiny target on the corpus."""
    from specdec_labs.train.commands import train_tiny

    options = _options(folder, steps, minutes, seed, device, precision)
    with _Bar() as report:
        line = train_tiny(options, streams, _domains(domain), report)
    typer.echo(line)


@train.command()
@explained
def draft(
    target: Annotated[str, typer.Option(help="smollm2, or the folder of an exported tiny target.")] = str(
        RUNS / "tiny-target" / "model"
    ),
    folder: Annotated[Path, typer.Option(help="Folder of the run.")] = RUNS / "draft",
    loss: Loss = "kl",
    streams: Tokens = TOKENS,
    domain: DomainName = "both",
    text: Records = WRITTEN,
    records: Count = None,
    begin_with: BeginWith = None,
    rate: Rate = None,
    steps: Steps = None,
    minutes: Minutes = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Distil a draft model from a target."""
    from specdec_labs.train.commands import train_smollm2_draft, train_tiny_draft

    options = _options(folder, steps, minutes, seed, device, precision, begin_with, rate)
    with _Bar() as report:
        if target == "smollm2":
            line = train_smollm2_draft(options, text, records, loss, report)
        else:
            line = train_tiny_draft(options, streams, Path(target), loss, _domains(domain), report)
    typer.echo(line)


@train.command()
@explained
def medusa(
    folder: Annotated[Path, typer.Option(help="Folder of the run.")] = RUNS / "medusa",
    heads: Annotated[int, typer.Option(help="How many heads.")] = 4,
    text: Records = WRITTEN,
    records: Count = None,
    begin_with: BeginWith = None,
    rate: Rate = None,
    steps: Steps = None,
    minutes: Minutes = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Train Medusa heads on SmolLM2's own text."""
    from specdec_labs.train.commands import train_medusa

    options = _options(folder, steps, minutes, seed, device, precision, begin_with, rate)
    with _Bar() as report:
        line = train_medusa(options, text, records, heads, report)
    typer.echo(line)


@train.command()
@explained
def eagle(
    folder: Annotated[Path, typer.Option(help="Folder of the run.")] = RUNS / "eagle",
    ffn_width: Annotated[int, typer.Option(help="Width inside the layer; SmolLM2's own layers have 1536.")] = 512,
    steps_ahead: Annotated[int, typer.Option(help="1: the target's states alone; more: the head's own too.")] = 2,
    ahead_after: Annotated[float, typer.Option(help="Share of the run after which further steps begin.")] = 0.6,
    text: Records = WRITTEN,
    records: Count = None,
    begin_with: BeginWith = None,
    rate: Rate = None,
    steps: Steps = None,
    minutes: Minutes = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Train an EAGLE head on SmolLM2's own text."""
    from specdec_labs.train.commands import train_eagle

    options = _options(folder, steps, minutes, seed, device, precision, begin_with, rate)
    with _Bar() as report:
        line = train_eagle(
            options, text, records, report, ffn_width=ffn_width, steps_ahead=steps_ahead, ahead_after=ahead_after
        )
    typer.echo(line)


@train.command()
@explained
def compare(
    what: Annotated[str, typer.Argument(help="losses (kl, reverse_kl, tv at one size) or sizes (1/50 to 1/3).")],
    output: Annotated[Path, typer.Option("--json", help="Where the figures go.")],
    target: Annotated[Path, typer.Option(help="Folder of an exported tiny target.")] = RUNS / "tiny-target" / "model",
    folder: Annotated[Path | None, typer.Option(help="Folder of the run. Default: data/runs/compare-WHAT.")] = None,
    streams: Tokens = TOKENS,
    steps: Steps = None,
    minutes: Minutes = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Train several tiny drafts side by side, on the same text for the same steps, and compare them."""
    from specdec_labs.train.comparisons import compare as run

    options = _options(folder or RUNS / f"compare-{what}", steps, minutes, seed, device, precision)
    with _Bar() as report:
        table = run(what, options, streams, target, output, report)
    typer.echo(table)


@train.command()
@explained
def mismatch(
    output: Annotated[Path, typer.Option("--json", help="Where the figures go.")],
    target: Annotated[Path, typer.Option(help="Folder of an exported tiny target.")] = RUNS / "tiny-target" / "model",
    both: Annotated[Path, typer.Option(help="Its draft that has read both domains.")] = RUNS / "tiny-draft" / "model",
    prose: Annotated[Path, typer.Option(help="Its draft that has read prose.")] = RUNS / "tiny-draft-prose" / "model",
    streams: Tokens = TOKENS,
    prompts: Annotated[int, typer.Option(help="Held-out prompts a domain.")] = 16,
) -> None:
    """Measure two drafts of the tiny target on prose and on code: what a draft loses where it has read nothing."""
    from specdec_labs.train.mismatch import measure_mismatch
    from specdec_labs.train.page import markdown

    rows = measure_mismatch(target, {"both": both, "prose": prose}, streams, output, prompts=prompts)
    typer.echo(markdown(rows[0], (row.values() for row in rows)))


@train.command()
@explained
def page() -> None:
    """Make the tables of docs/training.md anew from the cards and the results."""
    from specdec_core.whole_file import write_whole
    from specdec_labs.train.page import PAGE, filled

    write_whole(PAGE, filled(PAGE.read_text(encoding="utf-8")))
    typer.echo(str(PAGE))


@train.command()
@explained
def ship(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    name: Annotated[str, typer.Argument(help="tiny-target, tiny-draft, smollm2-draft, smollm2-medusa, smollm2-eagle.")],
    command: Annotated[str, typer.Option(help="The command that made the run, for the card.")],
    earlier: Annotated[Path | None, typer.Option(help="The run whose weights it began with.")] = None,
) -> None:
    """Put a finished run's weights into the package, with their card."""
    from specdec_labs.train.ship import ship as put

    typer.echo(put(run, name, command, earlier=earlier))


def _options(
    folder: Path,
    steps: int | None,
    minutes: float | None,
    seed: int,
    device: str,
    precision: str,
    begin_with: Path | None = None,
    rate: float | None = None,
) -> "RunOptions":
    from specdec_labs.train.commands import RunOptions

    if steps is not None and minutes is not None:
        raise ValueError("both --steps and --minutes are given; name one of them")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}; expected at least 1")
    return RunOptions(
        folder=folder,
        steps=steps,
        minutes=minutes,
        seed=seed,
        device=device,
        precision=precision,
        begin_with=begin_with,
        rate=rate,
        prepared=_prepared,
    )


def _prepared(done: int, missing: int) -> None:
    if done % 200 == 0 or done == missing:
        typer.echo(f"states of {done:,} of {missing:,} new records")


def _domains(name: str) -> tuple:
    from specdec_labs.train.streams import DOMAINS

    if name == "both":
        return DOMAINS
    if name not in DOMAINS:
        raise ValueError(f"domain is {name!r}; expected {', '.join(DOMAINS)} or both")
    return (name,)


class _Bar:
    """A progress bar with the time left; in a file, a line now and then and at every evaluation."""

    def __enter__(self) -> "Callable[[Progress], None]":
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = ("{task.description}", BarColumn(), "{task.completed}/{task.total}", TimeElapsedColumn())
        self._bar = Progress(*columns, TextColumn("{task.fields[left]}"))
        self._moving = self._bar.console.is_terminal
        self._task = self._bar.add_task("loss", total=None, left="")
        if self._moving:
            self._bar.start()
        return self._report

    def __exit__(self, *problem: object) -> None:
        if self._moving:
            self._bar.stop()

    def _report(self, at: "Progress") -> None:
        left = f"{at.seconds_left / 60:.0f} min left"
        figures = ""
        if at.evaluation is not None:
            figures = ", ".join(f"{name} {value:.3f}" for name, value in at.evaluation.items() if name != "step")
        if self._moving:
            self._bar.update(
                self._task, completed=at.step, total=at.steps, description=f"loss {at.loss:.3f}", left=left
            )
        if figures or (not self._moving and (at.step % 20 == 0 or at.step <= 2)):
            line = f"step {at.step}/{at.steps}: loss {at.loss:.4f}, {left}{', ' + figures if figures else ''}"
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
