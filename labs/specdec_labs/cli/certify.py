"""`specdec certify`: is the output the target's law? Exit code 1 when it is not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from specdec_core.certify import Certificate, PositionTest, certify
from specdec_core.certify import Progress as ReportProgress
from specdec_core.engine import Engine
from specdec_core.memo import MemoisedModel
from specdec_core.models.pairs import Pair
from specdec_core.models.protocol import LanguageModel
from specdec_core.warp import SamplingParams
from specdec_labs.cli.bad_input import INTERRUPTED
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import (
    check_at_least_one,
    check_drafting,
    check_output,
    choose_pair,
    make_drafter,
    open_pair,
    prompt_ids,
    read_prompt,
    use_threads,
)

# the toy pair's logits are 30 apart; at a temperature near 1 its law has one continuation and nothing to test
DEFAULT_TEMPERATURE = {"toy": 10.0}
_BEHIND_DRAFT = 8  # tokens under test beyond the prompt and gamma, with some to spare


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyOptions:
    """The options of `specdec certify`, as its help describes them."""

    pair: str | None = None
    prompt: str | None = None
    file: str | None = None
    drafter: str = "model"
    draft_temperature: float | None = None
    rule: str = "chain"
    gamma: int = 1
    temperature: float | None = None
    top_k: int = 8
    top_p: float = 1.0
    n: int | None = None
    bias: float = 0.06
    power: float = 0.99
    sequential: bool = False
    seed: int = 0
    memo: bool = True
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
    json: Path | None = None
    plot: Path | None = None


def run_certify(options: CertifyOptions, console: Console) -> int:
    """0 when the certificate passes, 1 when it fails or gives no verdict, 130 after Ctrl-C.

    Raises:
        ValueError: options that cannot be used; nothing has been written then.
    """
    text = read_prompt(options.prompt, options.file)
    check_output(options.json)
    check_output(options.plot)
    if options.plot is not None and options.plot == options.json:
        raise ValueError(f"--plot and --json both name {str(options.plot)!r}; give each a file of its own")
    check_at_least_one("threads", options.threads)
    check_drafting(options.drafter, options.draft_temperature, options.gamma, options.rule)
    name = choose_pair(options.pair, console)
    temperature = DEFAULT_TEMPERATURE.get(name, 1.0) if options.temperature is None else options.temperature
    params = SamplingParams(temperature=temperature, top_k=options.top_k, top_p=options.top_p)
    use_threads(options.threads)
    pair = open_pair(name, options.device, options.dtype, console)
    _, prompt = prompt_ids(pair, text)
    engine, oracle = certifiable(
        pair,
        drafter=options.drafter,
        draft_temperature=options.draft_temperature,
        rule=options.rule,
        gamma=options.gamma,
        prompt_length=len(prompt),
        memo=options.memo,
    )
    certificate = _certify(engine, oracle, prompt, params, options, console)
    if certificate is None:
        return INTERRUPTED
    _show(certificate, memo=options.memo, console=console)
    _write(certificate, options, pair.name, console)
    return 0 if certificate.passed else 1


def _certify(
    engine: Engine,
    oracle: MemoisedModel,
    prompt: Sequence[int],
    params: SamplingParams,
    options: CertifyOptions,
    console: Console,
) -> Certificate | None:
    """The certificate; None after Ctrl-C, which says how far it came."""
    done = [0]
    try:
        with _progress(console, done) as progress:
            return certify(
                engine,
                prompt,
                params,
                gamma=options.gamma,
                n=options.n,
                bias=options.bias,
                wanted_power=options.power,
                sequential=options.sequential,
                seed=options.seed,
                oracle=oracle,
                progress=progress,
            )
    except KeyboardInterrupt:
        console.print(f"interrupted after {done[0]} samples: no verdict")
        return None


def certifiable(
    pair: Pair,
    *,
    drafter: str,
    draft_temperature: float | None,
    rule: str,
    gamma: int,
    prompt_length: int,
    memo: bool = True,
) -> tuple[Engine, MemoisedModel]:
    """The engine to certify, and the target behind a memo as the source of exact laws.

    With `memo` the engine reads target and draft through memos too, which makes samples cheap.
    """
    longest = prompt_length + gamma + _BEHIND_DRAFT

    def remembered(model: LanguageModel) -> MemoisedModel:
        return MemoisedModel(model, capacity=longest)

    oracle = remembered(pair.target)
    needs_draft = memo and drafter == "model" and pair.draft is not None
    draft = remembered(pair.draft) if needs_draft and pair.draft is not None else None
    chosen = make_drafter(drafter, pair, temperature=draft_temperature, draft=draft)
    return Engine(oracle if memo else pair.target, chosen, rule, gamma), oracle


@contextmanager
def _progress(console: Console, done: list[int]) -> Iterator[ReportProgress]:
    """A bar on a terminal; `done[0]` follows the samples."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("exact laws of the target", total=None)

        def report(finished: int, total: int) -> None:
            done[0] = finished
            bar.update(task, description="samples of the engine", completed=finished, total=total)

        yield report


