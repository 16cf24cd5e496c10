"""The tables of `specdec bench speedup`."""

from rich import box
from rich.console import Console
from rich.table import Table

from specdec_core.cost_curve import CostCurve
from specdec_labs.bench.report import SpeedupReport
from specdec_labs.impossible import REFUSED, exit_code, needed, rate_problem, steps

_BUSY_SHARE, _DISTURBED = 0.9, 0.2


def print_report(report: SpeedupReport, console: Console) -> int:
    """Cost curve, speed-ups, break-even table, the machine, and last the error of the prediction.

    1 when figures were refused, which is said before that line; else 0.
    """
    console.print(curve_table(report.curve))
    console.print(_speedups(report))
    console.print(_break_even(report))
    facts = report.curve.hardware
    console.print(
        f"{report.prompts_run} prompts x temperatures, {report.settings['tokens']} tokens each; "
        f"{facts.get('threads')} thread(s) on {facts.get('processor')}, {facts.get('cores')} cores, "
        f"torch {facts.get('torch')}, {facts.get('date')}",
        style="dim",
    )
    warning = busy_warning(report)
    if warning:
        console.print(warning, style="bold magenta")
    code = exit_code(report.findings, console)
    # one line whatever the width: scripts read it
    console.print(report.last_line, soft_wrap=True)
    return code


def busy_warning(report: SpeedupReport) -> str | None:
    """What to say when the machine did something else; None when it did not."""
    if report.settings["device"] != "cpu":
        return None
    share = report.settings["processor_share"]
    disturbed = max(row.disturbed for row in report.rows)
    if share >= _BUSY_SHARE and disturbed <= _DISTURBED:
        return None
    return (
        f"the machine was busy: the process had {share:.2f} processors in its best rounds, and up to "
        f"{100 * disturbed:.0f} % of an arm's rounds had to wait for one - measure again on an idle machine"
    )


def curve_table(curve: CostCurve) -> Table:
    """Milliseconds of a pass by rows, a column a context, and the cost in single steps."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"{curve.model}: rows", justify="right")
    for held in curve.contexts:
        table.add_column(f"{held} cached, min ms", justify="right")
        table.add_column("median ms", justify="right")
        table.add_column("in steps", justify="right")
    for place, rows in enumerate(curve.rows):
        cells = [str(rows)]
        for level, held in enumerate(curve.contexts):
            cells += [
                f"{1e3 * curve.min_s[level][place]:.2f}",
                f"{1e3 * curve.median_s[level][place]:.2f}",
                steps(curve, rows, held),
            ]
        table.add_row(*cells)
    table.caption = f"{curve.kind}; {100 * curve.disturbed:.0f} % of the passes were disturbed and left out"
    return table


def _speedups(report: SpeedupReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = ("task", "T", "drafter", "gamma", "tokens/round", "measured", "90 % of prompts", "predicted")
    for heading in (*headings, "measured / predicted", "formula", ""):
        table.add_column(heading, justify="left" if heading in ("task", "drafter", "") else "right")
    for row in report.rows:
        judged, predicted = report.judged(row), report.predictions(row)
        ratios = zip(row.ratios, predicted)
        is_slower = not judged.problem and row.speedup < 1
        table.add_row(
            row.cell.task,
            f"{row.cell.temperature:g}",
            row.arm.drafter,
            str(row.arm.gamma),
            f"{row.tokens_per_round:.2f}",
            judged.shown,
            judged.interval,
            " ".join(each.shown for each in predicted),
            " ".join("-" if judged.problem or each.problem else f"{ratio:.2f}" for ratio, each in ratios),
            REFUSED if judged.baseline or rate_problem("alpha", row.alpha) else f"{row.formula:.2f}x",
            "slower than plain" if is_slower else "",
            style="magenta" if is_slower or judged.problem else None,
        )
    table.caption = (
        "predicted: each half of the prompts from the other half; formula: the textbook's, a verify pass costs one "
        "step and the host nothing"
    )
    return table


def _break_even(report: SpeedupReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = ("gamma", "needed to break even", "drafting", "verifying", "host", "tokens/round measured")
    table.add_column("drafter")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in report.break_even:
        is_sound = needed(row.needed, report.curve) != REFUSED
        spread = f"{row.lowest:.2f}" if row.lowest == row.highest else f"{row.lowest:.2f}..{row.highest:.2f}"
        table.add_row(
            row.arm.drafter,
            str(row.arm.gamma),
            needed(row.needed, report.curve),
            *(f"{part:.2f}" if is_sound else "-" for part in (row.draft, row.verify, row.host)),
            spread,
        )
    table.caption = "in plain steps, for rounds with all gamma drafts; shorter rounds need less"
    return table
