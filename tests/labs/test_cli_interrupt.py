"""Ctrl-C: what there is gets shown and written, no traceback, exit code 130."""

from dataclasses import replace
import os
from pathlib import Path
import signal
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

from specdec_core.certify_greedy import certify_greedy
from specdec_core.engine import Engine
from specdec_core.toy import toy_pair
from specdec_core.trace import Generation, Trace
from specdec_core.warp import SamplingParams
from specdec_labs.cli.app import app

posix_only = pytest.mark.skipif(os.name != "posix", reason="sends SIGINT, which only POSIX systems deliver like Ctrl-C")

FIRST_MARKS = ".^" + "===^" * 14 + "=\n"  # a full line of the TOY pair at gamma 4 and 60 columns

# the toy pair at the pace of a real model, so that there is a middle to interrupt
SLOW_TOY = """
import signal, sys, time
# a job started in the background has SIGINT ignored, and its children inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)
from specdec_core import toy
make = toy.toy_pair
def slow_pair():
    target, draft = make()
    forward = target.forward
    def slow(*args, **kwargs):
        time.sleep({pause})
        return forward(*args, **kwargs)
    target.forward = slow
    return target, draft
toy.toy_pair = slow_pair
sys.argv = ["specdec", *{arguments}]
from specdec_labs.cli import main
main()
"""


def interrupt(arguments: list[str], *, when: str, pause: float = 0.05) -> tuple[int, str, str]:
    """Runs `specdec`, sends SIGINT as soon as its output holds `when`: exit code, output, errors."""
    program = SLOW_TOY.format(pause=pause, arguments=arguments)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "60", "OMP_NUM_THREADS": "1"},
    )
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    seen = b""
    while when.encode() not in seen:
        chunk = os.read(process.stdout.fileno(), 4096)
        assert chunk, f"ended before {when!r} was shown: {seen.decode()} {process.stderr.read().decode()}"
        seen += chunk
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate()
    watchdog.cancel()
    return process.returncode, (seen + rest).decode(), errors.decode()


@posix_only
def test_while_text_streams(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    # a line of marks appears when the line is full, long before 400 tokens are there
    code, output, errors = interrupt(
        ["demo", "--pair", "toy", "--max-new-tokens", "400", "--json", str(path)], when=FIRST_MARKS
    )
    assert (code, errors) == (130, "")
    assert "interrupted" in output
    assert "acceptance rate" in output
    trace = Trace.load(path)
    assert trace.finish_reason == "interrupted"
    assert 0 < len(trace.rounds) < 100
    digits = "".join(str(token) for token in trace.emitted)
    lines = output.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("20510839"))
    shown = "".join(line for line in lines[first:] if line.isdigit())
    assert shown == digits
    assert list(tmp_path.iterdir()) == [path]


@posix_only
def test_while_measuring(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    code, output, errors = interrupt(
        ["demo", "--pair", "toy", "--max-new-tokens", "64", "--repeats", "1000", "--json", str(path)],
        when=FIRST_MARKS,
        pause=0.02,
    )
    assert (code, errors) == (130, "")
    assert "interrupted" in output
    assert Trace.load(path).emitted


@posix_only
def test_before_the_first_token(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    code, output, errors = interrupt(["demo", "--pair", "toy", "--json", str(path)], when="prompt", pause=3)
    assert code == 130
    assert "Traceback" not in errors
    assert "interrupted" in output + errors
    assert Trace.load(path).emitted == ()


def test_while_certifying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate, calls = Engine.generate, []

    def interrupted(engine: Engine, *args, **kwargs) -> Generation:
        calls.append(1)
        generation = generate(engine, *args, **kwargs)
        return generation if len(calls) < 120 else replace(generation, finish_reason="interrupted")

    monkeypatch.setattr(Engine, "generate", interrupted)
    path = tmp_path / "certificate.json"
    result = CliRunner().invoke(app, ["certify", "--pair", "toy", "--n", "400", "--json", str(path)])
    assert result.exit_code == 130
    assert "interrupted after 100 samples: no verdict" in result.stdout
    assert list(tmp_path.iterdir()) == []


@posix_only
def test_while_the_laws_are_computed() -> None:
    code, output, errors = interrupt(["certify", "--pair", "toy"], when="loaded", pause=0.5)
    assert code == 130
    assert "interrupted" in output + errors
    assert "Traceback" not in errors


def test_a_greedy_certificate_does_not_judge_half_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    target, _ = toy_pair()
    forward, calls = target.forward, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return forward(*args, **kwargs)

    monkeypatch.setattr(target, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        certify_greedy(Engine(target), [[1, 2, 3]], 16, params=SamplingParams(temperature=0))
