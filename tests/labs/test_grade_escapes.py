"""`specdec grade` against submissions that change the grader's files or leave processes behind. No test leaves any."""

from collections.abc import Iterator
from contextlib import suppress
import json
import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from specdec_labs.cli.grading import grade_command
from specdec_labs.grade import orphans, submission

Submissions = Any
"""The fixture of `conftest.py`."""

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are adopted on Linux alone")

LEAVES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-S", "-c", {code!r}], {{}})
    os._exit(0)
for _ in range(1000):
    if os.path.exists({noted!r}):
        break
    time.sleep(0.01)
"""
STAYS = """
import os, time
open({noted!r} + ".part", "w").write(str(os.getpid()))
os.rename({noted!r} + ".part", {noted!r})
time.sleep(20)
"""
# forks and leaves: who looks at it has an old number in hand. The file grows while it goes on, and ends it when gone
RUNS_AWAY = """
import os, time
end = time.monotonic() + 20
open({noted!r}, "w").close()
while time.monotonic() < end:
    beat = os.open({noted!r}, os.O_WRONLY | os.O_APPEND)
    os.write(beat, b".")
    os.close(beat)
    if os.fork():
        os._exit(0)
"""


@pytest.fixture
def clone(submissions: Submissions, monkeypatch: pytest.MonkeyPatch, root: Path) -> Path:
    """A small clone around the current folder, with exercises of its own that may be spoilt."""
    folder = submissions.folder / "clone"
    (folder / "specdec_core").mkdir(parents=True)
    for name in ("E01_residual", "E07_trees"):
        shutil.copytree(root / "exercises" / name, folder / "exercises" / name)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def noted(submissions: Submissions) -> Iterator[Path]:
    """Where a process notes its number, or that it runs; it ends here when the grader did not end it."""
    path = submissions.folder / "noted"
    yield path
    if path.is_file() and path.read_text(encoding="utf-8").isdigit():
        with suppress(ProcessLookupError):
            os.kill(int(path.read_text(encoding="utf-8")), signal.SIGKILL)
    path.unlink(missing_ok=True)


def in_function(body: str) -> str:
    """A wrong answer that runs this first, once."""
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return f"\nDONE = []\ndef residual(p, q):\n    if not DONE:\n        DONE.append(1)\n{lines}    return list(p)\n"


def test_a_rewritten_wrong_answer_is_not_run_by_the_checker_and_said_loudly(
    submissions: Submissions, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt = clone / "exercises" / "E07_trees" / "wrong_positions.py"
    ran = submissions.folder / "ran"
    code = f"open({str(ran)!r}, 'w').close()\n"
    path = submissions.write(
        submissions.good + submissions.others + in_function(f"open({str(spoilt)!r}, 'w').write({code!r})")
    )
    assert grade_command(path, out=submissions.folder, seed=1, timeout_s=5) == 1
    printed = capsys.readouterr().out
    assert spoilt.read_text(encoding="utf-8") == code
    assert not ran.exists(), "the checker ran code of the submission in its own process"
    assert f"changed while the submission ran: {spoilt.relative_to(clone)}." in printed and "WARNING" in printed
    data = json.loads((submissions.folder / "submission.json").read_text(encoding="utf-8"))
    assert data["ok"] is False and "wrong_positions.py" in data["alarms"][0]


@pytest.mark.parametrize("change", ["unlink", "touch"])
def test_a_file_that_is_gone_or_new_is_said_though_all_is_right(
    submissions: Submissions, clone: Path, change: str
) -> None:
    folder = clone / "exercises" / "E01_residual"
    path = folder / ("hints.md" if change == "unlink" else "wrong_other.py")
    text = submissions.good + f"\nimport pathlib\nold = residual\ndef residual(p, q):\n    path = {str(path)!r}\n"
    text += f"    if pathlib.Path(path).exists() == {change == 'unlink'}:\n        pathlib.Path(path).{change}()\n"
    reports = submissions.grade(text + "    return old(p, q)\n", "E01")
    assert reports.of("E01.residual").ok and not reports.ok
    (alarm,) = reports.alarms
    assert str(path.relative_to(clone)) in alarm


def test_an_honest_submission_raises_no_alarm(submissions: Submissions, clone: Path) -> None:
    reports = submissions.grade(submissions.good, "E01")
    assert reports.ok and reports.alarms == ()


def test_wrong_answers_that_an_earlier_submission_spoilt_stop_the_grading(
    submissions: Submissions, clone: Path
) -> None:
    (clone / "exercises" / "E01_residual" / "wrong_residual.py").write_text("broken(", encoding="utf-8")
    with pytest.raises(ValueError, match=r"of E01\.residual cannot be loaded \(SyntaxError.*git restore"):
        submissions.grade(submissions.good, "E01")


@needs_linux
def test_a_process_without_group_and_environment_is_ended_before_results_are_written(
    submissions: Submissions, noted: Path
) -> None:
    code = STAYS.format(noted=str(noted))
    text = submissions.good + in_function(LEAVES.format(code=code, noted=str(noted)))
    assert grade_command(submissions.write(text), out=submissions.folder, seed=1, timeout_s=15) == 1
    pid = int(noted.read_text(encoding="utf-8"))
    assert not Path(f"/proc/{pid}").exists(), "it could rewrite the results now"
    assert json.loads((submissions.folder / "submission.json").read_text(encoding="utf-8"))["points"] < 9


@needs_linux
def test_one_that_forks_and_leaves_for_ever_is_caught(submissions: Submissions, noted: Path) -> None:
    code = RUNS_AWAY.format(noted=str(noted))
    text = submissions.good + in_function(LEAVES.format(code=code, noted=str(noted)))
    reports = submissions.grade(text.replace("    return list(p)", "        time.sleep(1)\n    return list(p)"), "E01")
    assert reports.alarms == ()
    beats = noted.stat().st_size
    time.sleep(0.3)
    assert 0 < beats == noted.stat().st_size, "it goes on"


@needs_linux
def test_other_children_and_the_setting_stay_as_they_were(submissions: Submissions) -> None:
    with subprocess.Popen(["sleep", "20"]) as other:
        try:
            assert submissions.grade(submissions.good, "E01").ok
            assert other.poll() is None
        finally:
            other.kill()
    # an orphan made now falls to someone else again
    fork = "import os, time\nif os.fork() == 0:\n    time.sleep(0.5)\n    print(os.getppid())\nelse:\n    os._exit(0)"
    adopter = subprocess.run([sys.executable, "-c", fork], capture_output=True, text=True, check=True).stdout
    assert int(adopter) != os.getpid()


@needs_linux
def test_what_cannot_be_ended_raises_the_alarm(submissions: Submissions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "PATIENCE_S", 0.0)
    monkeypatch.setattr(orphans.os, "kill", lambda *_: None)
    monkeypatch.setattr(orphans, "_scanned", iter([set(), {0}, {0}, {0}]).__next__)
    monkeypatch.setattr(orphans, "_listed", set)
    reports = submission.grade_submission(submissions.write(submissions.good), "E01", limits=submissions.limits)
    assert not reports.ok and "could not be ended" in reports.alarms[0]
