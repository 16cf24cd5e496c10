"""`specdec bench curve`: what a pass of target and draft costs by rows and context, and what drafting costs."""

from collections.abc import Mapping, Sequence
import csv
from dataclasses import dataclass, field
import io
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
import torch

from specdec_core.cost_curve import CONTEXTS, ROWS, CostCurve
from specdec_core.models.pairs import Pair
from specdec_core.models.protocol import LanguageModel
from specdec_core.whole_file import write_whole
from specdec_labs.bench.drafters import Factory, check_drafter_name, default_drafters, drafter_factory
from specdec_labs.bench.drafting import DraftingCost, drafting_costs
from specdec_labs.bench.grid import MIXED, pair_prompts
from specdec_labs.cli.bench_speedup_tables import curve_table
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_at_least_one, check_output, choose_pair, open_pair, use_threads
from specdec_labs.impossible import Finding, curve_problem, exit_code, findings_of, needed, unscaled_rows
from specdec_labs.plots.png import check_png, write_png

_PROMPTS, _ALONE = 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchCurveOptions:
    """The options of `specdec bench curve`, as its help describes them."""

    pair: str | None = None
    drafter: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    context: list[int] = field(default_factory=list)
    gamma: list[int] = field(default_factory=list)
    tokens: int = 24
    repeats: int = 7
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
    json: Path | None = None
    csv: Path | None = None
    html: Path | None = None
    png: Path | None = None


def run_bench_curve(options: BenchCurveOptions, console: Console) -> int:
    """0 after the curves and prices are shown and the files written; 1 when figures were refused as impossible.

    With several threads the target is timed with one thread too, and rows that gain nothing from the others are named.

    Raises:
        ValueError: options that cannot be used.
    """
    _check(options)
    name = choose_pair(options.pair, console)
    use_threads(options.threads)
    pair = open_pair(name, options.device, options.dtype, console)
    names = tuple(dict.fromkeys(options.drafter)) or default_drafters(pair)
    factories = {each: drafter_factory(each, pair) for each in names}
    gammas = sorted(set(options.gamma)) or [1, 2, 4, 8]
    rows = sorted({*(options.rows or ROWS), 1, *(gamma + 1 for gamma in gammas)})
    contexts = sorted(set(options.context or CONTEXTS))
    curves = [
        _measured(label, model, rows, contexts, options.repeats, console) for label, model in _models(pair, factories)
    ]
    with console.status("drafting and host costs"):
        prompts = pair_prompts(pair, MIXED, options.tokens)[:_PROMPTS]
        costs = drafting_costs(pair.target, factories, gammas, prompts, curves[0], tokens=options.tokens)
    for curve in curves:
        console.print(curve_table(curve))
    console.print(_costs(costs, curves[0]))
    unscaled = _unscaled(pair.target, curves[0], console)
    if unscaled:
        console.print(said_of_threads(unscaled, curves[0]), style="bold magenta")
    console.print(_machine(curves[0]), style="dim")
    code = exit_code(curve_findings(curves, costs), console)
    _write(options, pair, curves, costs, unscaled, console)
    return code


def curve_findings(curves: Sequence[CostCurve], costs: Sequence[DraftingCost]) -> list[Finding]:
    """What cannot be. Where the target's curve is wrong so are all the prices, and they are not listed again."""
    findings = findings_of({curve.model: curve_problem(curve) for curve in curves})
    if curve_problem(curves[0]):
        return findings
    return findings + findings_of({f"{cost.drafter}, K = {cost.gamma}": cost.problem(curves[0]) for cost in costs})


def said_of_threads(rows: Sequence[int], curve: CostCurve) -> str:
    """The sentence on rows that do not scale."""
    few = rows if len(rows) < len(curve.rows) else ["all"]
    return (
        f"passes over {', '.join(map(str, few))} rows do not scale with threads: {curve.hardware['threads']} threads "
        "are no faster than one there"
    )


def _unscaled(model: LanguageModel, curve: CostCurve, console: Console) -> list[int]:
    """Rows whose pass is no faster with torch's threads than with one; a short sweep at one context."""
    threads = torch.get_num_threads()
    if threads == 1 or model.device.type != "cpu":
        return []
    with console.status(f"the same with one thread instead of {threads}"):
        torch.set_num_threads(1)
        try:
            alone = CostCurve.measure(model, curve.rows, curve.contexts[:1], repeats=_ALONE, name=curve.model)
        finally:
            torch.set_num_threads(threads)
    return unscaled_rows(curve, alone)


