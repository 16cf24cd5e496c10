"""`specdec bench host`: forwards are timed, and what is left of a round is host time."""

import json
from pathlib import Path
import time

import pytest
import torch
from typer.testing import CliRunner

from specdec_core.models.pairs import load_pair
from specdec_core.toy import PrefixModel, toy_pair
from specdec_labs.cli.app import app
from specdec_labs.cli.bench_host import SETTINGS, BenchOptions, RoundTime, time_rounds
from specdec_labs.cli.timed_model import TimedModel

runner = CliRunner()


def test_the_stopwatch_runs_in_forwards_alone() -> None:
    target, _ = toy_pair()

    class Slow(PrefixModel):
        def forward(self, *args, **kwargs):
            time.sleep(0.02)
            return super().forward(*args, **kwargs)

    slow = Slow(10, target._logits_of)
    timed = TimedModel(slow)
    cache = timed.new_cache(8)
    time.sleep(0.05)
    output = timed.forward(torch.tensor([1, 2, 3]), cache=cache)
    assert torch.equal(output.logits, target.forward(torch.tensor([1, 2, 3]), cache=target.new_cache(8)).logits)
    assert len(cache) == 3
    assert 0.02 <= timed.seconds < 0.07
    timed.forward(torch.tensor([4]), cache=cache, last_only=True)
    assert timed.seconds >= 0.04


def test_target_and_draft_forwards_are_both_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = load_pair("toy")
    forward = PrefixModel.forward

    def slow(self, *args, **kwargs):
        time.sleep(0.005)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(PrefixModel, "forward", slow)
    options = BenchOptions(drafter="model", gamma=3)
    times = time_rounds(pair, [1, 2, 3], SETTINGS["greedy"], options, tokens=12)
    full = [entry for entry in times if entry.forward_s >= 4 * 0.005]  # three drafts and a verify pass
    assert full
    for entry in times:
        assert 0.005 <= entry.forward_s <= entry.wall_s
        assert entry.host_s == pytest.approx(entry.wall_s - entry.forward_s)


def test_host_share() -> None:
    assert RoundTime(wall_s=0.2, forward_s=0.15).host_share == pytest.approx(0.25)


@pytest.mark.parametrize("drafter", ["ngram", "model"])
def test_the_command(drafter: str, tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    result = runner.invoke(
        app, ["bench", "host", "--pair", "toy", "--tokens", "20", "--drafter", drafter, "--json", str(path)]
    )
    assert result.exit_code == 0, result.output
    for label in SETTINGS:
        assert label in result.stdout
    assert "thread" in result.stdout
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["settings"] == {"drafter": drafter, "gamma": 4, "tokens": 20}
    assert set(data["rounds"]) == set(SETTINGS)
    assert all(entry["wall_s"] > entry["forward_s"] > 0 for entry in data["rounds"]["greedy"])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "1"], "tokens is 1"),
        (["--tokens", "0"], "max_new_tokens is 0"),
        (["--gamma", "-2"], "gamma is -2"),
        (["--drafter", "oracle"], "drafter is 'oracle'"),
        (["--json", "no-such-folder/x.json"], "cannot write"),
    ],
)
def test_bad_input(arguments: list[str], message: str) -> None:
    result = runner.invoke(app, ["bench", "host", "--pair", "toy", *arguments])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
