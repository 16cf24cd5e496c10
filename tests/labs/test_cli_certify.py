"""`specdec certify` on the toy pair: passes for the real rule, fails for a wrong one, says what it did."""

from dataclasses import replace
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specdec_core.memo import MemoisedModel
from specdec_core.models.pairs import load_pair
from specdec_core.residual import mass
from specdec_core.rules import RULES, Verdict
from specdec_core.toy import PrefixModel
from specdec_labs.cli.app import app
from specdec_labs.cli.certify import certifiable
from specdec_labs.cli.json_file import write_json

runner = CliRunner()


def certify(*arguments: str):
    return runner.invoke(app, ["certify", "--pair", "toy", *arguments])


def redraws_from_p(draft_tokens, draft_probs, target_probs, coins) -> Verdict:
    """The classic mistake: after a refusal it draws from p, not from the residual."""
    for i, token in enumerate(draft_tokens):
        if not coins.accept(mass(target_probs[i], token), mass(draft_probs[i], token), node=i):
            return Verdict(i, tuple(range(i)), coins.draw(target_probs[i], node=i, purpose="recover"), "recovered")
    count = len(draft_tokens)
    return Verdict(count, tuple(range(count)), coins.draw(target_probs[count], node=count, purpose="bonus"), "bonus")


def test_the_chain_rule_passes(tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    result = certify("--n", "600", "--bias", "0.2", "--json", str(path))
    assert result.exit_code == 0, result.output
    assert "Indistinguishable from the target's law over the first 5 tokens" in " ".join(result.stdout.split())
    assert "rounds seen:" in result.stdout
    assert "So the bound may well exceed 0.2." in " ".join(result.stdout.split())
    assert "Not exercised" not in result.stdout
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["passed"] is True and data["verdict"] == "passed"
    assert data["n"] == 600
    assert data["memo"] is True
    assert data["coverage"]["second_round"] == 600
    assert data["hardware"]["torch"]
    assert [path] == list(tmp_path.iterdir())
    for label in ("token 1 ", "tokens 1-5 ", "tokens 2 and 5 "):
        assert label in result.stdout


def test_without_memo_the_engine_reads_the_models_themselves() -> None:
    pair = load_pair("toy")
    direct, oracle = certifiable(
        pair, drafter="model", draft_temperature=None, rule="chain", gamma=2, prompt_length=3, memo=False
    )
    assert direct.target is pair.target
    assert isinstance(oracle, MemoisedModel)
    remembered, oracle = certifiable(
        pair, drafter="model", draft_temperature=None, rule="chain", gamma=2, prompt_length=3
    )
    assert remembered.target is oracle
    assert isinstance(remembered.drafter.model, MemoisedModel)
    result = certify("--no-memo", "--n", "300", "--bias", "0.3")
    assert result.exit_code == 0, result.output
    assert "--no-memo" not in result.stdout


def test_a_wrong_rule_fails_with_exit_code_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(RULES, "chain", replace(RULES["chain"], verify=redraws_from_p))
    path = tmp_path / "certificate.json"
    result = certify("--n", "800", "--json", str(path))
    assert result.exit_code == 1, result.output
    assert "NOT the target's law" in result.stdout
    assert json.loads(path.read_text(encoding="utf-8"))["passed"] is False


def test_a_sequential_certificate_stops_early_and_is_drawn(tmp_path: Path) -> None:
    path, page = tmp_path / "c.json", tmp_path / "c.html"
    result = certify("--sequential", "--bias", "0.25", "--json", str(path), "--plot", str(page))
    assert result.exit_code == 0, result.output
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["mode"] == "sequential"
    assert data["n"] < data["n_planned"]
    text = " ".join(result.stdout.split())
    assert f"stopped after {data['n']} of at most {data['n_planned']} samples" in text
    assert "1000 rejects" in text
    drawn = page.read_text(encoding="utf-8")
    assert data["sentence"].replace("'", "&#x27;") in drawn
    assert {path, page} == set(tmp_path.iterdir())


def test_a_wrong_rule_is_caught_early_and_drawn_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(RULES, "chain", replace(RULES["chain"], verify=redraws_from_p))
    page = tmp_path / "c.html"
    result = certify("--sequential", "--plot", str(page))
    assert result.exit_code == 1, result.output
    planned = int(result.stdout.split("of at most ")[1].split()[0])
    assert int(result.stdout.split("stopped after ")[1].split()[0]) < planned / 4
    assert "<h1>Certificate: failed</h1>" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(("bias", "wanted"), [("0.3", 0.9), ("0.2", 0.99)])
def test_the_default_n_has_the_power_asked_for(bias: str, wanted: float) -> None:
    result = certify("--bias", bias, "--power", str(wanted))
    text = " ".join(result.stdout.split())
    assert result.exit_code == 0, result.output
    found = float(text.split(f"a distance of {bias} would be caught with probability ")[1].split(",")[0].split(" ")[0])
    # samples and cells are chosen together, so that no more is taken than the power asked for needs
    assert wanted <= found < 1 - (1 - wanted) * 0.7


def test_few_samples_give_no_verdict_and_no_false_alarm() -> None:
    """Cells that expect less than a few samples used to call the exact rule wrong."""
    for seed in range(8):
        result = certify("--n", "40", "--seed", str(seed))
        assert "NOT the target's law" not in result.output
        assert result.exit_code in (1, 2)


def test_a_lossy_rule_is_never_called_indistinguishable_without_power(tmp_path: Path) -> None:
    path, page = tmp_path / "c.json", tmp_path / "c.html"
    result = certify("--rule", "relaxed", "--n", "200", "--json", str(path), "--plot", str(page))
    assert result.exit_code == 1
    data = json.loads(path.read_text(encoding="utf-8"))
    assert (data["verdict"], data["passed"]) == ("no verdict", False)
    assert "<h1>Certificate: no verdict</h1>" in page.read_text(encoding="utf-8")
    assert "Indistinguishable" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--temperature", "0"], "use certify_greedy"),
        (["--temperature", "0.5"], "one continuation"),
        (["--n", "0"], "n is 0"),
        (["--gamma", "-1"], "gamma is -1"),
        (["--bias", "2"], "bias is 2"),
        (["--power", "1"], "power is 1"),
        (["--rule", "greedy"], "rule 'greedy'"),
        (["--drafter", "oracle"], "drafter is 'oracle'"),
        (["--threads", "-1"], "threads is -1"),
        (["--prompt", ""], "the prompt is empty"),
        (["--json", "no-such-folder/c.json"], "cannot write"),
        (["--plot", "no-such-folder/c.html"], "cannot write"),
        (["--json", "/proc/c.json"], "its folder takes no new file"),
        (["--plot", "/proc/c.html"], "its folder takes no new file"),
        (["--n", "5"], "n is 5; expected more samples"),
        (["--json", "same", "--plot", "same"], "each a file of its own"),
    ],
)
def test_bad_input(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = certify(*arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_infinite_numbers_are_written_as_strings(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    write_json(path, {"chi_square": float("inf"), "cells": (1, 2.5)})
    data = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert data["chi_square"] == "inf"
    assert data["cells"] == [1, 2.5]


def test_a_context_too_short_for_the_tokens_under_test_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from specdec_core import toy

    def short_pair(max_length: int = 6) -> tuple[PrefixModel, PrefixModel]:
        return toy_pair(max_length)

    toy_pair = toy.toy_pair
    monkeypatch.setattr(toy, "toy_pair", short_pair)
    result = certify("--n", "50")
    assert result.exit_code == 2, result.output
    assert "context" in result.stderr
