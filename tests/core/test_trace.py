"""Traces: JSON there and back, versions, what is not a trace, saving without half-written files."""

import json
import math
from pathlib import Path

import pytest

from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.toy import toy_pair
from specdec_core.trace import SCHEMA, SCHEMA_VERSION, Trace
from specdec_core.warp import SamplingParams


@pytest.fixture
def traces(random_law, model_of) -> dict[str, Trace]:
    """One of each kind: sampled with tops, deterministic drafts, cut by a stop, prefill only, not started."""
    target, draft = (model_of(random_law(name, 5, zeros=False), 5) for name in ("trace p", "trace q"))
    sampled = Engine(target, ModelDrafter(draft), "chain", 3, record_top=4)
    params = SamplingParams(seed=2**64 - 1, logit_bias={1: -math.inf}, stop=(4,))
    toy, toy_draft = toy_pair()
    greedy = SamplingParams(temperature=0, stop=(7,))
    stream = sampled.stream([1], SamplingParams(seed=1), 5)
    return {
        "sampled": sampled.generate([1, 2], params, 30).trace,
        "deterministic": Engine(target, NGramDrafter(), "chain", 3, record_top=2)
        .generate([1, 2, 1, 2], None, 12)
        .trace,
        "stopped": Engine(toy, ModelDrafter(toy_draft), "chain", 4).generate([1, 2, 3], greedy, 16).trace,
        "prefill only": sampled.generate([1], SamplingParams(seed=1), 1).trace,
        "not started": stream.generation.trace,
    }


KINDS = ["sampled", "deterministic", "stopped", "prefill only", "not started"]


@pytest.mark.parametrize("kind", KINDS)
def test_json_there_and_back_is_the_same_trace(kind: str, traces: dict[str, Trace]) -> None:
    trace = traces[kind]
    trace.texts = {1: "é", 3: "\u4e2d\n"}
    again = Trace.from_dict(json.loads(trace.to_json()))
    assert again == trace
    assert again.rounds == trace.rounds
    assert again.to_json() == trace.to_json()
    assert hash(again.rounds[0]) == hash(trace.rounds[0]) if trace.rounds else True


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_there_and_back_is_the_same_trace(kind: str, traces: dict[str, Trace], tmp_path: Path) -> None:
    path = traces[kind].save(tmp_path / "trace.json")
    assert Trace.load(path) == traces[kind]
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.json"]


def test_the_json_is_strict_and_has_rounds_at_the_top(traces: dict[str, Trace]) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    data = json.loads(traces["sampled"].to_json(), parse_constant=refuse)
    assert (data["schema"], data["version"]) == (SCHEMA, SCHEMA_VERSION)
    assert isinstance(data["rounds"], list)
    assert data["settings"]["params"]["logit_bias"] == {"1": "-inf"}
    assert data["finish_reason"] in ("stop", "length")


def test_emitted_and_tokens(traces: dict[str, Trace]) -> None:
    trace = traces["stopped"]
    assert trace.emitted == (2, 0, 5, 1, 0, 8, 3, 9, 8, 6, 1, 7)
    assert trace.tokens == (1, 2, 3, *trace.emitted)
    assert Trace(prompt=(5,)).emitted == ()


@pytest.mark.parametrize("schema", [None, "specdec.rounds", 3])
def test_another_schema_is_refused(schema: object, traces: dict[str, Trace]) -> None:
    data = traces["stopped"].to_dict() | {"schema": schema}
    with pytest.raises(ValueError, match="schema is .*; expected 'specdec.trace'"):
        Trace.from_dict(data)


@pytest.mark.parametrize("version", [None, 0, SCHEMA_VERSION + 1, "1"])
def test_another_version_is_refused(version: object, traces: dict[str, Trace]) -> None:
    data = traces["stopped"].to_dict() | {"version": version}
    with pytest.raises(ValueError, match="version is .*; this release reads 1"):
        Trace.from_dict(data)


