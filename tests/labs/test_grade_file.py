"""Grading a file in a process of its own: whatever it does, each property gets a result with its reason."""

import json
import os
from pathlib import Path
import time
from xml.etree import ElementTree

import pytest

from specdec_labs.cli.start import grade_command
from specdec_labs.grade import grade_file

SOLUTION = """
def rejection_probability(p, q):
    return sum(max(a - b, 0) for a, b in zip(p, q))

def residual(p, q):
    excess = [max(a - b, 0) for a, b in zip(p, q)]
    if sum(excess) == 0:
        return list(p)
    return [mass / sum(excess) for mass in excess]
"""
LOOPS_WHEN_EQUAL = SOLUTION.replace("return list(p)", "\n        while True: pass")


def write(folder: Path, text: str, name: str = "residual.py") -> Path:
    """A learner's file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_right_file_passes_and_hidden_cases_are_named(tmp_path: Path) -> None:
    report = grade_file(write(tmp_path, SOLUTION), "e01", hidden_seed=11)
    assert report.ok and len(report.results) == 18
    assert report.summary == "public checks passed (9), hidden checks passed (9), seed 11"
    assert report.notes == () and report.diagnoses == ()
    assert [path.name for path in tmp_path.iterdir()] == ["residual.py"]


def test_a_wrong_file_gets_its_diagnosis(tmp_path: Path) -> None:
    report = grade_file(write(tmp_path, SOLUTION + "\ndef residual(p, q):\n    return list(p)\n"), "E01")
    assert not report.ok and report.diagnoses[0].startswith("draws_from_p: ")
    assert report.notes == (
        "residual is defined 2 times in residual.py; Python keeps the last one, and that one is graded",
    )


def test_p70_an_endless_loop_is_cut_and_the_rest_kept(tmp_path: Path) -> None:
    began = time.monotonic()
    report = grade_file(write(tmp_path, LOOPS_WHEN_EQUAL), "E01", timeout_s=4)
    assert time.monotonic() - began < 30
    assert report.result("recovers_the_target").status == "passed"
    stuck = report.result("equal_laws_fall_back_to_p")
    assert stuck.status == "error" and "longer than the limit of 4 s" in stuck.detail
    after = report.result("works_on_floats_too")
    assert after.status == "error" and after.detail.startswith("not reached: at equal_laws_fall_back_to_p")
    assert len(report.results) == 9 and report.score == 5 / 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ValueError('broken cell')", "ValueError: broken cell"),
        ("import sys\nsys.exit(0)", "SystemExit"),
        ("exit()", "SystemExit"),
        ("def residual(p, q)\n    pass", "SyntaxError"),
        ("name = input('who?')", "EOFError"),
        ("import missing_module_of_mine", "ModuleNotFoundError"),
        ("import os\nos._exit(0)", "ended with code 0 before"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "ended with code -11 before"),
        ("while True: pass", "longer than the limit"),
        ("numbers = bytearray(64 * 2**30)", "MemoryError"),
        ("while True: print('x' * 100000)", ""),
    ],
    ids=["raises", "exits", "exit", "syntax", "input", "import", "hard exit", "crash", "loop", "memory", "output"],
)
def test_p70_a_file_that_cannot_load_scores_zero_with_its_reason(tmp_path: Path, text: str, said: str) -> None:
    report = grade_file(write(tmp_path, SOLUTION + "\n" + text + "\n"), "E01", timeout_s=4)
    assert report.score == 0 and len(report.results) == 9
    assert {result.status for result in report.results} == {"error"}
    assert said in report.results[0].detail


def test_p70_exit_in_one_function_leaves_the_other_graded(tmp_path: Path) -> None:
    text = SOLUTION + "\ndef rejection_probability(p, q):\n    exit()\n"
    report = grade_file(write(tmp_path, text), "E01")
    assert report.result("beta_is_the_refused_mass").status == "error"
    assert report.score == 8 / 9


def test_starter_reads_as_not_started(root: Path) -> None:
    report = grade_file(root / "exercises" / "E01_residual" / "starter.py", "E01")
    assert {result.status for result in report.results} == {"not started"} and report.score == 0


def test_replaced_builtins_do_not_change_the_grade(tmp_path: Path) -> None:
    cheat = "\nimport builtins\nbuiltins.abs = lambda x: 0\nbuiltins.all = builtins.any = lambda *_: True\n"
    wrong = SOLUTION + "\ndef residual(p, q):\n    return list(p)\n"
    honest = grade_file(write(tmp_path, wrong, "honest.py"), "E01")
    bent = grade_file(write(tmp_path, wrong + cheat, "bent.py"), "E01")
    assert [result.status for result in bent.results] == [result.status for result in honest.results]


def test_a_learners_neighbour_files_import_but_do_not_shadow_the_library(tmp_path: Path) -> None:
    write(tmp_path, "raise RuntimeError('shadowed')", "json.py")
    write(tmp_path, "def positive(x):\n    return x if x > 0 else 0\n", "my_parts.py")
    text = "from my_parts import positive\n" + SOLUTION.replace("max(a - b, 0)", "positive(a - b)")
    report = grade_file(write(tmp_path, text), "E01")
    assert report.ok, str(report)


def test_prints_and_threads_do_not_disturb(tmp_path: Path) -> None:
    text = SOLUTION + "\nimport threading, time\nprint('hello there')\n"
    text += "threading.Thread(target=time.sleep, args=(60,)).start()\n"
    began = time.monotonic()
    report = grade_file(write(tmp_path, text), "E01", timeout_s=30)
    assert time.monotonic() - began < 25
    assert report.ok and report.notes == ("your file printed (last lines): hello there",)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups are a POSIX feature")
def test_processes_a_file_started_are_ended(tmp_path: Path) -> None:
    text = "import subprocess, sys\nprocess = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    text += "print(process.pid)\n" + SOLUTION
    report = grade_file(write(tmp_path, text), "E01")
    pid = int(report.notes[0].rsplit(" ", 1)[1])
    for _ in range(50):
        if not _runs(pid):
            return
        time.sleep(0.1)
    pytest.fail("a process that the learner's file started is still running")


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc").is_dir():
        return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_wrong_use_of_grade_file(tmp_path: Path) -> None:
    path = write(tmp_path, SOLUTION)
    with pytest.raises(ValueError, match="there are checks for: E01"):
        grade_file(path, "E55")
    with pytest.raises(ValueError, match="existing .py file"):
        grade_file(tmp_path / "none.py", "E01")
    with pytest.raises(ValueError, match="existing .py file"):
        grade_file(tmp_path, "E01")
    with pytest.raises(ValueError, match="timeout_s is 0"):
        grade_file(path, "E01", timeout_s=0)


def test_command_writes_json_and_junit_and_returns_a_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "E01_residual"
    folder.mkdir()
    good = write(folder, SOLUTION)
    assert grade_command(good, json_path=tmp_path / "out.json", junit_path=tmp_path / "out.xml") == 0
    assert "public checks passed (9), hidden not run" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["ok"] is True
    assert ElementTree.parse(tmp_path / "out.xml").getroot().get("tests") == "9"
    assert grade_command(write(folder, "residual = 3"), "E01") == 1
    with pytest.raises(ValueError, match="its folder does not exist"):
        grade_command(good, "E01", json_path=tmp_path / "nowhere" / "out.json")
    with pytest.raises(ValueError, match="expected a form like E01"):
        grade_command(write(tmp_path, SOLUTION))