def _write(certificate: Certificate, options: CertifyOptions, pair: str, console: Console) -> None:
    if options.json is not None:
        write_json(options.json, {**certificate.to_dict(), "pair": pair, "memo": options.memo})
        console.print(f"written to {options.json}", style="dim")
    if options.plot is not None:
        from specdec_labs.plots.certificate import write_certificate_html

        write_certificate_html(options.plot, certificate)
        console.print(f"drawn in {options.plot}", style="dim")


def _digest(certificate: Certificate) -> list[tuple[str, PositionTest]]:
    """All tests of texts; of each other kind the one with most evidence against the law, and of how many it is."""
    rows = [(test.label, test) for test in certificate.tests if test.kind == "text"]
    kinds: dict[tuple[str, int], list[PositionTest]] = {}
    for test in certificate.tests:
        if test.kind != "text":
            kinds.setdefault((test.kind, len(test.positions)), []).append(test)
    for own in kinds.values():
        worst = max(own, key=lambda test: test.e_value or 0.0) if certificate.mode == "sequential" else None
        worst = worst or min(own, key=lambda test: test.fit.p_value)
        rows.append((f"{worst.label} (worst of {len(own)})", worst))
    return rows


def _show(certificate: Certificate, *, memo: bool, console: Console) -> None:
    sequential = certificate.mode == "sequential"
    table = Table(box=box.SIMPLE_HEAD)
    # a p-value of a test that was looked at all the time would not mean what it says
    for heading in (
        "joint law of",
        "cells",
        "chi2",
        "df",
        "e" if sequential else "p",
        "TV",
        "perfect TV",
        "TV at most",
    ):
        table.add_column(heading, justify="right")
    for label, test in _digest(certificate):
        found = test.fit
        evidence = test.e_value if sequential else found.p_value
        distances = (f"{found.tv:.3f}", f"{test.noise_tv:.3f}", f"{found.tv_upper:.3f}")
        numbers = (f"{test.cells}", f"{found.chi_square:.1f}", f"{found.degrees}", f"{evidence:.2g}")
        table.add_row(label, *numbers, *distances)
    console.print(table)
    console.print(
        "u: the noise a text must have read, uniform under the law; of its tests the worst of each kind", style="dim"
    )
    console.print("perfect TV: what a perfect sampler shows on average with so many samples", style="dim")
    console.print(certificate.reading, style="dim")
    if sequential:
        console.print(
            f"stopped after {certificate.n} of at most {certificate.n_planned} samples; largest mean e-value "
            f"{certificate.e_value:.3g}, {1 / certificate.level:g} rejects"
        )
    seen = ", ".join(
        f"{count} {kind.replace('_', ' ')}" for kind, count in sorted((certificate.coverage or {}).items())
    )
    console.print(f"rounds seen: {seen}")
    if memo:
        console.print(
            "logits remembered by prefix; --no-memo also exercises the models' own caches (slow)", style="dim"
        )
    console.print(f"{certificate.sentence}", style="bold" if certificate.passed else "bold magenta")
