"""The demo's table: what happened in the rounds, and the two speeds side by side."""

from collections.abc import Sequence
import statistics

from rich import box
from rich.table import Table

from specdec_core.metrics import Metrics, summarize
from specdec_core.trace import Trace
from specdec_labs.cli.comparison import Comparison, rates
from specdec_labs.impossible import REFUSED, rate_problem

_NONE = "-"


def demo_table(shown: Trace, comparison: Comparison | None, *, speculates: bool) -> Table:
    """Counts of the text that was shown; with a comparison also plain decoding and both speeds."""
    columns = [summarize(shown)]
    if comparison is not None:
        columns.insert(0, summarize(comparison.plain[0]))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", *(["plain"] if comparison is not None else []), "speculative" if speculates else "plain"):
        table.add_column(heading, justify="right" if heading else "left")
    for label, cells in _counts(columns):
        table.add_row(label, *cells)
    if comparison is not None:
        _add_speeds(table, comparison)
    else:
        table.add_row("tokens/s, this one run", _number(columns[0].tokens_per_s))
    return table


def _counts(columns: Sequence[Metrics]) -> list[tuple[str, list[str]]]:
    return [
        ("rounds (target passes)", [str(found.rounds) for found in columns]),
        ("drafted", [str(found.drafted or _NONE) for found in columns]),
        ("accepted", [str(found.accepted) if found.drafted else _NONE for found in columns]),
        ("acceptance rate (of drafted)", [_share(found.acceptance_rate) for found in columns]),
        ("alpha (accepted of tested)", [_share(found.alpha) for found in columns]),
        ("mean acceptance length", [_number(found.mean_acceptance_length) for found in columns]),
    ]


def _add_speeds(table: Table, comparison: Comparison) -> None:
    arms = [rates(comparison.plain), rates(comparison.speculative)]
    ratios = comparison.speedups
    if not ratios:
        return
    table.add_row(f"tokens/s, median of {len(ratios)}", *(f"{statistics.median(arm):.2f}" for arm in arms))
    table.add_row("tokens/s, slowest", *(f"{min(arm):.2f}" for arm in arms))
    judged = comparison.judged
    table.add_row("speed-up, paired, median", "", judged.shown, style="bold magenta" if judged.problem else "bold")
    if judged.interval != _NONE:
        table.add_row("speed-up, smallest..largest", "", f"{judged.interval}x")


def left_out(trace: Trace) -> str:
    """What rounds and speeds leave out: the pass over the prompt, and the drafter's own where it has one."""
    drafter = trace.t_draft_prefill_s
    own = f", and the drafter's own pass over it ({1e3 * drafter:.1f} ms) too" if drafter else ""
    return f"the prompt's pass gives the first token; rounds and speeds leave it out{own}"


def measured_on(trace: Trace) -> str:
    """How the speeds were taken and on what: threads, processor, versions, date."""
    facts, device = trace.hardware, trace.settings.get("device", "cpu")
    machine = facts["gpu"] if device != "cpu" else f"{facts['processor']}, {facts['cores']} cores"
    threads = f"{facts['threads']} thread{'' if facts['threads'] == 1 else 's'}"
    return f"{machine}; {threads}, {trace.settings.get('dtype')}, torch {facts['torch']}, {facts['date']}"


def _share(value: float | None) -> str:
    if rate_problem("a share", value):
        return REFUSED
    return _NONE if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"
