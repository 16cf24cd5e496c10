"""The commands as a whole: help is quick, exercises are wired, unknown options end in exit code 2."""

import os
from pathlib import Path
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from specdec_labs.cli.app import ORDER, app

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


def test_the_first_commands_are_those_a_newcomer_needs() -> None:
    lines = runner.invoke(app, ["--help"]).output.partition("Commands")[2].splitlines()
    listed = [line.split()[1] for line in lines if line[2:3].isalpha()]
    assert listed == list(ORDER)
    assert listed[:4] == ["demo", "doctor", "start", "check"]


@pytest.mark.parametrize("command", ["", "demo", "bench", "bench kernels", "audit vllm"])
def test_what_takes_no_value_shows_no_type(command: str) -> None:
    output = runner.invoke(app, [*command.split(), "--help"]).output
    assert "--help" in output and "<bool>" not in output
    assert "<int>" in output or command not in ("demo", "audit vllm")


@pytest.mark.parametrize(
    ("settings", "ascii_only"), [({"PYTHONIOENCODING": "ascii"}, True), ({"LC_ALL": "C"}, False), ({}, False)]
)
def test_rules_are_drawn_in_what_the_output_is_encoded_in(settings: dict[str, str], ascii_only: bool) -> None:
    """Python itself takes the C locale for UTF-8 (PEP 538, PEP 540); where it does not, lines are ASCII."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PYTHON"))}
    program = [sys.executable, "-c", "from specdec_labs.cli import main; main()", "--help"]
    result = subprocess.run(program, env=environment | {"LANG": "C.UTF-8"} | settings, capture_output=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.isascii() is ascii_only
    assert b"?" not in result.stdout
    assert (b"+- Commands --" if ascii_only else "╭─ Commands ──".encode()) in result.stdout