def _check(options: BenchCurveOptions) -> None:
    for path in (options.json, options.csv, options.html, options.png):
        check_output(path)
    check_png(options.png)
    for label in ("threads", "repeats"):
        check_at_least_one(label, getattr(options, label))
    for label in ("rows", "gamma"):
        for value in getattr(options, label):
            check_at_least_one(label, value)
    for name in options.drafter:
        check_drafter_name(name)


def _models(pair: Pair, factories: Mapping[str, Factory]) -> list[tuple[str, LanguageModel]]:
    """The target and the models of those drafters that run one."""
    found: list[tuple[str, LanguageModel]] = [(f"{pair.name}: target", pair.target)]
    for name, factory in factories.items():
        model = getattr(factory(), "model", None)
        if model is not None:
            found.append((f"{pair.name}: {name}", model))
    return found


def _measured(
    label: str, model: LanguageModel, rows: Sequence[int], contexts: Sequence[int], repeats: int, console: Console
) -> CostCurve:
    with console.status("") as status:
        return CostCurve.measure(
            model,
            rows,
            contexts,
            repeats=repeats,
            name=label,
            progress=lambda done, of: status.update(f"{label}: sweep {done} of {of}"),
        )


def _costs(costs: Sequence[DraftingCost], curve: CostCurve) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = ("K", "full rounds", "drafting ms", "verify ms", "host ms", "plain step ms", "tokens needed")
    table.add_column("drafter")
    for heading in headings:
        table.add_column(heading, justify="right")
    for cost in costs:
        times = (cost.draft_s, cost.verify_s, cost.host_s, cost.plain_s)
        table.add_row(
            cost.drafter,
            str(cost.gamma),
            str(cost.rounds) if cost.rounds else "none",
            *(f"{1e3 * seconds:.2f}" for seconds in times),
            needed(cost.needed, curve, cost.problem(curve)),
        )
    table.caption = "tokens needed: a round that emits fewer is slower than plain decoding"
    return table


def _machine(curve: CostCurve) -> str:
    facts = curve.hardware
    return (
        f"{facts['threads']} thread(s) on {facts['processor']}, {facts['cores']} cores, {facts['dtype']}, "
        f"torch {facts['torch']}, {facts['date']}; order changed from repeat to repeat"
    )


def _write(
    options: BenchCurveOptions,
    pair: Pair,
    curves: Sequence[CostCurve],
    costs: Sequence[DraftingCost],
    unscaled: Sequence[int],
    console: Console,
) -> None:
    if options.json is not None:
        write_json(options.json, {**curve_data(pair.name, curves, costs), "unscaled_rows": list(unscaled)})
    if options.csv is not None:
        write_whole(options.csv, curve_csv(curves))
    if options.html is not None:
        from specdec_labs.plots.cost_curve import curves_html

        write_whole(options.html, curves_html(curves))
    if options.png is not None:
        from specdec_labs.plots.cost_curve import curves_figure

        write_png(options.png, curves_figure(curves))
    for path in (options.json, options.csv, options.html, options.png):
        if path is not None:
            console.print(f"written to {path}", style="dim")


def curve_data(pair: str, curves: Sequence[CostCurve], costs: Sequence[DraftingCost]) -> dict[str, Any]:
    """Plain data: the curves (`CostCurve.from_dict` reads each), the prices of drafting, and what cannot be."""
    return {
        "pair": pair,
        "curves": [curve.to_dict() for curve in curves],
        "drafting": [cost.to_dict() for cost in costs],
        "findings": [finding.to_dict() for finding in curve_findings(curves, costs)],
    }


def curve_csv(curves: Sequence[CostCurve]) -> str:
    """One line a model, context and number of rows."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("model", "kind", "context", "rows", "min_s", "median_s"))
    for curve in curves:
        for held, least, middle in zip(curve.contexts, curve.min_s, curve.median_s):
            for rows, low, mid in zip(curve.rows, least, middle):
                writer.writerow((curve.model, curve.kind, held, rows, low, mid))
    return text.getvalue()
