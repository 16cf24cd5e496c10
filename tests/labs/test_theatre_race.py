"""The race draws the seconds that traces recorded, and nothing else."""

import pytest

from specdec_core.drafters import NGramDrafter
from specdec_core.engine import Engine
from specdec_core.metrics import summarize
from specdec_core.toy import toy_pair
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams
from specdec_labs.widgets.race import KINDS, race_figure, race_text, race_view


def runs(gamma: int, repeats: int = 3, tokens: int = 20) -> list[Trace]:
    engine = Engine(toy_pair()[0], NGramDrafter(), "greedy", gamma)
    params = SamplingParams(temperature=0.0)
    return [engine.generate([2, 0, 5, 1, 0, 8, 3], params, tokens).trace for _ in range(repeats)]


def test_segments_are_the_recorded_seconds_end_to_end() -> None:
    trace = runs(4, repeats=1)[0]
    lane = race_view({"plain": runs(0), "drafted": [trace]})["lanes"][1]
    total = sum(round_.t_draft_s + round_.t_verify_s + round_.t_host_s for round_ in trace.rounds)
    ends = [end for _, _, end, _ in lane["segments"]]
    starts = [start for _, start, _, _ in lane["segments"]]
    assert starts == [0.0, *ends[:-1]]
    assert ends[-1] == pytest.approx(total)
    assert [kind for kind, *_ in lane["segments"]] == list(KINDS) * len(trace.rounds)
    assert lane["progress"][-1] == (pytest.approx(total), len(trace.emitted) - 1)


def test_rates_and_ratio_are_those_of_the_metrics() -> None:
    plain, drafted = runs(0), runs(4)
    first, second = race_view({"plain": plain, "drafted": drafted})["lanes"]
    for lane, traces in ((first, plain), (second, drafted)):
        rates = sorted(summarize(trace).tokens_per_s for trace in traces)
        assert lane["tokens_per_s"] == pytest.approx({"lowest": rates[0], "median": rates[1], "highest": rates[2]})
    assert first["speedup"] == 1.0
    assert second["speedup"] == pytest.approx(second["tokens_per_s"]["median"] / first["tokens_per_s"]["median"])


def test_the_text_shows_ratio_spread_and_runs() -> None:
    lines = race_text(race_view({"plain": runs(0), "drafted": runs(4, repeats=1)})).splitlines()
    assert [line.split(":")[0] for line in lines] == ["plain", "drafted"]
    assert "3 runs" in lines[0] and "times plain" not in lines[0]
    assert "times plain" in lines[1] and "runs" not in lines[1]


def test_the_figure_has_one_bar_trace_a_kind_and_one_line_a_lane() -> None:
    view = race_view({"plain": runs(0), "drafted": runs(4)})
    figure = race_figure(view)
    assert type(figure).__name__ == "Figure"
    bars = [trace for trace in figure.data if trace.type == "bar"]
    lines = [trace for trace in figure.data if trace.type == "scatter"]
    assert len(bars) == len(KINDS) and len(lines) == 2
    drawn = {(name, kind.name): sum(x for y, x in zip(kind.y, kind.x) if y == name) for kind in bars for name in kind.y}
    for lane in view["lanes"]:
        measured = sum(end - start for _, start, end, _ in lane["segments"])
        assert sum(seconds for (name, _), seconds in drawn.items() if name == lane["name"]) == pytest.approx(measured)
    assert list(lines[1].y) == [tokens for _, tokens in view["lanes"][1]["progress"]]
    assert len(figure.to_json()) < 100_000
    look = figure.layout.template.layout
    assert (look.paper_bgcolor, look.plot_bgcolor) == ("rgba(0, 0, 0, 0)", "rgba(0, 0, 0, 0)"), "the page's own ground"


@pytest.mark.parametrize(
    ("lanes", "message"),
    [
        ({}, "lanes is empty"),
        ({"plain": []}, "'plain' has no runs"),
        ({"plain": [Trace(prompt=(1,), prefill_token=2)]}, "'plain' has a run with 0 tokens"),
    ],
)
def test_a_race_without_a_run_is_refused(lanes: dict[str, list[Trace]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        race_view(lanes)
