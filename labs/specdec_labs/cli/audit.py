"""`specdec audit ...`: are other people's samplers exact? Exit code 1 when a law is rejected or n is too small."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from specdec_labs.audit.subject import Finding, audit
from specdec_labs.audit.subject import Progress as Report
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_at_least_one, check_output

VLLM_FOLDER = Path("work") / "audit-vllm"


def run_transformers(only: Sequence[str], samples: int | None, seed: int, json: Path | None, console: Console) -> int:
    """0 when every law is found right by an audit that could have seen the bias, else 1.

    Raises:
        ValueError: options that cannot be used; nothing has been written then.
    """
    from specdec_labs.audit import transformers_audit

    _check(samples, json)
    findings: list[Finding] = []
    with _kept(findings, console), _bar(console) as report:
        for subject in transformers_audit.subjects(only):
            findings.append(audit(subject, n=samples, seed=seed, progress=report))
            _say(findings[-1], console)
    return _close(findings, json, _command("transformers", samples, seed, only=only), console)


def run_flashinfer(samples: int | None, seed: int, json: Path | None, console: Console) -> int:
    """As `run_transformers`, for FlashInfer."""
    from specdec_labs.audit import flashinfer_audit

    _check(samples, json)
    findings: list[Finding] = []
    with _kept(findings, console), _bar(console) as report:
        for subject in flashinfer_audit.subjects():
            findings.append(audit(subject, n=samples, seed=seed, batch=256, progress=report))
            _say(findings[-1], console)
    return _close(findings, json, _command("flashinfer", samples, seed), console)


def run_vllm(
    python: Path | None,
    wheel: Path | None,
    pairs: Sequence[str],
    keep: Path | None,
    samples: int,
    seed: int,
    json: Path | None,
    console: Console,
) -> int:
    """As `run_transformers`, for vLLM's kernels; what has been sampled stays in `keep` and is used again."""
    from specdec_labs.audit import vllm_audit

    _check(samples, json)
    interpreter = vllm_audit.find_python(python, wheel)
    # samples of one version are none of another
    folder = keep or (VLLM_FOLDER if wheel is None else VLLM_FOLDER / wheel.name)
    findings: list[Finding] = []
    with _kept(findings, console), _bar(console) as report:
        for case in vllm_audit.cases(pairs or vllm_audit.DEFAULT_PAIRS):
            with vllm_audit.subject(case, interpreter, folder, seed, wheel) as subject:
                findings.append(audit(subject, n=samples, seed=seed, progress=report))
            _say(findings[-1], console)
    wheels = [] if wheel is None else [wheel.name]
    return _close(findings, json, _command("vllm", samples, seed, wheel=wheels, pair=pairs), console)


def run_position_keys(samples: int, seed: int, json: Path | None, console: Console) -> int:
    """0; the table of `specdec_labs.audit.position_keys` on two pairs, with what is exact beside what is sampled."""
    from specdec_labs.audit.ablation import ablation

    _check(samples, json)
    rows = ablation(samples, seed)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("pair", "rule", "keyed", "TV", "noise TV", "exact TV", "P(2nd 0)"):
        table.add_column(heading, justify="left" if heading in ("pair", "rule", "keyed") else "right")
    for row in rows:
        exact = "" if row.exact_tv is None else f"{row.exact_tv}"
        figures = (f"{row.tv:.4f}", f"{row.noise_tv:.4f}", exact, f"{row.second_token_zero:.4f}")
        table.add_row(row.pair, row.rule, "both" if len(row.keyed) > 1 else "".join(row.keyed) or "nothing", *figures)
    console.print("distance from the target's law over 5 tokens, by the noise that positions key")
    console.print(table)
    console.print(f"{samples:,} requests each; noise TV: what a perfect sampler shows on average", style="dim")
    _write(
        json,
        f"position-keys --samples {samples} --seed {seed}",
        {"rows": [row.to_dict() for row in rows], "samples": samples, "seed": seed},
        console,
    )
    return 0


def _command(name: str, samples: int | None, seed: int, **several: Sequence[str]) -> str:
    chosen = [f"--{option} {value}" for option, values in several.items() for value in values]
    return " ".join([name, *chosen, *([] if samples is None else [f"--samples {samples}"]), f"--seed {seed}"])


def _check(samples: int | None, json: Path | None) -> None:
    check_at_least_one("samples", samples)
    check_output(json)


@contextmanager
def _kept(findings: list[Finding], console: Console) -> Iterator[None]:
    """After Ctrl-C, says what is known already."""
    try:
        yield
    except KeyboardInterrupt:
        known = {0: "no verdict yet", 1: "1 verdict so far, see above"}
        so_far = known.get(len(findings), f"{len(findings)} verdicts so far, see above")
        console.print(f"{so_far}; no file is written")
        raise


@contextmanager
def _bar(console: Console) -> Iterator[Report]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield report


def _say(finding: Finding, console: Console) -> None:
    certificate = finding.certificate
    console.print(f"{finding.name}: {finding.about}")
    console.print(f"  {certificate.sentence}", style="bold" if certificate.passed else "bold magenta")


def _close(findings: Sequence[Finding], json: Path | None, command: str, console: Console) -> int:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("audit", "n", "power", "p", "TV", "noise TV"):
        table.add_column(heading, justify="left" if heading == "audit" else "right", no_wrap=True)
    table.caption = "TV: largest distance of a test; noise TV: a perfect sampler's, on average"
    for finding in findings:
        certificate = finding.certificate
        worst = max(certificate.tests, key=lambda test: test.fit.tv)
        figures = (f"{certificate.n}", f"{certificate.power:.3f}", f"{certificate.p_value:.2g}")
        distances = (f"{worst.fit.tv:.3f}", f"{worst.noise_tv:.3f}")
        table.add_row(finding.name, *figures, *distances)
    console.print(table)
    _write(json, command, {"findings": [finding.to_dict() for finding in findings]}, console)
    return 0 if all(finding.certificate.passed for finding in findings) else 1


def _write(json: Path | None, command: str, data: dict[str, Any], console: Console) -> None:
    """The file says how to repeat the run; folders and the like of this machine are left out."""
    if json is not None:
        write_json(json, {"command": f"specdec audit {command}", **data})
        console.print(f"written to {json}", style="dim")
