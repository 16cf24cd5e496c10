"""Figures that cannot be are refused by everything that prints figures: shown with a deliberately slow plain arm and
with a noisy clock. The clock is simulated, so the truth is known."""

from collections.abc import Callable, Iterator
import contextlib
import io
import json
import math
from pathlib import Path
import random
import re
import time
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from specdec_core.cost_curve import CostCurve
from specdec_core.hardware_presets import Hardware, hardware
import specdec_core.models
from specdec_core.models import pairs
from specdec_core.models.llama import Llama
from specdec_core.toy import PrefixModel
from specdec_labs.acceptance.counts import Counts
from specdec_labs.acceptance.result import Row
import specdec_labs.bench.machine
from specdec_labs.build_notebooks import build
from specdec_labs.cli import setting_up
from specdec_labs.cli.app import app
from specdec_labs.cli.bench_acceptance import acceptance_findings, acceptance_table
from specdec_labs.impossible import (
    REFUSED,
    Speedup,
    curve_problem,
    machine_problem,
    needed,
    rate_problem,
    steps,
    tokens_problem,
    unscaled_rows,
)
from specdec_labs.widgets.predict import PredictionCard
from specdec_labs.widgets.speedup import measured_points, static_speedup
from specdec_labs.widgets.speedup import view_model as speedup_view

runner = CliRunner()
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks" / "src"
NUMBER = re.compile(r"\d+\.\d+")


