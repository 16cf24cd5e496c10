"""The commands of `specdec` and their options; the work is in the modules they call.

Those are imported when a command runs: `specdec --help` loads neither torch nor a model.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from specdec_labs.cli.acceptance_command import acceptance
from specdec_labs.cli.audit_kernels import audit_kernels
from specdec_labs.cli.bad_input import explained
from specdec_labs.cli.certify_shipped import certify_shipped
from specdec_labs.cli.costs import costs, seeds
from specdec_labs.cli.data import data
from specdec_labs.cli.exercise_commands import add_exercise_commands
from specdec_labs.cli.train import train
from specdec_labs.cli.zoo import audit_zoo

if TYPE_CHECKING:
    from rich.console import Console

ORDER = (
    *("demo", "doctor", "start", "check", "hint", "grade"),
    *("certify", "museum", "precision", "bench", "audit", "audit-seeds"),
    *("certify-shipped", "train", "data", "course"),
)
"""The commands as `--help` lists them: what a newcomer needs, what shows and measures, what builds."""


class Commands(TyperGroup):
    """The commands in their order; an option that takes no value is shown without a type."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names."""
        return sorted(self.commands, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))

    def get_params(self, ctx: Any) -> Any:
        """Those of `specdec` itself."""
        return _without_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by name, None when there is none."""
        found = super().get_command(ctx, cmd_name)
        waiting: list[Any] = [] if found is None else [found]
        while waiting:
            command = waiting.pop()
            _without_types(command.get_params(ctx))
            waiting += getattr(command, "commands", {}).values()
        return found


def _without_types(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


app = typer.Typer(
    name="specdec",
    cls=Commands,
    help="SpecDec Lab: speculative decoding to see, prove, measure and build.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(name="certify-shipped")(certify_shipped)
bench = typer.Typer(name="bench", help="Measurements of this machine.", no_args_is_help=True)
app.add_typer(bench)
bench.command()(acceptance)
bench.add_typer(costs)
app.add_typer(seeds)
app.add_typer(data)
app.add_typer(train)
audit = typer.Typer(name="audit", help="Test samplers: of other projects, and our kernels.", no_args_is_help=True)
app.add_typer(audit)
audit.command(name="kernels")(audit_kernels)
audit.command(name="zoo")(audit_zoo)
add_exercise_commands(app)

PairName = Annotated[
    str | None,
    typer.Option("--pair", help="smollm2, tiny, toy, a Hugging Face id or folder, or TARGET,DRAFT. Default: smollm2."),
]
Prompt = Annotated[str | None, typer.Option(help="The prompt. Default: an example of the pair.")]
PromptFile = Annotated[str | None, typer.Option("--file", help="Read the prompt from this file; - is standard input.")]
DraftTemperature = Annotated[
    float | None, typer.Option(help="Another temperature for drafting alone; q changes, the output's law does not.")
]
RuleName = Annotated[
    str,
    typer.Option("--rule", help="A rule of docs/rules.md: chain, block, match, greedy, ..."),
]
TopP = Annotated[float, typer.Option(help="Keep the most probable tokens up to this mass.")]
Seed = Annotated[int, typer.Option(help="Seed of all noise.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
DType = Annotated[str, typer.Option("--dtype", help="float32, bfloat16, float16 or auto.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads. Default: OMP_NUM_THREADS, else half the processors.")]
PlainText = Annotated[bool, typer.Option("--plain-text", help="No colour and no moving lines.")]


@app.command()
@explained
def demo(
    pair: PairName = None,
    prompt: Prompt = None,
    file: PromptFile = None,
    drafter: Annotated[
        str | None, typer.Option(help="ngram (prompt lookup), model or none. Default: ngram; model for tiny and toy.")
    ] = None,
    draft_temperature: DraftTemperature = None,
    gamma: Annotated[int, typer.Option(help="Tokens drafted per round; 0 is plain decoding.")] = 4,
    rule: RuleName = "chain",
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Keep the k most probable tokens; 0 keeps all.")] = 0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    max_new_tokens: Annotated[int, typer.Option(help="Stop after so many tokens.")] = 64,
    compare: Annotated[bool, typer.Option(help="Measure plain and speculative decoding in turn.")] = True,
    repeats: Annotated[int, typer.Option(help="Runs of each.")] = 3,
    device: Device = "auto",
    dtype: DType = "auto",
    threads: Threads = None,
    json: Annotated[Path | None, typer.Option(help="Write the trace of the text to this file.")] = None,
    plain_text: PlainText = False,
) -> None:
    """Decode one prompt with drafts: the text with the origin of every token, the numbers, and what is certain."""
    given = _options(locals())
    from specdec_labs.cli.demo import DemoOptions, run_demo

    raise typer.Exit(run_demo(DemoOptions(**given), _console(plain_text)))


@app.command()
@explained
def certify(
    pair: PairName = None,
    prompt: Prompt = None,
    file: PromptFile = None,
    drafter: Annotated[str, typer.Option(help="ngram, model or none.")] = "model",
    draft_temperature: DraftTemperature = None,
    gamma: Annotated[int, typer.Option(help="Tokens drafted per round; it sets how many tokens are tested.")] = 1,
    rule: RuleName = "chain",
    temperature: Annotated[float | None, typer.Option(help="Default: 1, and 10 for the toy pair.")] = None,
    top_k: Annotated[int, typer.Option(help="Few tokens keep the cells fine; 0 keeps all (slow).")] = 8,
    top_p: TopP = 1.0,
    n: Annotated[int | None, typer.Option(help="Samples. Default: what --power against --bias needs.")] = None,
    bias: Annotated[float, typer.Option(help="Total variation distance that is to be caught.")] = 0.06,
    power: Annotated[float, typer.Option(help="Probability of catching it.")] = 0.99,
    sequential: Annotated[bool, typer.Option("--sequential", help="Look as it goes; stop when all is clear.")] = False,
    seed: Seed = 0,
    memo: Annotated[bool, typer.Option(help="Remember logits by prefix: fast, but the models' caches idle.")] = True,
    device: Device = "auto",
    dtype: DType = "auto",
    threads: Threads = None,
    json: Annotated[Path | None, typer.Option(help="Write the certificate to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it in this HTML file (5 MB, needs no network).")] = None,
    plain_text: PlainText = False,
) -> None:
    """Test whether the engine's output has the target's law; exit code 1 when it does not."""
    given = _options(locals())
    from specdec_labs.cli.certify import CertifyOptions, run_certify

    raise typer.Exit(run_certify(CertifyOptions(**given), _console(plain_text)))


@app.command()
@explained
def museum(
    name: Annotated[str | None, typer.Argument(help="Tell the story of this piece alone.")] = None,
    seed: Seed = 0,
    json: Annotated[Path | None, typer.Option(help="Write the findings to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables of docs/museum.md to this file.")] = None,
    plain_text: PlainText = False,
) -> None:
    """Try every detector on 21 mistakes, most of them reported by real projects; exit code 1 when one survives."""
    given = _options(locals())
    from specdec_labs.cli.museum import MuseumOptions, run_museum

    raise typer.Exit(run_museum(MuseumOptions(**given), _console(plain_text)))


@app.command()
@explained
def doctor(plain_text: PlainText = False) -> None:
    """Show versions, threads, GPU and the model; what is missing, and how to get it."""
    from specdec_labs.cli.doctor import run_doctor

    raise typer.Exit(run_doctor(_console(plain_text)))


@app.command()
@explained
def precision(
    vocab: Annotated[int, typer.Option(help="Tokens in the vocabulary.")] = 49_152,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    plain_text: PlainText = False,
) -> None:
    """Show what bfloat16, float16 and coarse random numbers cost in softmax, race and verification."""
    given = _options(locals())
    from specdec_labs.cli.precision import PrecisionOptions, run_precision

    raise typer.Exit(run_precision(PrecisionOptions(**given), _console(plain_text)))


@bench.command()
@explained
def host(
    pair: PairName = None,
    prompt: Prompt = None,
    file: PromptFile = None,
    drafter: Annotated[str, typer.Option(help="ngram or model.")] = "ngram",
    gamma: Annotated[int, typer.Option(help="Tokens drafted per round.")] = 4,
    tokens: Annotated[int, typer.Option(help="New tokens per setting.")] = 64,
    device: Device = "auto",
    dtype: DType = "auto",
    threads: Threads = None,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    plain_text: PlainText = False,
) -> None:
    """Measure which share of a round is spent outside the models."""
    given = _options(locals())
    from specdec_labs.cli.bench_host import BenchOptions, run_bench

    raise typer.Exit(run_bench(BenchOptions(**given), _console(plain_text)))


AuditSamples = Annotated[int | None, typer.Option("--samples", help="Samples of each audit.")]
AuditJson = Annotated[Path | None, typer.Option("--json", help="Write the findings to this file.")]


@audit.command(name="transformers")
@explained
def audit_transformers(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="rule, assistant or prompt-lookup. Default: all three.")
    ] = None,
    samples: AuditSamples = 4000,
    seed: Seed = 0,
    json: AuditJson = None,
    plain_text: PlainText = False,
) -> None:
    """Audit the installed transformers: its sampling rule, and generate() with a draft model and with prompt lookup."""
    from specdec_labs.cli.audit import run_transformers

    raise typer.Exit(run_transformers(only or (), samples, seed, json, _console(plain_text)))


@audit.command(name="vllm")
@explained
def audit_vllm(
    python: Annotated[Path | None, typer.Option(help="Python with vLLM. Default: .venv-vllm/bin/python.")] = None,
    wheel: Annotated[
        Path | None, typer.Option(help="Audit the kernels in this wheel of vLLM, which need not be installed.")
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(help="paper (sampled drafts), coin (greedy) or memory (sampled). Default: paper and coin."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Folder of the samples; a stopped run goes on from it. Default: work/audit-vllm."),
    ] = None,
    samples: Annotated[int, typer.Option(help="Samples of each audit.")] = 4000,
    seed: Seed = 0,
    json: AuditJson = None,
    plain_text: PlainText = False,
) -> None:
    """Audit vLLM's own Triton kernels, interpreted: block verification, and standard verification as the control."""
    from specdec_labs.cli.audit import run_vllm

    raise typer.Exit(run_vllm(python, wheel, pair or (), keep, samples, seed, json, _console(plain_text)))


