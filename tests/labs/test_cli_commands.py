"""The commands as a whole: help is quick, exercises are wired, unknown options end in exit code 2."""

from pathlib import Path
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from specdec_labs.cli.app import app

runner = CliRunner()


def test_help_loads_neither_torch_nor_transformers() -> None:
    program = (
        "import sys; sys.argv = ['specdec', '--help']\n"
        "from specdec_labs.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'torch', 'transformers', 'numpy', 'scipy', 'IPython'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    for command in (
        "demo",
        "certify",
        "certify-shipped",
        "audit",
        "museum",
        "precision",
        "doctor",
        "start",
        "check",
        "grade",
        "hint",
        "course",
        "bench",
    ):
        assert command in result.stdout


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "certify",
        "certify-shipped",
        "audit transformers",
        "audit vllm",
        "audit flashinfer",
        "audit position-keys",
        "museum",
        "precision",
        "doctor",
        "start",
        "check",
        "grade",
        "hint",
        "course build",
        "bench host",
        "bench rules",
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    result = runner.invoke(app, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_an_unknown_option_is_exit_code_2() -> None:
    assert runner.invoke(app, ["demo", "--gama", "3"]).exit_code == 2
    assert runner.invoke(app, ["demo", "--gamma", "three"]).exit_code == 2
    assert runner.invoke(app, ["no-such-command"]).exit_code == 2


def test_start_check_and_grade_an_exercise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDEC_FAST", "1")  # nothing is noted as the learner's progress
    folder = tmp_path / "E01_residual"
    started = runner.invoke(app, ["start", "E01", "--directory", str(folder)])
    assert started.exit_code == 0, started.output
    path = folder / "residual.py"
    assert path.is_file()
    report = tmp_path / "report.json"
    starter = runner.invoke(app, ["check", str(path), "--exercise", "E01", "--json", str(report)])
    assert starter.exit_code == 1, starter.output
    assert report.is_file()
    path.write_text((Path(__file__).parents[2] / "exercises/E01_residual/solution.py").read_text(encoding="utf-8"))
    solution = runner.invoke(app, ["grade", str(path), "--out", str(tmp_path / "graded")])
    assert solution.exit_code == 0, solution.output


def test_an_unknown_exercise_is_named() -> None:
    result = runner.invoke(app, ["start", "E98"])
    assert result.exit_code == 2
    assert "E98" in result.stderr
    assert "Traceback" not in result.output


def test_a_closed_pipe_is_no_traceback() -> None:
    program = "from specdec_labs.cli import main; main()"
    command = [sys.executable, "-c", program, "demo", "--pair", "toy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        errors = process.stderr.read().decode()
    assert "Traceback" not in errors
