"""Cost curves on a simulated clock: what is measured is what the model was told to cost."""

from collections.abc import Callable
import json
import random
import time

import pytest

from specdec_core.cost_curve import CostCurve, CurveMeter
from specdec_core.hardware_presets import hardware
from specdec_core.model_shapes import model_shape
from specdec_core.stopwatch import Lap, lap, undisturbed, usual_share
from specdec_core.toy import PrefixModel


class SimulatedClock:
    """Stands in for the clocks of `time`; only a simulated model and `wait` move it."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def run(self, seconds: float) -> None:
        self.wall += seconds
        self.cpu += seconds

    def wait(self, seconds: float) -> None:
        self.wall += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimulatedClock:
    found = SimulatedClock()
    monkeypatch.setattr(time, "perf_counter", lambda: found.wall)
    monkeypatch.setattr(time, "process_time", lambda: found.cpu)
    return found


class CostlyModel(PrefixModel):
    """A pass over `rows` tokens with `held` in the cache takes `seconds(rows, held)`."""

    def __init__(self, clock: SimulatedClock, seconds: Callable[[int, int], float], **kwargs) -> None:
        super().__init__(5, lambda prefix: [0.0] * 5, **kwargs)
        self._clock, self._seconds = clock, seconds
        self.fed: list[tuple[int, int]] = []

    def forward(self, tokens, positions=None, mask=None, *, cache, last_only=False):
        self._clock.run(self._seconds(len(tokens), len(cache)))
        self.fed.append((len(tokens), len(cache)))
        return super().forward(tokens, positions, mask, cache=cache, last_only=last_only)


def test_it_measures_what_each_pass_costs(clock):
    model = CostlyModel(clock, lambda rows, held: 0.01 * rows + 0.001 * held)
    curve = CostCurve.measure(model, (1, 2, 8), (4, 16), repeats=3, name="costly")
    assert curve.median_s == (pytest.approx((0.014, 0.024, 0.084)), pytest.approx((0.026, 0.036, 0.096)))
    assert curve.median_s[1] == pytest.approx(curve.min_s[1])
    assert curve.kind == "measured" and curve.model == "costly" and curve.disturbed == 0
    assert curve.hardware["threads"] >= 1 and curve.hardware["repeats"] == 3
    # linear in both directions, and beyond the contexts
    assert curve.seconds(5, 10) == pytest.approx(0.06)
    assert curve.seconds(1, 32) == pytest.approx(0.042)
    assert curve.seconds(1, 0) == pytest.approx(0.01)
    assert curve.relative(8, 4) == pytest.approx(6.0)


def test_the_least_seconds_are_there_beside_the_median():
    curve = CostCurve("both", "modelled", (1, 2), (0,), ((3.0, 5.0),), ((2.0, 4.0),))
    assert (curve.seconds(1), curve.seconds(2, statistic="min"), curve.seconds(1, statistic="min")) == (3.0, 4.0, 2.0)


def test_a_slope_that_falls_below_nothing_stops_there():
    falling = CostCurve("falling", "modelled", (1, 2), (0, 100), ((1.0, 1.0), (0.5, 0.5)), ((1.0, 1.0), (0.5, 0.5)))
    assert falling.seconds(1, 150) == pytest.approx(0.25)
    assert falling.seconds(1, 250) == 0.0


def test_rows_that_leave_no_room_for_a_context_are_left_out(clock):
    model = CostlyModel(clock, lambda rows, held: 0.01, max_length=16)
    curve = CostCurve.measure(model, (1, 4, 16, 32), (4, 12, 14), repeats=1)
    assert (curve.rows, curve.contexts) == ((1, 4), (4, 12))


def test_passes_are_interleaved_in_a_new_order_each_time(clock):
    model = CostlyModel(clock, lambda rows, held: 1.0)
    CostCurve.measure(model, (1, 2, 4, 8), (0, 3), repeats=3)
    passes = model.fed[1:]  # one prefill; the empty context has none
    rounds = [passes[start : start + 8] for start in range(0, len(passes), 8)]
    assert len(rounds) == 4  # a warm-up round comes first
    assert all(sorted(each) == sorted(rounds[0]) for each in rounds)
    assert len({tuple(each) for each in rounds}) == 4


def test_a_slow_spell_moves_the_median_little_and_a_waiting_pass_is_left_out(clock):
    spikes = random.Random(1)

    def seconds(rows: int, held: int) -> float:
        if spikes.random() < 0.2:
            clock.wait(5.0)
        return 0.1 * rows

    curve = CostCurve.measure(CostlyModel(clock, seconds), (1, 4), (0,), repeats=15)
    assert curve.median_s[0] == pytest.approx((0.1, 0.4))
    assert 0.05 < curve.disturbed < 0.4


def test_the_progress_and_the_limit_of_the_model(clock):
    seen = []
    model = CostlyModel(clock, lambda rows, held: 1.0, max_length=20)
    curve = CostCurve.measure(
        model, (1, 4, 64), (0, 10, 18), repeats=2, progress=lambda done, of: seen.append((done, of))
    )
    assert curve.rows == (1, 4) and curve.contexts == (0, 10)
    assert seen == [(1, 2), (2, 2)]


def test_a_modelled_curve_says_so_and_goes_through_json(tmp_path):
    curve = CostCurve.from_roofline(model_shape("dense-70b"), hardware("h100-sxm"), (1, 64, 590), (0,))
    assert curve.kind == "modelled"
    assert curve.relative(64) == pytest.approx(1)
    assert curve.relative(590) == pytest.approx(590 / 295.343, rel=1e-3)
    path = curve.save(tmp_path / "curve.json")
    assert CostCurve.load(path) == curve
    data = json.loads(path.read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match="version 1"):
        CostCurve.from_dict({**data, "version": 2})
    del data["rows"]
    with pytest.raises(ValueError, match="lacks 'rows'"):
        CostCurve.from_dict(data)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="not JSON"):
        CostCurve.load(path)


def test_rows_that_were_not_measured(clock):
    curve = CostCurve.measure(CostlyModel(clock, lambda rows, held: 1.0), (2, 4), (0,), repeats=1)
    for rows in (1, 5):
        with pytest.raises(ValueError, match=f"rows is {rows}"):
            curve.seconds(rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"rows": (4, 1)}, "rows is"), ({"contexts": ()}, "contexts is"), ({"median_s": ((1.0,),)}, "expected seconds")],
)
def test_a_curve_of_another_shape(change, message):
    content = {"rows": (1, 2), "contexts": (0,), "median_s": ((1.0, 2.0),), "min_s": ((1.0, 2.0),), **change}
    with pytest.raises(ValueError, match=message):
        CostCurve("x", "measured", **content)


def test_sweeps_between_other_work(clock):
    cost = [1.0]
    meter = CurveMeter(CostlyModel(clock, lambda rows, held: cost[0]), (1, 2), (0,), name="costly")
    with pytest.raises(ValueError, match="no sweep yet"):
        meter.curve()
    for cost[0] in (3.0, 2.0, 5.0):
        meter.sweep()
        clock.run(100.0)
    assert meter.curve().median_s == ((pytest.approx(3.0), pytest.approx(3.0)),)
    assert meter.curve().min_s == ((pytest.approx(2.0), pytest.approx(2.0)),)
    assert meter.curve().hardware["repeats"] == 3


def test_bad_measurements(clock):
    model = CostlyModel(clock, lambda rows, held: 1.0, max_length=4)
    with pytest.raises(ValueError, match="repeats is 0"):
        CostCurve.measure(model, (1,), (0,), repeats=0)
    with pytest.raises(ValueError, match="model's 4 tokens"):
        CostCurve.measure(model, (9,), (0,))


def test_laps_that_had_to_wait(clock):
    taken, result = lap(lambda: clock.run(2.0) or "done")
    assert (taken, result) == (Lap(2.0, 2.0), "done")
    laps = [Lap(1.0, 1.0)] * 6 + [Lap(3.0, 1.0), Lap(1.1, 1.0), Lap(2.0, 2.0)]
    assert undisturbed(laps) == [True] * 6 + [False, True, True]
    # two threads: half of their share is a disturbance, although it is one whole processor
    assert undisturbed([Lap(1.0, 2.0), Lap(1.0, 1.9), Lap(1.0, 1.0)]) == [True, True, False]
    assert undisturbed(laps, share=2.0) == [False] * 9
    assert usual_share([]) == 0.0


def test_laps_shorter_than_a_few_ticks_are_not_judged_by_a_clock_of_ticks():
    ticking = [Lap(0.002, 0.006), Lap(0.002, 0.002), Lap(0.002, 0.002), Lap(0.002, 0.006)]
    assert undisturbed(ticking) == [True] * 4
    assert usual_share(ticking) == pytest.approx(2.0)
    one_thread = [Lap(0.002, 0.002)] * 3 + [Lap(0.004, 0.002)]
    assert undisturbed(one_thread) == [True, True, True, False], "one thread's own clock is exact"