def test_a_file_of_version_1_says_nothing_of_the_drafters_prompt(traces: dict[str, Trace]) -> None:
    data = traces["stopped"].to_dict()
    assert data.pop("t_draft_prefill_s") > 0
    old = Trace.from_dict(data | {"version": 1})
    # it stands in the drafting time of round 1 there
    assert old.t_draft_prefill_s == 0 and old.rounds == traces["stopped"].rounds


@pytest.mark.parametrize("name", ["prompt", "rounds", "prefill_token", "settings", "texts"])
def test_a_missing_field_is_refused(name: str, traces: dict[str, Trace]) -> None:
    data = traces["stopped"].to_dict()
    del data[name]
    with pytest.raises(ValueError, match=f"incomplete or has unknown fields.*{name}"):
        Trace.from_dict(data)


@pytest.mark.parametrize("name", ["verdict", "gamma"])
def test_an_unknown_field_is_refused(name: str, traces: dict[str, Trace]) -> None:
    with pytest.raises(ValueError, match=f"incomplete or has unknown fields.*{name}"):
        Trace.from_dict(traces["stopped"].to_dict() | {name: 1})
    data = traces["stopped"].to_dict()
    data["rounds"][1][name] = 1
    with pytest.raises(ValueError, match=f"incomplete or has unknown fields.*{name}"):
        Trace.from_dict(data)


@pytest.mark.parametrize("name", ["uniforms", "top"])
def test_a_round_with_a_missing_field_is_refused(name: str, traces: dict[str, Trace]) -> None:
    data = traces["stopped"].to_dict()
    del data["rounds"][0][name]
    with pytest.raises(ValueError, match=f"incomplete or has unknown fields.*{name}"):
        Trace.from_dict(data)


@pytest.mark.parametrize(
    "change", [{"rounds": [3]}, {"rounds": 3}, {"texts": []}, {"prompt": None}, {"texts": {"x": "a"}}]
)
def test_fields_of_another_kind_are_refused(change: dict[str, object], traces: dict[str, Trace]) -> None:
    with pytest.raises(ValueError, match="incomplete or has unknown fields"):
        Trace.from_dict(traces["stopped"].to_dict() | change)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '"trace"', "3", "null"])
def test_a_file_that_is_no_trace_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="not JSON|not a trace"):
        Trace.load(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="other.json"):
        Trace.load(path)


def test_half_a_file_is_refused(traces: dict[str, Trace], tmp_path: Path) -> None:
    path = traces["stopped"].save(tmp_path / "trace.json")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="not JSON"):
        Trace.load(path)


def test_a_save_that_cannot_be_written_down_leaves_the_old_file(traces: dict[str, Trace], tmp_path: Path) -> None:
    path = traces["stopped"].save(tmp_path / "trace.json")
    before = path.read_bytes()
    broken = traces["sampled"]
    broken.settings = {"model": object()}
    with pytest.raises(TypeError):
        broken.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.parametrize("moment", ["write_bytes", "replace"])
def test_a_save_that_is_stopped_leaves_no_half_written_file(
    moment: str, traces: dict[str, Trace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = traces["stopped"].save(tmp_path / "trace.json")
    before = path.read_bytes()
    write = Path.write_bytes

    def stopped(self: Path, *args: object, **kwargs: object) -> None:
        if moment == "write_bytes":
            write(self, b"half of i")
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, moment, stopped)
    with pytest.raises(KeyboardInterrupt):
        traces["sampled"].save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.json"]


def test_a_save_replaces_an_older_trace(traces: dict[str, Trace], tmp_path: Path) -> None:
    traces["stopped"].save(tmp_path / "trace.json")
    traces["sampled"].save(str(tmp_path / "trace.json"))
    assert Trace.load(tmp_path / "trace.json") == traces["sampled"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("emitted", "abc"),
        ("emitted", [1, "2"]),
        ("num_accepted", 1.5),
        ("kind", "lost"),
        ("path", None),
        ("length", True),
    ],
)
def test_a_value_of_another_kind_is_named(name: str, value, traces: dict[str, Trace]) -> None:
    data = traces["sampled"].to_dict()
    data["rounds"][0][name] = value
    with pytest.raises(ValueError, match=rf"{name} of rounds\[0\] is"):
        Trace.from_dict(data)
