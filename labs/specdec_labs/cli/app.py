"""The commands of `specdec` and their options; the work is in the modules they call.

Those are imported when a command runs: `specdec --help` loads neither torch nor a model.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_labs.cli.bad_input import explained

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    name="specdec",
    help="SpecDec Lab: speculative decoding to see, prove, measure and build.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(name="bench", help="Measurements of this machine.", no_args_is_help=True)
app.add_typer(bench)

PairName = Annotated[
    str | None,
    typer.Option("--pair", help="smollm2, toy, a Hugging Face id or folder, or TARGET,DRAFT. Default: smollm2."),
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
        str | None, typer.Option(help="ngram (prompt lookup), model or none. Default: ngram; model for the toy pair.")
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
    seed: Seed = 0,
    memo: Annotated[bool, typer.Option(help="Remember logits by prefix: fast, but the models' caches idle.")] = True,
    device: Device = "auto",
    dtype: DType = "auto",
    threads: Threads = None,
    json: Annotated[Path | None, typer.Option(help="Write the certificate to this file.")] = None,
    plain_text: PlainText = False,
) -> None:
    """Test whether the engine's output has the target's law; exit code 1 when it does not."""
    given = _options(locals())
    from specdec_labs.cli.certify import CertifyOptions, run_certify

    raise typer.Exit(run_certify(CertifyOptions(**given), _console(plain_text)))


@app.command()
@explained
def doctor(plain_text: PlainText = False) -> None:
    """Show versions, threads, GPU and the model; what is missing, and how to get it."""
    from specdec_labs.cli.doctor import run_doctor

    raise typer.Exit(run_doctor(_console(plain_text)))


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


@app.command()
@explained
def start(
    exercise: Annotated[str, typer.Argument(help="For example E01.")],
    directory: Annotated[Path | None, typer.Option(help="Folder instead of work/.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="A new starter beside an existing file.")] = False,
) -> None:
    """Begin an exercise: copies the starter to a place that git ignores."""
    from specdec_labs.cli.start import start as start_exercise

    start_exercise(exercise, directory, fresh=fresh)


@app.command()
@explained
def grade(
    path: Annotated[Path, typer.Argument(help="Your file.")],
    exercise: Annotated[str | None, typer.Option(help="For example E01. Default: from the file's folder.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds for the whole file.")] = None,
    hidden_seed: Annotated[int | None, typer.Option(help="Also check fresh random cases from this seed.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the report as JUnit XML.")] = None,
) -> None:
    """Check your file; exit code 1 when a property fails."""
    from specdec_labs.cli.start import TIMEOUT_S, grade_command

    limit = TIMEOUT_S if timeout is None else timeout
    code = grade_command(path, exercise, json_path=json, junit_path=junit, timeout_s=limit, hidden_seed=hidden_seed)
    raise typer.Exit(code)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """A command's own parameters, but for how to print."""
    return {name: value for name, value in given.items() if name != "plain_text"}


def _console(plain_text: bool) -> "Console":
    from rich.console import Console

    return Console(force_terminal=False if plain_text else None, highlight=False, markup=False, emoji=False)
