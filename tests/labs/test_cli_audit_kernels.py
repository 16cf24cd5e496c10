"""`specdec audit kernels`: what it prints, writes and answers; the certificates themselves are tested elsewhere."""

from dataclasses import replace
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from specdec_core.certificate import Certificate
from specdec_labs.cli.app import app
from specdec_labs.cli.audit_kernels import _table
from specdec_labs.kernel_law import certified as law

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

runner = CliRunner()


def run(*arguments: str):
    return runner.invoke(app, ["audit", "kernels", *arguments])


def test_a_small_run_writes_what_it_found_and_has_no_verdict(tmp_path: Path) -> None:
    path = tmp_path / "law.json"
    result = run("--only", "chain", "--samples", "100", "--json", str(path))
    assert result.exit_code == 1, result.output
    assert "no verdict: WRONG" in result.stdout
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["command"] == "specdec audit kernels --only chain --samples 100 --seed 0"
    (finding,) = data["findings"]
    assert (finding["name"], finding["certificate"]["n"]) == ("chain", 100)
    assert finding["coverage"]["rounds"] >= 200


@pytest.fixture(scope="module")
def honest() -> law.Finding:
    return law.certified(law.chosen(["chain"])[0], n=60)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, honest: law.Finding):
    """Makes `certified` answer at once, by the verdict of each name."""

    def answer(verdicts: dict[str, str]) -> None:
        def certified(subject, *, n, seed):
            if verdicts[subject.name] == "interrupt":
                raise KeyboardInterrupt
            p_value, power = (0.0, 1.0) if verdicts[subject.name] == "failed" else (1.0, 1.0)
            certificate: Certificate = replace(honest.certificate, p_value=p_value, power=power)
            return replace(honest, subject=subject, certificate=certificate)

        monkeypatch.setattr(law, "certified", certified)

    return answer


@pytest.mark.parametrize(
    ("chain", "mutant", "code", "right"),
    [("passed", "failed", 0, 2), ("failed", "failed", 1, 1), ("passed", "passed", 1, 1)],
)
def test_a_kernel_must_pass_and_a_mutant_must_not(chain, mutant, code, right, answers) -> None:
    answers({"chain": chain, "chain-stale-row": mutant})
    result = run("--only", "chain", "--only", "chain-stale-row")
    assert result.exit_code == code
    assert f"{right}/2 as they should be" in result.stdout


def test_ctrl_c_writes_nothing(answers, tmp_path: Path) -> None:
    answers({"chain": "passed", "block": "interrupt"})
    path = tmp_path / "law.json"
    result = run("--only", "chain", "--only", "block", "--json", str(path))
    assert result.exit_code == 130
    assert "interrupted after 1 of 2 kernels; no file is written" in result.stdout
    assert not path.exists()


def test_what_cannot_be_run_is_exit_code_2() -> None:
    assert run("--only", "gibbs").exit_code == 2
    assert run("--samples", "0").exit_code == 2


def test_no_word_of_the_table_is_cut_on_80_columns() -> None:
    name = "recursive-without-replacement-1-pass"
    tests = [SimpleNamespace(fit=SimpleNamespace(tv=0.064), noise_tv=0.023)]
    certificate = SimpleNamespace(tests=tests, verdict="failed", n=5376, p_value=1.4e-168, power=0.991, bias=0.06)
    finding = SimpleNamespace(subject=SimpleNamespace(name=name), is_right=False, certificate=certificate)
    shown = io.StringIO()
    Console(file=shown, width=80).print(_table([finding]))
    assert all(word in shown.getvalue() for word in (name, "rejected:", "WRONG", "0.064 (0.023)"))
    assert "…" not in shown.getvalue()
