"""`specdec demo`: one prompt, drafted and verified before your eyes, then measured and checked."""

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from specdec_core.engine import Engine, Stream
from specdec_core.models.pairs import Pair
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams
from specdec_labs.cli.assurance import (
    SAME_TEXT,
    Assurance,
    QuickSettings,
    greedy_assurance,
    match_assurance,
    stochastic_assurance,
)
from specdec_labs.cli.bad_input import INTERRUPTED
from specdec_labs.cli.certify import certifiable
from specdec_labs.cli.comparison import Comparison, compare
from specdec_labs.cli.marked_text import MarkedText, visible
from specdec_labs.cli.report import demo_table, left_out, measured_on
from specdec_labs.cli.setting_up import (
    check_at_least_one,
    check_drafting,
    check_output,
    choose_pair,
    default_drafter,
    make_drafter,
    open_pair,
    prompt_ids,
    read_prompt,
    use_threads,
)
from specdec_labs.cli.styles import legend
from specdec_labs.cli.trace_file import save_trace

_SHOWN_PROMPT = 500  # characters of the prompt that are shown
_RECORD_TOP = 16  # top tokens of each slot that go into a trace file
_HINT = "Prompt lookup gains where the answer repeats the prompt. Where it does not: --prompt 'Tell me about the sea.'"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of `specdec demo`, as its help describes them."""

    pair: str | None = None
    prompt: str | None = None
    file: str | None = None
    drafter: str | None = None
    draft_temperature: float | None = None
    rule: str = "chain"
    gamma: int = 4
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    max_new_tokens: int = 64
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
    repeats: int = 3
    compare: bool = True
    json: Path | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """The options with everything looked up: what is generated, from what, by whom."""

    options: DemoOptions
    pair: Pair
    drafter: str
    text: str
    prompt: list[int]
    params: SamplingParams

    @property
    def speculates(self) -> bool:
        """Whether anything is drafted at all."""
        return self.drafter != "none" and self.options.gamma > 0

    @property
    def is_example(self) -> bool:
        """Whether the prompt is the lab's own."""
        return self.options.prompt is None and self.options.file is None

    def engine(self, *, record_top: int = 0) -> Engine:
        """The engine asked for, with a drafter of its own."""
        drafter = make_drafter(self.drafter, self.pair, temperature=self.options.draft_temperature)
        return Engine(self.pair.target, drafter, self.options.rule, self.options.gamma, record_top=record_top)

    def plain(self) -> Engine:
        """Plain decoding: the same rule with nothing drafted, so that what it promises of a seed can be seen."""
        return Engine(self.pair.target, None, self.options.rule, 0)


@dataclass(slots=True)
class Outcome:
    """What has come out so far; a Ctrl-C leaves the rest None."""

    stream: Stream | None = None
    comparison: Comparison | None = None
    assurance: Assurance | None = None

    @property
    def shown(self) -> Trace | None:
        """The trace of the text on screen, whole or not."""
        return None if self.stream is None else self.stream.generation.trace


def run_demo(options: DemoOptions, console: Console) -> int:
    """0, or 1 when the text is not what the target would say, or 130 after Ctrl-C: what there is gets reported.

    Raises:
        ValueError: options that cannot be used; nothing has been written then.
    """
    request = _prepare(options, console)
    outcome = Outcome()
    interrupted = False
    try:
        _generate(request, outcome, console)
        if request.speculates and options.compare:
            _measure(request, outcome, console)
        outcome.assurance = _assure(request, outcome, console)
    except KeyboardInterrupt:
        interrupted = True
    _report(request, outcome, console, interrupted=interrupted)
    if interrupted:
        return INTERRUPTED
    return 1 if outcome.assurance is not None and outcome.assurance.holds is False else 0


def _prepare(options: DemoOptions, console: Console) -> Request:
    text = read_prompt(options.prompt, options.file)
    check_output(options.json)
    for name in ("max_new_tokens", "repeats", "threads"):
        check_at_least_one(name, getattr(options, name))
    params = SamplingParams(
        temperature=options.temperature, top_k=options.top_k, top_p=options.top_p, seed=options.seed
    )
    name = choose_pair(options.pair, console)
    drafter = options.drafter or default_drafter(name)
    check_drafting(drafter, options.draft_temperature, options.gamma, options.rule)
    use_threads(options.threads)
    pair = open_pair(name, options.device, options.dtype, console)
    text, prompt = prompt_ids(pair, text)
    params = replace(params, stop=pair.tokenizer.eos_ids)
    request = Request(options, pair, drafter, text, prompt, params)
    request.engine()
    return request


def _generate(request: Request, outcome: Outcome, console: Console) -> None:
    """Streams the text to the console, and its trace to the file."""
    options = request.options
    engine = request.engine(record_top=_RECORD_TOP if options.json else 0)
    outcome.stream = engine.stream(request.prompt, request.params, options.max_new_tokens)
    writer = MarkedText(console, request.pair.tokenizer)
    try:
        _introduce(request, console)
        for step in outcome.stream:
            writer.write(step)
    finally:
        writer.finish()
        _save(request, outcome)


