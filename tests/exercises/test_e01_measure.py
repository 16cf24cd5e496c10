"""E01's measurement: the reference reproduces the target's law, redrawing from p does not."""

import importlib.util
from pathlib import Path
import subprocess
import sys

FOLDER = Path(__file__).resolve().parents[2] / "exercises" / "E01_residual"
ROUNDS = 3000


def _measure():
    spec = importlib.util.spec_from_file_location("e01_measure", FOLDER / "measure.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MEASURE = _measure()


def test_the_reference_gives_the_target_law() -> None:
    outputs = MEASURE.count_outputs(MEASURE.load_residual(FOLDER / "solution.py"), ROUNDS, seed=1)
    off = [MEASURE.standard_errors(outputs[token], ROUNDS, mass) for token, mass in enumerate(MEASURE.TARGET)]
    assert sum(outputs.values()) == ROUNDS and max(map(abs, off)) < 4
    assert outputs[2] == 0  # P02: the token the target forbids never comes out


def test_redrawing_from_the_target_is_seen() -> None:
    outputs = MEASURE.count_outputs(lambda p, q: p, ROUNDS, seed=1)
    # cat then comes out with 0.2 + 0.5 * 0.6 = 0.5 in place of 0.6
    assert abs(MEASURE.standard_errors(outputs[0], ROUNDS, 0.5)) < 4
    assert MEASURE.standard_errors(outputs[0], ROUNDS, MEASURE.TARGET[0]) < -8


def test_the_command_prints_a_line_a_token() -> None:
    command = [sys.executable, str(FOLDER / "measure.py"), str(FOLDER / "solution.py"), "200", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "200 rounds, seed 5"
    assert [line.split()[0] for line in lines[2:]] == list(MEASURE.TOKENS)
