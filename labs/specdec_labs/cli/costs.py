"""The cost commands of `specdec bench` - curve, machine, speedup - and `specdec audit-seeds`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_labs.cli.bad_input import explained

if TYPE_CHECKING:
    from rich.console import Console

costs, seeds = typer.Typer(), typer.Typer()

PairName = Annotated[
    str | None,
    typer.Option("--pair", help="smollm2, tiny, toy, a Hugging Face id or folder, or TARGET,DRAFT. Default: smollm2."),
]
Drafters = Annotated[
    list[str] | None,
    typer.Option("--drafter", help="May be repeated: ngram, suffix, model, distilled, medusa, eagle, eagle-tree, ..."),
]
Seed = Annotated[int, typer.Option(help="Seed of all noise.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
DType = Annotated[str, typer.Option("--dtype", help="float32, bfloat16, float16 or auto.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads. Default: OMP_NUM_THREADS, else half the processors.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")]
Html = Annotated[Path | None, typer.Option("--html", help="Draw them in this file; its camera button saves a PNG.")]
Png = Annotated[Path | None, typer.Option("--png", help="Draw them in this picture; needs Chrome or Chromium.")]
PlainText = Annotated[bool, typer.Option("--plain-text", help="No colour and no moving lines.")]


@costs.command()
@explained
def curve(
    pair: PairName = None,
    drafter: Drafters = None,
    rows: Annotated[
        list[int] | None, typer.Option(help="May be repeated: tokens fed in a pass. Default: 1 to 64.")
    ] = None,
    context: Annotated[list[int] | None, typer.Option(help="May be repeated: tokens cached. Default: 64, 256.")] = None,
    gamma: Annotated[
        list[int] | None, typer.Option(help="May be repeated: drafts a round. Default: 1, 2, 4, 8.")
    ] = None,
    tokens: Annotated[int, typer.Option(help="New tokens of each drafter's runs.")] = 24,
    repeats: Annotated[int, typer.Option(help="Passes at each point.")] = 7,
    device: Device = "auto",
    dtype: DType = "auto",
    threads: Threads = None,
    json: Json = None,
    csv: Annotated[Path | None, typer.Option(help="Write the curves to this file.")] = None,
    html: Html = None,
    png: Png = None,
    plain_text: PlainText = False,
) -> None:
    """Measure what a pass costs by rows and context, what drafting costs, and how many tokens each K must emit."""
    given = _options(locals(), "drafter", "rows", "context", "gamma")
    from specdec_labs.cli.bench_curve import BenchCurveOptions, run_bench_curve

    raise typer.Exit(run_bench_curve(BenchCurveOptions(**given), _console(plain_text)))


@costs.command()
@explained
def machine(
    repeats: Annotated[int, typer.Option(help="Runs of each product; the fastest counts.")] = 7,
    threads: Threads = None,
    json: Json = None,
    plain_text: PlainText = False,
) -> None:
    """Measure memory bandwidth and arithmetic of this machine: the roofline's two numbers."""
    given = _options(locals())
    from specdec_labs.cli.bench_machine import BenchMachineOptions, run_bench_machine

    raise typer.Exit(run_bench_machine(BenchMachineOptions(**given), _console(plain_text)))


@costs.command()
@explained
def routes(
    rounds: Annotated[int, typer.Option(help="Passes of every arm, arms taken in turn.")] = 15,
    cached: Annotated[int, typer.Option(help="Tokens in the cache before a pass.")] = 128,
    pair: PairName = None,
    threads: Threads = None,
    json: Json = None,
    plain_text: PlainText = False,
) -> None:
    """Time one plain step by every route of the matrix products, beside the routes that were chosen by measuring."""
    given = _options(locals())
    from specdec_labs.cli.bench_routes import BenchRoutesOptions, run_bench_routes

    raise typer.Exit(run_bench_routes(BenchRoutesOptions(**given), _console(plain_text)))


@costs.command()
@explained
def speedup(
    pair: PairName = None,
    drafter: Drafters = None,
    gamma: Annotated[list[int] | None, typer.Option(help="May be repeated. Default: 1, 2, 4 and 8.")] = None,
    task: Annotated[list[str] | None, typer.Option(help="May be repeated: mixed, summary, code, mt_bench, ...")] = None,
    temperature: Annotated[list[float] | None, typer.Option(help="May be repeated. Default: 0 and 1.")] = None,
    tokens: Annotated[int | None, typer.Option(help="New tokens of each prompt. Default: 24.")] = None,
    prompts: Annotated[int, typer.Option(help="At most so many prompts of each task.")] = 18,
    minutes: Annotated[float, typer.Option(help="Stop taking new prompts after so long, loading included.")] = 5.0,
    repeats: Annotated[int | None, typer.Option(help="Sweeps of the cost curve before the runs. Default: 2.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One drafter, temperature 0, at most 50 s.")] = False,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: DType = "auto",
    threads: Threads = None,
    json: Json = None,
    csv: Annotated[Path | None, typer.Option(help="Write the points to this file.")] = None,
    html: Html = None,
    png: Png = None,
    plain_text: PlainText = False,
) -> None:
    """Measure speed-ups by drafter, gamma, task, temperature; predict each half of the prompts from the other."""
    given = _options(locals(), "drafter", "gamma", "task", "temperature")
    from specdec_labs.cli.bench_speedup import BenchSpeedupOptions, run_bench_speedup

    raise typer.Exit(run_bench_speedup(BenchSpeedupOptions(**given), _console(plain_text)))


@seeds.command(name="audit-seeds")
@explained
def audit_seeds(
    document: Annotated[int | None, typer.Option(help="Only this seed document: 0, 1 or 3.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the findings to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables of docs/seed_audit.md to this file.")] = None,
    plain_text: PlainText = False,
) -> None:
    """Recompute every figure of the three texts this lab began with: quoted, recomputed, verdict."""
    given = _options(locals())
    from specdec_labs.cli.audit_seeds import AuditSeedsOptions, run_audit_seeds

    raise typer.Exit(run_audit_seeds(AuditSeedsOptions(**given), _console(plain_text)))


def _options(given: dict[str, Any], *lists: str) -> dict[str, Any]:
    """A command's own parameters, but for how to print; a list that was not given is empty."""
    return {name: (value or []) if name in lists else value for name, value in given.items() if name != "plain_text"}


def _console(plain_text: bool) -> "Console":
    from rich.console import Console

    return Console(force_terminal=False if plain_text else None, highlight=False, markup=False, emoji=False)
