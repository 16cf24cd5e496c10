"""`specdec audit kernels`: the law of our Triton kernels and of mutants of them, by their own random numbers."""

from collections.abc import Sequence
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_labs.cli.bad_input import explained

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@explained
def audit_kernels(
    only: Annotated[list[str] | None, typer.Option("--only", help="A kernel or mutant. Default: all of them.")] = None,
    samples: Annotated[int | None, typer.Option("--samples", help="Samples of each. Default: for power 0.99.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all noise.")] = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Write the findings to this file.")] = None,
    plain_text: Annotated[bool, typer.Option("--plain-text", help="No colour and no moving lines.")] = False,
) -> None:
    """Certify our own Triton kernels, interpreted, by their own random numbers; mutants of them must be rejected."""
    from rich.console import Console

    console = Console(force_terminal=False if plain_text else None, highlight=False, markup=False, emoji=False)
    raise typer.Exit(run_kernels(only or (), samples, seed, json, console))


def run_kernels(only: Sequence[str], samples: int | None, seed: int, json: Path | None, console: "Console") -> int:
    """0 when every kernel has the target's law and every mutant is rejected, else 1.

    Raises:
        ValueError: options that cannot be used, or no Triton; nothing has been written then.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from specdec_labs.cli.json_file import write_json
    from specdec_labs.cli.setting_up import check_at_least_one, check_output, use_threads

    check_at_least_one("samples", samples)
    check_output(json)
    # read when a kernel is decorated, so before the first import of one
    os.environ.setdefault("TRITON_INTERPRET", "1")
    from specdec_labs.kernel_law.certified import Finding, certified, chosen

    use_threads(1)
    findings: list[Finding] = []
    subjects = chosen(only)
    try:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("starting", total=len(subjects))
            for subject in subjects:
                bar.update(task, description=subject.name)
                findings.append(certified(subject, n=samples, seed=seed))
                bar.update(task, advance=1)
    except KeyboardInterrupt:
        console.print(f"interrupted after {len(findings)} of {len(subjects)} kernels; no file is written")
        raise
    console.print(_table(findings))
    if json is not None:
        write_json(json, {"command": _command(only, samples, seed), "findings": [f.to_dict() for f in findings]})
        console.print(f"written to {json}", style="dim")
    right = sum(finding.is_right for finding in findings)
    console.print(f"{right}/{len(findings)} as they should be", style="bold" if right == len(findings) else "magenta")
    return 0 if right == len(findings) else 1


def _command(only: Sequence[str], samples: int | None, seed: int) -> str:
    options = [*(f"--only {name}" for name in only), *([] if samples is None else [f"--samples {samples}"])]
    return " ".join(["specdec audit kernels", *options, f"--seed {seed}"])


def _table(findings: Sequence[Any]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in ("kernel", "n", "p", "TV (noise)", ""):
        # the name is what --only takes, so it is never cut; the words at the end fold instead
        table.add_column(heading, justify="left" if heading in ("kernel", "") else "right", no_wrap=heading != "")
    for finding in findings:
        certificate = finding.certificate
        worst = max(certificate.tests, key=lambda test: test.fit.tv)
        verdict = {"failed": "rejected"}.get(certificate.verdict, certificate.verdict)
        table.add_row(
            finding.subject.name,
            f"{certificate.n}",
            f"{certificate.p_value:.2g}",
            f"{worst.fit.tv:.3f} ({worst.noise_tv:.3f})",
            verdict if finding.is_right else f"{verdict}: WRONG",
            style=None if finding.is_right else "bold magenta",
        )
    power = min(finding.certificate.power for finding in findings)
    table.caption = f"power at least {power:.3f} against a distance of {findings[0].certificate.bias:g}"
    return table