def _introduce(request: Request, console: Console) -> None:
    options, params = request.options, request.params
    law = "greedy" if params.is_greedy else f"temperature {params.temperature:g}, seed {params.seed}"
    law += f", top_k {params.top_k}" if params.top_k else ""
    law += f", top_p {params.top_p:g}" if params.top_p < 1 else ""
    how = f"{_drafted_by(request)}, gamma {options.gamma}, rule {options.rule}" if request.speculates else "plain"
    console.print(f"{law}; {how}", style="dim")
    prompt = visible(request.text.strip())
    cut = prompt if len(prompt) <= _SHOWN_PROMPT else prompt[:_SHOWN_PROMPT] + " ..."
    console.print(Text.assemble(("\nprompt  ", "bold"), cut, "\n"))
    console.print(legend())
    console.print()


def _drafted_by(request: Request) -> str:
    # the line above it names the pair's draft, which may have no part in this
    if request.drafter == "model":
        return "drafter: the pair's draft (model)"
    unused = "; the pair's draft is not used" if request.pair.draft is not None else ""
    return f"drafter: prompt lookup (ngram{unused})"


def _measure(request: Request, outcome: Outcome, console: Console) -> None:
    options = request.options
    with console.status("") as status:

        def before_run(number: int) -> None:
            status.update(f"measuring plain and speculative decoding in turn, run {number} of {2 * options.repeats}")

        comparison = compare(
            request.plain(),
            request.engine(),
            request.prompt,
            request.params,
            options.max_new_tokens,
            options.repeats,
            before_run,
        )
    if comparison.speculative:
        outcome.comparison = comparison
    if len(comparison.speculative) < options.repeats:
        raise KeyboardInterrupt


def _assure(request: Request, outcome: Outcome, console: Console) -> Assurance:
    options, comparison, shown = request.options, outcome.comparison, outcome.shown
    if not request.speculates:
        return Assurance("Nothing was drafted: this is plain decoding, with nothing to verify.", None)
    runs = (shown, *comparison.plain, *comparison.speculative) if shown and comparison else ()
    what = (request.prompt, request.params, options.max_new_tokens, runs)
    if request.params.is_greedy:
        with console.status("comparing with plain greedy decoding"):
            return greedy_assurance(request.engine(), *what)
    if options.rule in SAME_TEXT:
        with console.status("comparing with plain decoding at the same seed"):
            return match_assurance(request.plain(), request.engine(), *what)
    quick = QuickSettings.near(request.params, options.gamma)
    engine, oracle = certifiable(
        request.pair,
        drafter=request.drafter,
        draft_temperature=options.draft_temperature,
        rule=options.rule,
        gamma=quick.gamma,
        prompt_length=len(request.prompt),
    )
    with console.status("certifying: many short runs against the exact law"):
        return stochastic_assurance(engine, oracle, request.prompt, quick, options.seed)


def _report(request: Request, outcome: Outcome, console: Console, *, interrupted: bool) -> None:
    shown = outcome.shown
    if shown is not None and shown.emitted:
        reason = {"stop": "the model ended its text", "length": "the limit on new tokens"}
        ended = reason.get(str(shown.finish_reason), "interrupted")
        count = f"{len(shown.emitted)} token{'' if len(shown.emitted) == 1 else 's'}"
        console.print(f"\n{count}; end: {ended}", style="dim")
        console.print(demo_table(shown, outcome.comparison, speculates=request.speculates))
        for finding in () if outcome.comparison is None else outcome.comparison.findings:
            console.print(f"REFUSED {finding}", style="bold magenta")
        console.print(left_out(shown), style="dim")
        console.print(measured_on(shown), style="dim")
        if request.pair.name == "toy":
            console.print("toy models: these are speeds of Python, not of a language model", style="dim")
    if outcome.assurance is not None:
        failed = outcome.assurance.holds is False
        console.print(f"\n{outcome.assurance.sentence}", style="bold magenta" if failed else "bold")
    if interrupted:
        console.print("interrupted: the above is what there is", style="bold")
    if request.options.json is not None and shown is not None:
        _save(request, outcome)
        console.print(f"trace written to {request.options.json}", style="dim")
    if request.is_example and request.drafter == "ngram" and not interrupted:
        console.print(_HINT, style="dim")


def _save(request: Request, outcome: Outcome) -> None:
    trace, path = outcome.shown, request.options.json
    if trace is None or path is None:
        return
    trace.settings["pair"] = request.pair.name
    if outcome.comparison is not None:
        trace.settings["comparison"] = outcome.comparison.to_dict()
    if outcome.assurance is not None:
        trace.settings["assurance"] = outcome.assurance.sentence
    save_trace(trace, path, request.pair.tokenizer)
