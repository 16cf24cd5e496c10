"""`specdec bench speedup`: speed-ups by drafter, gamma, task and temperature, measured and predicted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
import time
from typing import Any

from rich.console import Console
import torch

from specdec_core.cost_curve import CostCurve, CurveMeter
from specdec_core.models.pairs import Pair
from specdec_core.warp import SamplingParams
from specdec_core.whole_file import write_whole
from specdec_labs.bench.arms import processor_share
from specdec_labs.bench.drafters import Factory, check_drafter_name, default_drafters, drafter_factory
from specdec_labs.bench.grid import HALVES, MIXED, Cell, CellRun, Grid, check_task, pair_prompts, run_grid
from specdec_labs.bench.points import Clock, speedup_points
from specdec_labs.bench.report import SpeedupReport
from specdec_labs.bench.rows import break_even_rows, speedup_rows
from specdec_labs.cli.bench_speedup_tables import print_report
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_at_least_one, check_output, choose_pair, open_pair, use_threads
from specdec_labs.plots.png import check_png, write_png

QUICK_SECONDS = 50.0
_QUICK_SPARE = 6.0
"""Seconds of a quick run kept for loading and printing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSpeedupOptions:
    """The options of `specdec bench speedup`, as its help describes them; None is the default of full or quick runs."""

    pair: str | None = None
    drafter: list[str] = field(default_factory=list)
    gamma: list[int] = field(default_factory=list)
    task: list[str] = field(default_factory=list)
    temperature: list[float] = field(default_factory=list)
    tokens: int | None = None
    prompts: int = 18
    minutes: float = 5.0
    repeats: int | None = None
    quick: bool = False
    seed: int = 0
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
    json: Path | None = None
    csv: Path | None = None
    html: Path | None = None
    png: Path | None = None


def run_bench_speedup(options: BenchSpeedupOptions, console: Console) -> int:
    """0 after the tables are shown and the files are written; the last line is the error of the prediction.

    1 when figures were refused because they cannot be: what is wrong is said in their place and in the files.

    Ctrl-C ends the measurement: what was finished is reported.

    Raises:
        ValueError: options that cannot be used, or nothing measured.
    """
    start = time.monotonic()
    _check(options)
    name = choose_pair(options.pair, console)
    use_threads(options.threads)
    pair = open_pair(name, options.device, options.dtype, console)
    names = tuple(dict.fromkeys(options.drafter)) or (("ngram",) if options.quick else default_drafters(pair))
    factories = {each: drafter_factory(each, pair) for each in names}
    grid = _grid(options, names, start)
    meter = _meter(options, pair, grid, console)
    grid = _grid(options, names, start)
    runs = _measure(grid, pair, factories, meter, console)
    settings = {"threads": torch.get_num_threads(), "quick": options.quick}
    report = make_report(pair, grid, meter.curve(), runs, settings)
    _write(options, report, console)
    return print_report(report, console)


def make_report(
    pair: Pair, grid: Grid, curve: CostCurve, runs: list[CellRun], settings: Mapping[str, Any]
) -> SpeedupReport:
    """Points, rows and the break-even table of finished runs.

    Raises:
        ValueError: not one arm with rounds in both halves.
    """
    everything = [entry for run in runs for entry in run.runs]
    clock = Clock(pair.target.device.type == "cpu")
    points = speedup_points(runs, curve, clock)
    if not points:
        raise ValueError("no arm has rounds in both halves of the prompts; give more --tokens or --minutes")
    rows = speedup_rows(runs, points, clock)
    return SpeedupReport(
        pair=pair.name,
        settings={
            **settings,
            "drafters": list(grid.drafters),
            "gammas": list(grid.gammas),
            "tokens": grid.tokens,
            "seed": grid.seed,
            "device": str(pair.target.device),
            "dtype": str(pair.target.dtype).removeprefix("torch."),
            "processor_share": processor_share(everything),
        },
        points=tuple(points),
        rows=tuple(rows),
        break_even=tuple(break_even_rows(runs, rows, curve, clock)),
        curve=curve,
        prompts_run=len(runs),
    )


