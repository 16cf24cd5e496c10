"""`specdec certify-shipped`: which combinations there are, what the report keeps, what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specdec_core.certificate import Certificate
from specdec_core.goodness import Fit
from specdec_core.rules import RULES
from specdec_labs.cli.app import app
from specdec_labs.shipped import command
from specdec_labs.shipped.certificates import Report, Strength
from specdec_labs.shipped.combinations import KINDS, combinations

runner = CliRunner()
ROOT = Path(__file__).resolve().parents[2]


def test_every_rule_that_takes_a_drafters_drafts_is_there() -> None:
    names = [own.name for own in combinations()]
    assert len(names) == len(set(names))
    for drafter, kind in KINDS.items():
        for rule in RULES.values():
            fits = rule.lossless and not rule.greedy_only and kind.proposal in rule.proposals
            fits = fits and (rule.takes_tree or not kind.branches) and (rule.name != "kseq" or kind.is_one_level)
            assert (f"tiny / {drafter} / {rule.name}" in names) == fits
    assert sum(own.pair == "smollm2" for own in combinations()) >= 3


def fake(verdict: str = "passed") -> Any:
    from specdec_core.certificate import PositionTest

    p_value = 0.5 if verdict == "passed" else 1e-9
    fit = Fit(chi_square=1.0, degrees=1, p_value=p_value, tv=0.01, tv_upper=0.05)
    return Certificate(
        tests=(PositionTest((1,), 2, fit, 0.01),), n=100, seed=1, bias=0.15, power=0.99, level=1e-4, p_value=p_value,
        coverage={"bonus": 3}, settings={}, mode="fixed", n_planned=100, e_value=None, impossible=0,
        first_impossible=None,
    )  # fmt: skip


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Certificates out of thin air: what is under test is the command around them."""
    names: list[str] = []

    def certificate_of(combination: Any, parts: Any, strength: Any, progress: Any = None) -> Certificate:
        if combination.rule == "block" and not names:
            raise KeyboardInterrupt
        names.append(combination.name)
        return fake("failed" if combination.rule == "match" else "passed")

    monkeypatch.setattr("specdec_labs.shipped.certificates.certificate_of", certificate_of)
    monkeypatch.setattr("specdec_labs.shipped.certificates.Parts", lambda name: type("P", (), {"name": name})())
    return names


def test_a_stopped_run_goes_on_where_it_was(made: list[str], tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    arguments = ["certify-shipped", "--plain-text", "--only", "tiny / model / ", "--json", str(file)]
    first = runner.invoke(app, [*arguments, "--only", "nothing"])
    assert first.exit_code == 1, "verify_match fails in this test"
    assert "not passed: tiny / model / match" in first.output
    count = len(made)
    again = runner.invoke(app, arguments)
    assert (again.exit_code, len(made)) == (1, count), "nothing is made twice"
    data = json.loads(file.read_text())
    assert data["certificates"]["tiny / model / chain"]["verdict"] == "passed"
    assert set(data["certificates"]["tiny / model / chain"]["weights"]) == {"tiny-target", "tiny-draft"}
    other = runner.invoke(app, [*arguments, "--bias", "0.3"])
    assert other.exit_code == 1
    assert len(made) == 2 * count, "asked for anything else, all are made anew"


def test_ctrl_c_keeps_what_is_there(made: list[str], tmp_path: Path) -> None:
    result = runner.invoke(app, ["certify-shipped", "--plain-text", "--only", "model / block"])
    assert result.exit_code == 130
    assert "interrupted with 0 of" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "no such"], "names no combination"),
        (["--greedy", "--only", "no such"], "names no drafter"),
        (["--json", "/nowhere/report.json"], "its folder does not exist"),
    ],
)
def test_bad_input_is_named(arguments: list[str], message: str) -> None:
    result = runner.invoke(app, ["certify-shipped", "--plain-text", *arguments])
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


def test_a_file_that_is_no_report_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"a": 1}')
    with pytest.raises(ValueError, match="is no report of certificates"):
        Report(file, Strength())


def test_without_smollm2_its_certificates_are_left_out(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_smollm2", lambda: None)
    result = runner.invoke(app, ["certify-shipped", "--plain-text", "--only", "eagle chain / "])
    assert "SmolLM2 is not installed" in result.output
    assert all(name.startswith("tiny") for name in made)
