"""`specdec bench rules`: the report has every arm, the arms do what they say, bad options are refused."""

from collections import Counter
import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from specdec_core.rules.batched import ScriptedBatchCoins
from specdec_labs.cli import bench_rules
from specdec_labs.cli.app import app
from specdec_labs.cli.bench_rules import LOOP, PHILOX, READ, UNIFORMS, Sizes, Times, ratio, time_toy
from specdec_labs.cli.bench_rules_arms import keyed, make_laws, tutorial_loop, uniforms

runner = CliRunner()


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.setattr(bench_rules, "QUICK_LARGE", Sizes(2, 2, 17_000))
    monkeypatch.setattr(bench_rules, "QUICK_TOY", Sizes(16, 3, 7))
    path = tmp_path / "rules.json"
    options = ["--quick", "--repeats", "2", "--rounds", "40", "--json", str(path), "--plain-text"]
    result = runner.invoke(app, ["bench", "rules", *options])
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    for words in ("1 thread(s)", "load average", "peak extra memory", "loop / it", "40 rounds, s", "(computed)"):
        assert words in text
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["large"]["sizes"] == {"batch": 2, "drafted": 2, "vocab": 17_000}
    assert data["memory"]["input_bytes"] == 4 * 17_000 * (2 * 2 + 2 * 3)
    assert set(data["large"]["times"]) == {READ, UNIFORMS, PHILOX, LOOP}
    assert set(data["toy"]["times"]) == {UNIFORMS, PHILOX, LOOP}
    for times in data["large"]["times"].values():
        assert len(times["wall_s"]) == len(times["cpu_s"]) == 2
    # 40 rounds are three batches of 16
    assert [len(times["wall_s"]) for times in data["toy"]["times"].values()] == [3, 3, 3]
    assert data["toy"]["rounds"] == 40
    assert data["hardware"]["threads"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_memory_is_measured_where_the_system_counts_it() -> None:
    # 8 requests of V = 40,000 would need 2.6 MB a request in float64 for all rows; one row takes 0.3 MB
    extra = bench_rules.peak_extra_bytes(8, 4, 40_000)
    if Path("/proc/self/clear_refs").exists():
        assert extra is not None
        assert 0 < extra < 4e6
    else:
        assert extra is None


def test_memory_that_cannot_be_measured_is_said_to_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("specdec_labs.cli.bench_rules_memory._RESET", tmp_path / "none")
    assert bench_rules.peak_extra_bytes(1, 1, 7) is None
    assert "not measured" in bench_rules._memory_line(None, 10)


def test_drafts_and_laws_belong_together() -> None:
    laws = make_laws(3, 2, 11, seed=4)
    assert (laws.batch, laws.drafted, laws.bytes) == (3, 2, 4 * 11 * (6 + 9))
    verdict = laws.verify(ScriptedBatchCoins(uniforms(laws, seed=1)))
    assert len(verdict) == 3
    assert torch.equal(verdict.emitted, laws.verify(ScriptedBatchCoins(uniforms(laws, seed=1))).emitted)
    assert len(laws.verify(keyed(laws, length=3))) == 3


def test_the_loop_of_tutorials_is_the_same_rule() -> None:
    """Its mean length agrees with the batched rule's: the arms do the same work."""
    laws = make_laws(400, 3, 5, seed=2)
    torch.manual_seed(0)
    lengths = Counter(len(emitted) for emitted in tutorial_loop(laws, 400))
    looped = sum(length * count for length, count in lengths.items()) / 400
    batched = [
        float(laws.verify(keyed(laws, length=length)).num_accepted.double().mean()) + 1 for length in range(1, 21)
    ]
    # lengths lie in 1..4, so a mean of 400 has a standard deviation of at most 0.075
    assert abs(looped - sum(batched) / 20) < 0.35
    assert max(lengths) == 4


def test_ratios_are_of_runs_that_followed_each_other() -> None:
    assert ratio([1.0, 8.0, 3.0], [2.0, 4.0, 3.0]) == 1.0
    times = Times(4)
    times.run(sum, [1, 2])
    assert len(times.wall_s) == 1
    toy = time_toy(make_laws(8, 2, 5, seed=1), 9)
    assert [len(entry.wall_s) for entry in toy.values()] == [2, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repeats", "0"], "repeats is 0"),
        (["--rounds", "0"], "rounds is 0"),
        (["--threads", "0"], "threads is 0"),
        (["--json", "no-such-folder/x.json"], "cannot write"),
    ],
)
def test_bad_input(arguments: list[str], message: str) -> None:
    result = runner.invoke(app, ["bench", "rules", "--quick", *arguments])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