def _check(options: BenchSpeedupOptions) -> None:
    for path in (options.json, options.csv, options.html, options.png):
        check_output(path)
    check_png(options.png)
    for label in ("threads", "repeats"):
        check_at_least_one(label, getattr(options, label))
    if not options.minutes > 0:
        raise ValueError(f"minutes is {options.minutes}; expected more than 0")
    for name in options.drafter:
        check_drafter_name(name)
    for task in options.task:
        check_task(task)
    for temperature in options.temperature:
        SamplingParams(temperature=temperature)
    _grid(options, tuple(options.drafter), time.monotonic())


def _grid(options: BenchSpeedupOptions, drafters: tuple[str, ...], start: float) -> Grid:
    """The grid, with the time that is left of the run."""
    tasks = tuple(options.task) or (MIXED,)
    temperatures = tuple(options.temperature) or ((0.0,) if options.quick else (0.0, 1.0))
    limit = QUICK_SECONDS - _QUICK_SPARE if options.quick else 60 * options.minutes
    return Grid(
        drafters=drafters,
        gammas=tuple(sorted(set(options.gamma))) or ((2, 4) if options.quick else (1, 2, 4, 8)),
        cells=tuple(Cell(task, temperature) for task in tasks for temperature in temperatures),
        tokens=options.tokens or (20 if options.quick else 24),
        prompts=options.prompts,
        seconds=max(0.0, limit - (time.monotonic() - start)),
        seed=options.seed,
    )


def _meter(options: BenchSpeedupOptions, pair: Pair, grid: Grid, console: Console) -> CurveMeter:
    """For the target's cost curve over the rows and contexts of the grid; the first sweeps are made."""
    lengths = [len(ids) for cell in grid.cells for ids in pair_prompts(pair, cell.task, grid.tokens)[: grid.prompts]]
    most = max(grid.gammas) + 1
    contexts = sorted({min(lengths), min(max(lengths) + grid.tokens, pair.target.max_length - most)})
    if options.quick:
        rows = sorted({1, 2, *(gamma + 1 for gamma in grid.gammas)})
    else:
        rows = sorted({*range(1, min(most, 9) + 1), *(gamma + 1 for gamma in grid.gammas)})
    repeats = options.repeats or 2
    meter = CurveMeter(pair.target, rows, contexts, name=pair.name)
    with console.status("") as status:
        for done in range(repeats):
            status.update(f"cost curve: sweep {done + 1} of {repeats}")
            meter.sweep()
    return meter


def _measure(
    grid: Grid, pair: Pair, factories: Mapping[str, Factory], meter: CurveMeter, console: Console
) -> list[CellRun]:
    """The runs; sweeps of the cost curve stand between them, so that it sees the machine as the runs do."""
    runs: list[CellRun] = []
    with console.status("") as status:

        def show(cell: Cell, place: int, left: float) -> None:
            status.update(
                f"{cell.task}, T = {cell.temperature:g}, prompt {place + 1}: {len(grid.arms)} arms, {left:.0f} s left"
            )
            # one for both halves
            if place % HALVES == 0:
                meter.sweep()

        try:
            run_grid(grid, pair, factories, show, runs)
        except KeyboardInterrupt:
            console.print("stopped; this is what was measured so far")
    return runs


def _write(options: BenchSpeedupOptions, report: SpeedupReport, console: Console) -> None:
    if options.json is not None:
        write_json(options.json, report.to_dict())
        console.print(f"written to {options.json}", style="dim")
    if options.csv is not None:
        write_whole(options.csv, report.to_csv())
        console.print(f"written to {options.csv}", style="dim")
    if options.html is not None:
        from specdec_labs.plots.speedup import speedup_html

        write_whole(options.html, speedup_html(report))
        console.print(f"written to {options.html}", style="dim")
    if options.png is not None:
        from specdec_labs.plots.speedup import speedup_figure, speedup_view

        write_png(options.png, speedup_figure(speedup_view(report)))
        console.print(f"written to {options.png}", style="dim")