@audit.command(name="flashinfer")
@explained
def audit_flashinfer(
    samples: AuditSamples = 20_000, seed: Seed = 0, json: AuditJson = None, plain_text: PlainText = False
) -> None:
    """Audit FlashInfer's chain_speculative_sampling; needs a CUDA device and flashinfer."""
    from specdec_labs.cli.audit import run_flashinfer

    raise typer.Exit(run_flashinfer(samples, seed, json, _console(plain_text)))


@audit.command(name="position-keys")
@explained
def audit_position_keys(
    samples: Annotated[int, typer.Option(help="Requests of each setting.")] = 400_000,
    seed: Seed = 0,
    json: AuditJson = None,
    plain_text: PlainText = False,
) -> None:
    """Show by our own decoder what noise keyed by position does to chain and to block verification."""
    from specdec_labs.cli.audit import run_position_keys

    raise typer.Exit(run_position_keys(samples, seed, json, _console(plain_text)))


@bench.command()
@explained
def rules(
    repeats: Annotated[int, typer.Option(help="Runs of each arm at the large size.")] = 15,
    rounds: Annotated[int, typer.Option(help="Small rounds in all.")] = 1_000_000,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, a few seconds.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    plain_text: PlainText = False,
) -> None:
    """Time batched verification against one read of its inputs and against the loop of tutorials."""
    given = _options(locals())
    from specdec_labs.cli.bench_rules import BenchRulesOptions, run_bench_rules

    raise typer.Exit(run_bench_rules(BenchRulesOptions(**given), _console(plain_text)))


@bench.command()
@explained
def kernels(
    device: Annotated[str, typer.Option(help="cuda, cuda:N, or cpu: a dry run without speeds.")] = "cuda",
    smoke: Annotated[bool, typer.Option("--smoke", help="Tiny sizes, every kind of job once.")] = False,
    minutes: Annotated[float, typer.Option(help="Stop here; the most important runs first.")] = 3.7,
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write tables and plots to this page.")] = None,
    redraw: Annotated[Path | None, typer.Option(help="Draw the page of this JSON file instead of running.")] = None,
) -> None:
    """Check the kernels on a GPU, then time them beside torch, vLLM and FlashInfer; exit code 1 when one is wrong."""
    given = locals()
    from specdec_labs.bench_kernels.run import BenchKernelsOptions, run_bench_kernels

    raise typer.Exit(run_bench_kernels(BenchKernelsOptions(**given), typer.echo))


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """A command's own parameters, but for how to print."""
    return {name: value for name, value in given.items() if name != "plain_text"}


def _console(plain_text: bool) -> "Console":
    from rich.console import Console

    return Console(force_terminal=False if plain_text else None, highlight=False, markup=False, emoji=False)
