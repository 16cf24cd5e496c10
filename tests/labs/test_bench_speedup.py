"""Speed-up runs on a simulated clock, where the truth is known; the command on the toy pair."""

from collections.abc import Callable, Iterator
import csv
from dataclasses import replace
import json
import random
import time

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from specdec_core.cost_curve import CostCurve
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.models.pairs import Pair, load_pair
from specdec_core.models.tokenizer import DigitTokenizer
from specdec_core.stopwatch import Lap
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams
from specdec_labs.bench.arms import PLAIN, Arm, ArmRun, processor_share, run_arms, timing
from specdec_labs.bench.drafters import DRAFTERS, drafter_factory, drafter_names
from specdec_labs.bench.grid import DIGITS, MIXED, Cell, Grid, pair_prompts, run_grid, task_prompts
from specdec_labs.bench.points import Clock, errors, speedup_points
from specdec_labs.bench.report import SpeedupReport
from specdec_labs.bench.rows import _interval
from specdec_labs.cli.app import app
from specdec_labs.cli.bench_speedup import make_report
from specdec_labs.cli.bench_speedup_tables import busy_warning
from specdec_labs.plots.speedup import speedup_figure, speedup_view

runner = CliRunner()


class SimulatedClock:
    """Stands in for the clocks of `time`."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def run(self, seconds: float) -> None:
        self.wall += seconds
        self.cpu += seconds

    def wait(self, seconds: float) -> None:
        self.wall += seconds


def set_clock(patch: pytest.MonkeyPatch) -> SimulatedClock:
    found = SimulatedClock()
    patch.setattr(time, "perf_counter", lambda: found.wall)
    patch.setattr(time, "process_time", lambda: found.cpu)
    patch.setattr(time, "monotonic", lambda: found.wall)
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedClock]:
    with monkeypatch.context() as patch:
        yield set_clock(patch)


@pytest.fixture(scope="module")
def report() -> SpeedupReport:
    """Costs that do not depend on the context."""
    with pytest.MonkeyPatch.context() as patch:
        clock = set_clock(patch)
        return a_report(clock, a_pair(clock))


class CostlyModel(PrefixModel):
    """Digits with a law that depends on the last two; a pass takes `seconds(rows, held)` on the simulated clock."""

    def __init__(self, clock: SimulatedClock, seconds: Callable[[int, int], float], seed: int, blend: float) -> None:
        super().__init__(10, self._law)
        self._clock, self._seconds, self._seed, self._blend = clock, seconds, seed, blend
        self._known: dict[tuple[int, ...], torch.Tensor] = {}

    def _law(self, prefix: tuple[int, ...]) -> torch.Tensor:
        last = prefix[-2:]
        if last not in self._known:
            shared, own = random.Random(str(last)), random.Random(f"{self._seed} {last}")
            law = [3 * (shared.gauss(0, 1) + self._blend * own.gauss(0, 1)) for _ in range(10)]
            self._known[last] = torch.tensor(law)
        return self._known[last]

    def forward(self, tokens, positions=None, mask=None, *, cache, last_only=False):
        self._clock.run(self._seconds(len(tokens), len(cache)))
        return super().forward(tokens, positions, mask, cache=cache, last_only=last_only)


def a_pair(clock: SimulatedClock, *, slope: float = 0.0) -> Pair:
    target = CostlyModel(clock, lambda rows, held: 0.010 + 0.002 * (rows - 1) + slope * held, 1, 0.0)
    draft = CostlyModel(clock, lambda rows, held: 0.001, 2, 0.7)
    return Pair("toy", target, draft, DigitTokenizer(), "simulated")


def a_report(
    clock: SimulatedClock, pair: Pair, *, prompts: int = 8, gammas=(1, 3), temperatures=(0.0, 1.0)
) -> SpeedupReport:
    factories = {"model": drafter_factory("model", pair), "ngram": drafter_factory("ngram", pair)}
    cells = tuple(Cell(MIXED, temperature) for temperature in temperatures)
    grid = Grid(("model", "ngram"), gammas, cells, tokens=40, prompts=prompts, seconds=1e9)
    curve = CostCurve.measure(pair.target, range(1, max(gammas) + 2), (4, 44), repeats=2, name="simulated")
    runs = []
    run_grid(grid, pair, factories, lambda *shown: None, runs)
    return make_report(pair, grid, curve, runs, {})


def test_costs_are_predicted_to_the_last_digit_when_they_are_as_measured(report):
    assert len(report.points) == 2 * 2 * 2 * 2
    # with its own survival a half has nothing left to be wrong about
    assert report.errors.cost_p90 < 1e-9
    # and from the other half only the texts differ
    assert 0 < report.errors.median < 0.1


def test_costs_that_grow_with_the_context_are_followed(clock):
    report = a_report(clock, a_pair(clock, slope=0.0002), prompts=4, temperatures=(1.0,))
    # what is left: numbers of drafts that the other half never sent have no price of their own
    assert report.errors.cost_median < 1e-9 and report.errors.cost_p90 < 0.005
    at = report.curve
    assert at.seconds(1, 44) > 1.5 * at.seconds(1, 4)


def test_measured_values_are_those_of_the_simulated_machine(report):
    for row in report.rows:
        rounds = row.tokens_per_round
        if row.arm.drafter == "model":
            # the last round of a budget drafts less, so the mean round is a little cheaper than a full one
            full = rounds * 10 / (10 + 2 * row.arm.gamma + row.arm.gamma)
            assert full <= row.speedup < 1.12 * full
        assert row.low <= row.speedup <= row.high
        assert row.disturbed == 0
    needed = {(entry.arm.drafter, entry.arm.gamma): entry for entry in report.break_even}
    for gamma in (1, 3):
        assert needed["model", gamma].needed == pytest.approx(1 + 0.3 * gamma)
        assert needed["ngram", gamma].needed == pytest.approx(1 + 0.2 * gamma)
        assert needed["model", gamma].draft == pytest.approx(0.1 * gamma)


def test_slower_and_faster_are_told_apart_by_the_break_even_tokens(report):
    slower = [row for row in report.rows if row.speedup < 1]
    assert slower and len(slower) < len(report.rows)
    for point in report.points:
        assert (point.predicted.speedup > 1) is (point.predicted.tokens_per_round > point.predicted.break_even_tokens)


def test_the_prediction_never_sees_the_half_it_predicts(clock):
    pair = a_pair(clock)
    factories = {"model": drafter_factory("model", pair)}
    grid = Grid(("model",), (3,), (Cell(MIXED, 1.0),), tokens=30, prompts=6, seconds=1e9)
    curve = CostCurve.measure(pair.target, range(1, 5), (4, 34), repeats=1)
    runs = []
    run_grid(grid, pair, factories, lambda *shown: None, runs)
    cleaner = Clock(True)
    before = {point.half: point for point in speedup_points(runs, curve, cleaner)}
    changed = [run for run in runs if run.half == 0 or run.prompt == 1]
    after = {point.half: point for point in speedup_points(changed, curve, cleaner)}
    assert after[1].predicted == before[1].predicted
    assert after[1].measured != before[1].measured
    assert after[0].predicted != before[0].predicted
    assert after[0].measured == before[0].measured


def test_arms_take_turns_by_the_place_in_the_text(clock):
    pair = a_pair(clock)
    arms = [PLAIN, Arm("model", 3)]
    runs = run_arms(
        pair.target, {"model": drafter_factory("model", pair)}, arms, [1, 2, 3], SamplingParams(temperature=0), 24
    )
    plain, fast = runs
    assert plain.trace.emitted == fast.trace.emitted
    assert len(plain.laps) == len(plain.trace.rounds) == 23
    assert len(fast.laps) == len(fast.trace.rounds) < 23
    assert [taken.wall_s for taken in plain.laps] == pytest.approx([0.010] * 23)


def test_a_stop_token_ends_an_arm(clock):
    pair = a_pair(clock)
    (first,) = run_arms(pair.target, {}, [PLAIN], [1, 2, 3], SamplingParams(temperature=0), 24)
    stop = first.trace.emitted[5]
    expected = first.trace.emitted.index(stop) + 1
    for arm in (PLAIN, Arm("model", 4)):
        (run,) = run_arms(
            pair.target,
            {"model": drafter_factory("model", pair)},
            [arm],
            [1, 2, 3],
            SamplingParams(temperature=0, stop=(stop,)),
            24,
        )
        assert len(run.trace.emitted) == expected and run.trace.finish_reason == "stop"


def test_a_disturbed_round_counts_as_an_ordinary_one(clock):
    pair = a_pair(clock)
    (run,) = run_arms(pair.target, {}, [PLAIN], [1, 2, 3], SamplingParams(temperature=0), 24)
    laps = list(run.laps)
    laps[3] = Lap(2.0, 0.010)
    found = timing([ArmRun(run.arm, run.trace, tuple(laps))])
    assert found.seconds == pytest.approx(23 * 0.010)
    assert found.disturbed == pytest.approx(1 / 23)
    assert len(found.undisturbed) == 22
    raw = timing([ArmRun(run.arm, run.trace, tuple(laps))], on_cpu=False)
    assert raw.seconds == pytest.approx(22 * 0.010 + 2.0)
    assert timing([]) is None
    assert processor_share([run]) == pytest.approx(1.0)


def test_a_point_lies_in_its_own_interval_on_a_machine_that_was_busy_for_whole_prompts(clock):
    """Rounds are cleaned once, together: an interval over prompts that were cleaned one by one is of another ratio."""
    pair = a_pair(clock)
    runs = []
    grid = Grid(("model",), (3,), (Cell(MIXED, 0.0),), tokens=40, prompts=4, seconds=1e9)
    run_grid(grid, pair, {"model": drafter_factory("model", pair)}, lambda *shown: None, runs)
    busy = [
        replace(run, runs=tuple(_at_half_speed(entry) if entry.arm == PLAIN else entry for entry in run.runs))
        for run in runs[1:]
    ]
    curve = CostCurve.measure(pair.target, range(1, 5), (4, 44), repeats=2)
    (row,) = make_report(pair, grid, curve, [runs[0], *busy], {}).rows
    assert row.prompts == 4
    assert row.low <= row.speedup <= row.high
    # the one undisturbed prompt says what a plain step takes
    (quiet,) = make_report(pair, grid, curve, runs, {}).rows
    assert row.speedup == pytest.approx(quiet.speedup)


def _at_half_speed(run: ArmRun) -> ArmRun:
    """Every round had to wait for its processor as long as it had it."""
    return replace(run, laps=tuple(Lap(2 * entry.wall_s, entry.cpu_s) for entry in run.laps))


@pytest.mark.parametrize("seed", range(40))
def test_intervals_hold_the_ratio_of_the_sums_they_are_made_from(seed):
    random_numbers = np.random.default_rng(seed)
    count = int(random_numbers.integers(4, 30))
    times = random_numbers.lognormal(0, random_numbers.uniform(0, 1.5), size=(count, 4))
    slow, slow_tokens, fast, fast_tokens = times.sum(axis=0)
    low, high = _interval(times)
    assert low <= (slow / slow_tokens) / (fast / fast_tokens) <= high
    equal = np.tile([0.3, 7, 0.2, 7], (count, 1))
    assert _interval(equal) == (pytest.approx(1.5), pytest.approx(1.5))


def test_the_time_limit_and_the_halves(clock):
    pair = a_pair(clock)
    factories = {"ngram": NGramDrafter}
    cells = (Cell("chat", 0.0), Cell("code", 0.0))
    runs = []
    run_grid(Grid(("ngram",), (2,), cells, 20, 10, seconds=0.0), pair, factories, lambda *shown: None, runs)
    # no time at all: one prompt of each half of every cell
    assert [(run.cell.task, run.prompt, run.half) for run in runs] == [
        ("chat", 0, 0),
        ("chat", 1, 1),
        ("code", 0, 0),
        ("code", 1, 1),
    ]
    runs = []
    run_grid(Grid(("ngram",), (2,), cells, 20, 10, seconds=3.0), pair, factories, lambda *shown: None, runs)
    assert 4 < len(runs) < 20
    for cell in cells:
        halves = [run.half for run in runs if run.cell == cell]
        assert halves.count(0) == halves.count(1)


def test_mixed_prompts_put_every_task_into_both_halves():
    prompts = task_prompts(MIXED)
    assert len(prompts) == len(set(prompts)) == 90
    for task in ("chat", "summary", "code"):
        own = task_prompts(task)
        halves = [place % 2 for place, text in enumerate(prompts) if text in own]
        assert halves.count(0) == halves.count(1) == 5


def test_prompts_without_room_are_left_out():
    pair = load_pair("toy")
    assert pair_prompts(pair, MIXED, 20) == [pair.tokenizer.chat(text) for text in DIGITS]
    short = Pair("toy", PrefixModel(10, lambda prefix: [0.0] * 10, max_length=20), None, pair.tokenizer, "short")
    with pytest.raises(ValueError, match="no two prompts that leave room for 18 tokens in a context of 20"):
        pair_prompts(short, MIXED, 18)


def test_names_of_drafters_and_what_they_need():
    pair = load_pair("toy")
    assert {"ngram", "suffix", "model", "distilled", "medusa", "eagle", "early-exit", "int4"} <= set(drafter_names())
    assert isinstance(drafter_factory("model", pair)(), ModelDrafter)
    assert drafter_factory("ngram", pair)() is not drafter_factory("ngram", pair)()
    for name in ("distilled", "medusa", "eagle", "eagle-tree", "early-exit", "int4"):
        with pytest.raises(ValueError, match=f"drafter '{name}' cannot be used with the pair 'toy'"):
            drafter_factory(name, pair)
    with pytest.raises(ValueError, match="drafter is 'oracle'"):
        drafter_factory("oracle", pair)
    assert all(entry.name == name for name, entry in DRAFTERS.items())


def test_the_busy_warning(report):
    quiet = {**report.settings, "device": "cpu", "processor_share": 1.0}
    assert busy_warning(SpeedupReport(report.pair, quiet, *_parts(report))) is None
    busy = {**quiet, "processor_share": 0.5}
    assert "0.50 processors" in busy_warning(SpeedupReport(report.pair, busy, *_parts(report)))
    on_gpu = {**busy, "device": "cuda"}
    assert busy_warning(SpeedupReport(report.pair, on_gpu, *_parts(report))) is None


def _parts(report: SpeedupReport) -> tuple:
    return report.points, report.rows, report.break_even, report.curve, report.prompts_run


def test_the_figure_shows_each_half_and_no_mean_of_both(report):
    view = speedup_view(report)
    series = view["drafters"]["model"][0]
    assert series["gamma"] == [1, 3]
    rows = [row for row in report.rows if row.arm.drafter == "model" and row.cell.temperature == 0]
    assert series["measured"] == [row.speedup for row in rows]
    assert series["predicted"] == [[row.predicted[half] for row in rows] for half in (0, 1)]
    assert view["needed"]["model"][3] == pytest.approx(1.9)
    figure = speedup_figure(view)
    drawn = [trace for trace in figure.data if trace.mode == "lines"]
    assert len(drawn) == 2 * sum(len(every) for every in view["drafters"].values())
    assert [shape.y0 for shape in figure.layout.shapes] == [1, 1]


def test_errors_without_points():
    with pytest.raises(ValueError, match="no point"):
        errors([])


def test_the_command(tmp_path):
    paths = [tmp_path / name for name in ("s.json", "s.csv", "s.html")]
    arguments = [
        "bench",
        "speedup",
        "--pair",
        "toy",
        "--minutes",
        "0.01",
        "--tokens",
        "12",
        "--gamma",
        "1",
        "--gamma",
        "3",
    ]
    files = [part for name, path in zip(("--json", "--csv", "--html"), paths) for part in (name, str(path))]
    result = runner.invoke(app, [*arguments, *files], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert result.output.strip().splitlines()[-1].startswith("prediction error: median")
    data = json.loads(paths[0].read_text(encoding="utf-8"))
    assert data["schema"] == "specdec.speedup" and data["version"] == 1
    assert {row["gamma"] for row in data["rows"]} == {1, 3}
    assert {point["half"] for point in data["points"]} == {0, 1}
    for point in data["points"]:
        assert point["ratio"] == pytest.approx(point["measured"]["speedup"] / point["predicted"]["speedup"])
    lines = list(csv.DictReader(paths[1].read_text(encoding="utf-8").splitlines()))
    assert len(lines) == len(data["points"])
    assert float(lines[0]["ratio"]) == data["points"][0]["ratio"]
    page = paths[2].read_text(encoding="utf-8")
    assert "break even" in page and "measured" in page and "predicted" in page
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_the_quick_command_says_its_error_last():
    result = runner.invoke(app, ["bench", "speedup", "--pair", "toy", "--quick", "--tokens", "8", "--prompts", "4"])
    assert result.exit_code == 0, result.output
    assert result.output.strip().splitlines()[-1].startswith("prediction error: median")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--drafter", "oracle"], "drafter is 'oracle'"),
        (["--drafter", "medusa"], "drafter 'medusa' cannot be used"),
        (["--gamma", "0"], "gammas is (0,)"),
        (["--task", "poems"], "task is 'poems'"),
        (["--temperature", "-1"], "temperature is -1"),
        (["--minutes", "0"], "minutes is 0"),
        (["--prompts", "1"], "prompts is 1"),
        (["--json", "no-such-folder/x.json"], "cannot write"),
    ],
)
def test_bad_input(arguments, message):
    result = runner.invoke(app, ["bench", "speedup", "--pair", "toy", *arguments])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
