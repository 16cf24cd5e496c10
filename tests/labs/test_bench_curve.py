"""`specdec bench curve` and `specdec bench machine`: files that can be read back, prices that add up."""

import csv
import json
import time

import pytest
import torch
from typer.testing import CliRunner

from specdec_core.cost_curve import CostCurve
from specdec_core.hardware_presets import Hardware
from specdec_core.models.pairs import load_pair
from specdec_core.roofline import ridge_rows
from specdec_core.toy import PrefixModel
from specdec_labs.bench.drafters import drafter_factory
from specdec_labs.bench.drafting import drafting_costs
from specdec_labs.bench.machine import measure_machine
from specdec_labs.cli.app import app

runner = CliRunner()


def test_the_command(tmp_path):
    paths = [tmp_path / name for name in ("c.json", "c.csv", "c.html")]
    arguments = ["bench", "curve", "--pair", "toy", "--rows", "1", "--rows", "6", "--gamma", "2", "--repeats", "2"]
    files = [part for name, path in zip(("--json", "--csv", "--html"), paths) for part in (name, str(path))]
    result = runner.invoke(app, [*arguments, "--context", "8", "--tokens", "12", *files], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    data = json.loads(paths[0].read_text(encoding="utf-8"))
    curves = [CostCurve.from_dict(entry) for entry in data["curves"]]
    assert [curve.model for curve in curves] == ["toy: target", "toy: model"]
    assert all(curve.rows == (1, 3, 6) and curve.contexts == (8,) for curve in curves)
    assert [(entry["drafter"], entry["gamma"]) for entry in data["drafting"]] == [("ngram", 2), ("model", 2)]
    assert data["hardware"]["processor"]
    lines = list(csv.DictReader(paths[1].read_text(encoding="utf-8").splitlines()))
    assert len(lines) == 6
    assert float(lines[0]["median_s"]) == curves[0].median_s[0][0]
    page = paths[2].read_text(encoding="utf-8")
    assert "Cost curves: toy: target, toy: model" in page and "<td>6</td>" in page
    assert "tokens needed" in result.output
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_the_prices_of_drafting(monkeypatch):
    pair = load_pair("toy")
    forward = PrefixModel.forward

    def slow(self, *args, **kwargs):
        time.sleep(0.004 if self is pair.target else 0.002)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(PrefixModel, "forward", slow)
    curve = CostCurve.measure(pair.target, (1, 4), (4,), repeats=3)
    assert curve.min_s[0][0] >= 0.004
    factories = {"model": drafter_factory("model", pair)}
    (cost,) = drafting_costs(pair.target, factories, [3], [[1, 2, 3]], curve, tokens=13)
    assert cost.rounds >= 1
    assert cost.draft_s >= 3 * 0.002
    assert cost.verify_s >= 0.004 and cost.plain_s >= 0.004
    assert cost.needed == (cost.draft_s + cost.verify_s + cost.host_s) / cost.plain_s
    assert cost.to_dict()["needed"] == cost.needed > 1


def test_drafting_needs_a_round():
    pair = load_pair("toy")
    curve = CostCurve("t", "measured", (1, 2), (0,), ((1.0, 1.0),), ((1.0, 1.0),))
    with pytest.raises(ValueError, match="tokens is 1"):
        drafting_costs(pair.target, {"ngram": drafter_factory("ngram", pair)}, [1], [[1, 2]], curve, tokens=1)


def test_the_machine(tmp_path, monkeypatch):
    machine = measure_machine(repeats=2, rows=512, width=256, square=64)
    assert machine.kind == "measured" and "specdec bench machine" in machine.source
    assert machine.bytes_per_s > 0 and set(machine.flops_per_s) == {"float32", "bfloat16"}
    assert machine.memory_bytes > 1e8
    assert str(torch.get_num_threads()) in machine.name
    with pytest.raises(ValueError, match="repeats is 0"):
        measure_machine(repeats=0)
    small = Hardware.from_dict(machine.to_dict())
    monkeypatch.setattr("specdec_labs.cli.bench_machine.measure_machine", lambda repeats: small)
    path = tmp_path / "machine.json"
    result = runner.invoke(app, ["bench", "machine", "--repeats", "2", "--json", str(path)])
    assert result.exit_code == 0, result.output
    assert Hardware.load(path) == machine
    assert f"ridge at {ridge_rows(machine, 'float32'):.0f} rows" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["curve", "--pair", "toy", "--rows", "0"], "rows is 0"),
        (["curve", "--pair", "toy", "--gamma", "-1"], "gamma is -1"),
        (["curve", "--pair", "toy", "--drafter", "oracle"], "drafter is 'oracle'"),
        (["curve", "--pair", "toy", "--html", "no-such-folder/x.html"], "cannot write"),
        (["machine", "--repeats", "0"], "repeats is 0"),
    ],
)
def test_bad_input(arguments, message):
    result = runner.invoke(app, ["bench", *arguments])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