class Simulated:
    """A clock that only the models move: `seconds(rows)` a pass of the target, 0.5 ms one of the draft."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.seconds: Callable[[int], float] = honest
        self.noise = 0.0
        self.draft: Any = None
        self._random = random.Random(0)

    def passes(self, model: Any, rows: int) -> None:
        base = 0.0005 if model is self.draft else self.seconds(rows)
        self.wall += base * math.exp(self._random.gauss(0, self.noise))


def honest(rows: int) -> float:
    return 0.010 + 0.0005 * (rows - 1)


def slow_baseline(rows: int) -> float:
    """One row goes another way than several: what linear.py did on a processor it was not tuned on."""
    return 0.030 if rows == 1 else honest(rows)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulated]:
    found = Simulated()

    def timed(kind: type) -> None:
        forward = kind.forward

        def moved(self: Any, tokens: Any, *args: Any, **kwargs: Any) -> Any:
            found.passes(self, len(tokens))
            return forward(self, tokens, *args, **kwargs)

        monkeypatch.setattr(kind, "forward", moved)

    def opened(*args: Any, **kwargs: Any) -> Any:
        pair = load(*args, **kwargs)
        found.draft = pair.draft
        return pair

    timed(PrefixModel)
    timed(Llama)
    load = pairs.load_pair
    for module in (setting_up, specdec_core.models):
        monkeypatch.setattr(module, "load_pair", opened)
        monkeypatch.setattr(module, "find_smollm2", lambda: None)
    monkeypatch.setattr(time, "perf_counter", lambda: found.wall)
    monkeypatch.setattr(time, "process_time", lambda: found.wall)
    return found


def run(*arguments: str, code: int | None = 0) -> str:
    result = runner.invoke(app, [*arguments, "--plain-text"], env={"COLUMNS": "300"})
    assert result.exit_code in ((0, 1) if code is None else (code,)), result.output
    return result.stdout


SPEEDUP = (
    "bench",
    "speedup",
    "--pair",
    "toy",
    "--drafter",
    "model",
    "--gamma",
    "3",
    "--tokens",
    "24",
    "--prompts",
    "8",
)
CURVE = ("bench", "curve", "--pair", "toy", "--context", "8", "--gamma", "1", "--gamma", "3", "--tokens", "16")
DEMO = ("demo", "--pair", "toy", "--max-new-tokens", "40")


def cells(output: str, *start: str) -> list[str]:
    """The cells of the first table row that begins so."""
    rows = (re.split(r"\s{2,}", line.strip()) for line in output.splitlines())
    return next(row for row in rows if row[: len(start)] == list(start))


def assert_possible(shown: str, tokens: float) -> None:
    """A figure, its limit, or none: never above the tokens of a round."""
    for number in NUMBER.findall(shown.replace("..", " ")):
        assert float(number) <= tokens + 0.005, f"{shown} at {tokens} tokens a round"


def demo_rows(output: str) -> tuple[str, float]:
    shown = cells(output, "speed-up, paired, median")[1]
    return shown, float(cells(output, "mean acceptance length")[2])


def test_the_demo(clock: Simulated, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    shown, tokens = demo_rows(run(*DEMO))
    assert 1 < float(shown.removesuffix("x")) < tokens
    clock.seconds = slow_baseline
    output = run(*DEMO, "--json", str(path))
    assert demo_rows(output)[0] == REFUSED and "smallest..largest" not in output
    assert "REFUSED speed-up: " in output and "plain decoding was slower than it can be" in " ".join(output.split())
    (finding,) = json.loads(path.read_text(encoding="utf-8"))["settings"]["comparison"]["findings"]
    assert finding["where"] == "speed-up"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("repeats", ["1", "3"])
def test_the_demo_on_a_noisy_clock(clock: Simulated, seed: int, repeats: str) -> None:
    clock.noise, clock._random = 1.5, random.Random(seed)
    output = run(*DEMO, "--repeats", repeats, "--drafter", "ngram", "--prompt", "1 2 3 1 2 3")
    assert_possible(*demo_rows(output))


def test_bench_curve(clock: Simulated, tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    output = run(*CURVE, "--rows", "6")
    assert float(cells(output, "6")[3]) == pytest.approx(1.25, abs=0.01)
    assert float(cells(output, "model", "3")[-1]) > 1
    clock.seconds = slow_baseline
    output = run(*CURVE, "--rows", "6", "--json", str(path), code=1)
    assert cells(output, "6")[3] == cells(output, "1")[3] == REFUSED
    assert cells(output, "model", "3")[-1] == cells(output, "ngram", "1")[-1] == REFUSED
    assert "REFUSED toy: target: with 8 tokens cached, passes over 2, 4, 6 rows took less time" in output
    data = json.loads(path.read_text(encoding="utf-8"))
    assert [finding["where"] for finding in data["findings"]] == ["toy: target"]
    assert CostCurve.from_dict(data["curves"][0]).rows == (1, 2, 4, 6), "what could be kept is kept"


@pytest.mark.parametrize("seed", range(4))
def test_bench_curve_on_a_noisy_clock(clock: Simulated, seed: int) -> None:
    clock.noise, clock._random = 0.4, random.Random(seed)
    output = run(*CURVE, code=None)
    for drafter in ("ngram", "model"):
        for gamma in ("1", "3"):
            shown = cells(output, drafter, gamma)[-1]
            assert shown in (REFUSED, "~1") or float(shown) >= 1
    for rows in ("1", "2", "4"):
        assert cells(output, rows)[3] in (REFUSED, "~1") or float(cells(output, rows)[3]) >= 1


def test_bench_curve_names_rows_that_do_not_scale_with_threads(
    clock: Simulated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    threads = [2]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[0])
    monkeypatch.setattr(torch, "set_num_threads", lambda count: threads.__setitem__(0, count))
    clock.seconds = lambda rows: 0.010 if rows == 1 else 0.022 / threads[0]
    path = tmp_path / "curve.json"
    output = run(*CURVE, "--json", str(path))
    assert "passes over 1 rows do not scale with threads: 2 threads are no faster than one there" in output
    assert json.loads(path.read_text(encoding="utf-8"))["unscaled_rows"] == [1] and threads == [2]
    clock.seconds = lambda rows: honest(rows) / threads[0]
    assert "do not scale" not in run(*CURVE)
    clock.seconds = honest
    assert "passes over all rows do not scale" in run(*CURVE)
    threads[0] = 1
    assert "do not scale" not in run(*CURVE)


def test_bench_speedup(clock: Simulated, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("s.json", "s.csv", "s.html")]
    row = cells(run(*SPEEDUP), "mixed", "0", "model", "3")
    assert 1 < float(row[5].removesuffix("x")) < float(row[4])
    clock.seconds = slow_baseline
    files = [part for name, path in zip(("--json", "--csv", "--html"), paths) for part in (name, str(path))]
    output = run(*SPEEDUP, *files, code=1)
    for temperature in ("0", "1"):
        row = cells(output, "mixed", temperature, "model", "3")
        assert row[5:8] == [REFUSED, "-", f"{REFUSED} {REFUSED}"] and row[9] == REFUSED
    assert "REFUSED cost curve of toy: " in output
    assert output.strip().splitlines()[-1] == "prediction error: none, since every speed-up was refused"
    data = json.loads(paths[0].read_text(encoding="utf-8"))
    assert data["errors"] is None and len(data["findings"]) == 1
    assert paths[1].read_text(encoding="utf-8").count("does not go the fastest way") == len(data["points"])
    drawn = paths[2].read_text(encoding="utf-8")
    assert "Refused: cost curve of toy" in drawn and "<td>refused</td>" in drawn
    view = speedup_view({"points": measured_points(data)})
    assert view["points"] == [] and "Not drawn: model, mixed, T = 0, gamma 3" in view["warning"]
    assert "Not drawn" in static_speedup({"points": measured_points(data)}).html


@pytest.mark.parametrize("seed", range(4))
def test_bench_speedup_on_a_noisy_clock(clock: Simulated, seed: int) -> None:
    clock.noise, clock._random = 1.0, random.Random(seed)
    output = run(*SPEEDUP, "--drafter", "ngram", "--gamma", "1", "--prompts", "4", code=None)
    for drafter in ("model", "ngram"):
        for gamma in ("1", "3"):
            for temperature in ("0", "1"):
                row = cells(output, "mixed", temperature, drafter, gamma)
                assert_possible(row[5], float(row[4]))
                assert_possible(row[6], float(row[4]))


def test_bench_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    right = Hardware("here", 20e9, {"float32": 1e11}, 1e9, None, "measured", "made up")
    with pytest.raises(ValueError, match="must be above 0"):
        Hardware("x", math.nan, {}, 1, None, "measured", "")
    machine = Hardware("x", math.inf, {"float32": 1e11}, 1, None, "measured", "")
    assert "the clock went wrong" in machine_problem(machine)
    assert machine_problem(right) == "" == machine_problem(hardware("h100-sxm"))
    late = Hardware("here", 20e9, {"float32": 5e9}, 1e9, None, "measured", "made up")
    monkeypatch.setattr("specdec_labs.cli.bench_machine.measure_machine", lambda repeats: late)
    output = run("bench", "machine", "--json", str(path), code=1)
    assert "REFUSED here: " in output and "ridge below one row" in output and "GB/s" not in output
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["findings"][0]["where"] == "here" and Hardware.load(path) == late


def test_bench_acceptance() -> None:
    def row(counts: Counts, mean: float = 1.5, low: float = 1.4, high: float = 1.6) -> Row:
        return Row("ngram", "lookup", "all", 0.0, 4, mean, low, high, counts)

    right = Counts(10, 15, 40, 5, 15, ((10, 10, 5),))
    assert acceptance_findings([row(right)]) == []
    for wrong, said in (
        (row(Counts(10, 15, 40, 16, 15, ())), "alpha came out as 1.06667, and a share lies between 0 and 1"),
        (row(right, mean=0.9, low=0.8, high=1.0), "a round emitted 0.90 tokens, and each emits at least one"),
        (row(right, high=1.45), "tokens a round lies outside its own interval, 1.4..1.45"),
    ):
        (finding,) = acceptance_findings([row(right), wrong][1:])
        assert said in str(finding)
        assert list(acceptance_table([wrong]).columns[-1].cells) == [REFUSED]


def page(name: str, *stop_before: str) -> tuple[str, dict[str, Any]]:
    """What the notebook's cells print, reference solutions in place; cells with one of these words are left out."""
    cells = json.loads(build(NOTEBOOKS / f"{name}.py", "solution"))["cells"]
    names: dict[str, Any] = {"__name__": "page"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in cells:
            source = "".join(cell["source"])
            if cell.get("metadata", {}).get("specdec", {}).get("part") == "check":
                source = "from specdec_labs.grade import check, hint, take"
            if cell["cell_type"] == "code" and not any(word in source for word in stop_before):
                exec(compile(source, name, "exec"), names)
    return printed.getvalue(), names


@pytest.fixture
def pages(clock: Simulated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Simulated:
    monkeypatch.setenv("SPECDEC_FAST", "1")
    monkeypatch.setenv("SPECDEC_WORK", str(tmp_path))
    # without a page there is no fold to print into
    monkeypatch.setattr(PredictionCard, "covered", lambda self: contextlib.nullcontext())
    machine = hardware("h100-sxm")
    monkeypatch.setattr(specdec_labs.bench.machine, "measure_machine", lambda **sizes: machine)
    return clock


LEFT_OUT = ("certify(", "passport(")


def test_the_race_of_notebook_00(pages: Simulated) -> None:
    text, names = page("00_start_here", *LEFT_OUT)
    assert " times plain" in text and REFUSED.upper() not in text
    pages.seconds = slow_baseline
    text, names = page("00_start_here", *LEFT_OUT)
    assert "REFUSED against plain" in text and " times plain" not in text
    assert names["card"].prediction.measured is None
    own = names["race"]["lanes"][2]
    assert own["segments"][0][:2] == ("prefill", 0.0) and own["draft_prefill_s"] == pytest.approx(0.0005)
    assert "its own prompt pass took 0.001 s more" in text or "its own prompt pass took 0.000 s more" in text
    rounds = names["runs"]["draft model"][0].rounds
    full = [entry.t_draft_s for entry in rounds if len(entry.draft_tokens) == 3]
    assert max(full) == pytest.approx(min(full)), "round 1 drafts in the time of the others"


def test_the_curve_of_notebook_01(pages: Simulated) -> None:
    text, _ = page("01_bandwidth_wall", *LEFT_OUT)
    assert "REFUSED" not in text and re.search(r"drafting for free\n +1 +1\.05\n", text)
    pages.seconds = slow_baseline
    text, names = page("01_bandwidth_wall", *LEFT_OUT)
    assert "REFUSED: with 64 tokens cached" in text and names["rows_card"].prediction.measured is None
    assert re.search(r"drafting for free\n +1 +refused\n", text)
    assert set(names["figure"].data[0].y) == {None}


def test_the_speedups_of_notebook_04(pages: Simulated) -> None:
    text, names = page("04_speedup_curves", *LEFT_OUT)
    assert "REFUSED" not in text and names["gain_card"].prediction.measured is not None
    pages.seconds = slow_baseline
    text, names = page("04_speedup_curves", *LEFT_OUT)
    assert "REFUSED cost curve of tiny" in text and "gamma 4: refused, emitted" in text
    assert names["gain_card"].prediction.measured is None and names["explorer"].view["warning"].startswith("Not drawn")


def test_the_speedups_of_notebook_05(pages: Simulated) -> None:
    text, _ = page("05_draft_and_target", *LEFT_OUT)
    honest_lines = [line for line in text.splitlines() if re.match(r"(summary|math) +(ngram|model) ", line)]
    assert len(honest_lines) == 4 and "refused" not in "".join(honest_lines)
    for line in honest_lines:
        assert_possible(line.split()[4], float(line.split()[3]))
    pages.seconds = slow_baseline
    text, _ = page("05_draft_and_target", *LEFT_OUT)
    assert "REFUSED summary, model: " in text


@pytest.mark.parametrize(
    ("speedup", "shown", "said"),
    [
        (Speedup(1.5, 2.0), "1.50x", ""),
        (Speedup(None, 2.0), "-", ""),
        (Speedup(2.2, 2.0), REFUSED, "above the 2.00 tokens a round emits"),
        (Speedup(2.2, 2.0, 2.05, 2.4), REFUSED, "above the 2.00 tokens a round emits"),
        (Speedup(2.2, 2.0, 1.9, 2.4), "at most 2.00x", ""),
        (Speedup(1.5, 2.0, 1.6, 1.7), REFUSED, "outside its own interval, 1.60..1.70"),
        (Speedup(math.nan, 2.0), REFUSED, "tokens a round is none"),
        (Speedup(-1.0, 2.0), REFUSED, "tokens a round is none"),
        (Speedup(0.5, 0.9), REFUSED, "each emits at least one"),
        (Speedup(1.5, 2.0, baseline="the plain arm was asleep"), REFUSED, "asleep"),
    ],
)
def test_a_speedup_beside_its_tokens(speedup: Speedup, shown: str, said: str) -> None:
    assert speedup.shown == shown
    assert (said in speedup.problem) if said else speedup.problem == ""
    assert (speedup.possible is None) == (shown in (REFUSED, "-"))
    assert speedup.interval == "-" if speedup.problem or speedup.low is None else "over 2.00" in speedup.interval


def test_a_curve_falls_beyond_noise_or_within_it() -> None:
    def curve(one: float, two: float, *, least: float = 0.95, repeats: int = 7) -> CostCurve:
        low = ((least * one, least * two),)
        return CostCurve("t", "measured", (1, 2), (64,), ((one, two),), low, 0.0, {"repeats": repeats, "threads": 2})

    assert curve_problem(curve(1.0, 1.2)) == "" and steps(curve(1.0, 1.2), 2, 64) == "1.20"
    assert curve_problem(curve(1.0, 0.97)) == "" and steps(curve(1.0, 0.97), 2, 64) == "~1"
    assert "passes over 2 rows took less time" in curve_problem(curve(1.0, 0.8))
    assert curve_problem(curve(1.0, 0.8, repeats=3)) == "" != curve_problem(curve(1.0, 0.6, repeats=3))
    assert "the clock went wrong" in curve_problem(curve(1.0, math.nan)) and curve_problem(curve(1.0, -1.0))
    assert (needed(1.3, curve(1, 1.2)), needed(0.98, curve(1, 1.2)), needed(0.8, curve(1, 1.2))) == (
        "1.30",
        "~1",
        REFUSED,
    )
    assert needed(1.3, curve(1.0, 0.5)) == REFUSED
    assert unscaled_rows(curve(1.0, 0.6), curve(1.0, 1.2)) == [1]


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_share_lies_between_0_and_1(value: float) -> None:
    assert "between 0 and 1" in rate_problem("alpha", value)
    assert rate_problem("alpha", 0.5, 0.4, 0.6) == rate_problem("alpha", None) == tokens_problem(1.0) == ""
    assert "outside its own interval" in rate_problem("alpha", 0.7, 0.4, 0.6)
    rows = [{"drafter": "x", "gamma": 2, "task": "t", "temperature": 0, "alpha": value, "speedup": 1.0}]
    view = speedup_view({"points": measured_points({"schema": "specdec.speedup", "rows": rows})})
    assert view["points"] == [] and "between 0 and 1" in view["warning"]
