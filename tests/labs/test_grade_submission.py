"""`specdec grade`: what goes wrong costs its own points only, cells may lie anyhow, reports say what was run."""

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from specdec_labs.cli.grading import check_command, grade_command
from specdec_labs.exercises import find_exercise
from specdec_labs.grade import grade_submission
from specdec_labs.grade.hidden import read_hidden
from specdec_labs.grade.session import Limits
from specdec_labs.grade.tasks import TASKS

Submissions = Any
"""The fixture of `conftest.py`."""

WRONG = "\ndef residual(p, q):\n    return list(p)\n"


ENDS = {
    "sys.exit": ("import sys\n    sys.exit(0)", "SystemExit"),
    "exit()": ("exit()", "exit"),
    "os._exit": ("import os\n    os._exit(0)", "ended with code 0"),
    "a crash": ("import os, signal\n    os.kill(os.getpid(), signal.SIGSEGV)", "ended with code -11"),
    "an endless loop": ("while True: pass", "longer than the limit of 3 s"),
    "asleep": ("import time\n    time.sleep(600)", "longer than the limit of 3 s"),
    "deaf to signals": (
        "import signal\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    while True: pass",
        "longer than the limit",
    ),
    "huge allocation": ("return bytearray(64 * 2 ** 30)", "MemoryError"),
    "endless recursion": ("return residual(p, q)", "RecursionError"),
    "output flood": ("while True: print('x' * 100000)", ""),
    "closes everything": ("import os\n    os.closerange(0, 200)\n    return list(p)", "ended with code"),
    "waits for input": ("return input('law? ')", "EOFError"),
    "raises": ("raise ValueError('broken')", "ValueError: broken"),
    "raises KeyboardInterrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
}


# each waits out a time limit, as "an endless loop" does
SLOW = ("asleep", "deaf to signals")


@pytest.mark.parametrize(
    ("body", "said"),
    [pytest.param(*case, id=name, marks=[pytest.mark.slow] if name in SLOW else []) for name, case in ENDS.items()],
)
def test_p70_a_function_that_ends_badly_loses_its_own_points_only(
    submissions: Submissions, body: str, said: str
) -> None:
    report = submissions.with_others(f"\ndef residual(p, q):\n    {body}\n").of("E01.residual")
    about = [result for result in report.results if result.about == "residual"]
    assert {result.status for result in about} == {"error"} and said in about[0].detail, str(report)
    assert report.result("beta_is_the_refused_mass").status == "passed" and report.points == 1


def test_p70_a_loop_in_the_first_function_does_not_hide_the_second(submissions: Submissions) -> None:
    text = "\ndef rejection_probability(p, q):\n    while True: pass\n"
    report = submissions.with_others(text).of("E01.residual")
    assert report.result("beta_is_the_refused_mass").status == "error"
    assert report.points == 8


def test_p70_what_passed_before_a_loop_is_kept(submissions: Submissions) -> None:
    text = submissions.good.replace("return list(p)", "\n        while True: pass")
    report = submissions.with_others(text, hidden_seed=2).of("E01.residual")
    assert report.result("recovers_the_target").status == "passed"
    stuck = report.result("equal_laws_fall_back_to_p")
    assert stuck.status == "error" and "longer than the limit of 3 s" in stuck.detail
    assert report.result("works_on_floats_too").detail.startswith("not reached: it ran longer")
    assert report.result("is_a_law", "hidden").status == "error"


TOP_LEVEL = {
    "raises": "raise ValueError('broken cell')",
    "exits": "import sys\nsys.exit(0)",
    "loops": "while True: pass",
    "imports what is missing": "import a_module_that_is_missing",
    "hard exit": "import os\nos._exit(0)",
    "checks itself": "from specdec_labs.grade import check\ncheck('E01', globals())",
}


@pytest.mark.parametrize("text", TOP_LEVEL.values(), ids=TOP_LEVEL)
def test_p70_a_statement_that_no_asked_name_needs_is_not_run(submissions: Submissions, text: str) -> None:
    reports = submissions.with_others(f"\n{text}\n")
    assert reports.of("E01.residual").ok, str(reports)


NEEDED = {
    "loops": ("PATHS_3_4 = [1 for _ in iter(int, 1)]", "longer than the limit of 3 s"),
    "exits": ("import sys\nPATHS_3_4 = sys.exit(0)", "SystemExit"),
    "dies": ("import os\nPATHS_3_4 = os._exit(7)", "ended with code 7"),
    "raises": ("PATHS_3_4 = 1 / 0", "ZeroDivisionError"),
}


@pytest.mark.parametrize(("text", "said"), NEEDED.values(), ids=NEEDED)
def test_p70_a_value_that_cannot_be_made_costs_its_own_points_only(
    submissions: Submissions, text: str, said: str
) -> None:
    text = submissions.good + submissions.others.replace("PATHS_3_4 = 81", text)
    reports = submissions.grade(text)
    assert reports.of("E01.residual").ok and reports.of("E07.positions").ok
    report = reports.of("E07.paths")
    assert report.result("knows_the_seeds_example").status == "error" and report.points == 4
    assert said in report.result("knows_the_seeds_example").detail


def test_a_slip_in_one_function_leaves_the_others(submissions: Submissions) -> None:
    reports = submissions.with_others("\ndef residual(p, q)\n    return p\n\ndef other():\n    pass\n")
    report = reports.of("E01.residual")
    # the good definition before it stands; the note names the one that cannot be read
    assert report.ok and any("SyntaxError" in note for note in reports.notes)


def test_p68_cells_doubled_split_deleted_and_out_of_order(submissions: Submissions) -> None:
    cells = [
        "%matplotlib inline\n!ls\nshow(residual)",
        "TWICE = double(1)",
        "def rejection_probability(p, q):\n    return scale * sum(max(a - b, 0) for a, b in zip(p, q))",
        "def residual(p, q):\n    return list(p)",
        "from specdec_labs.grade import check\ncheck('E01', globals())\nwhile True: pass",
        "scale = double(1) - 1",
        "def residual(p, q):\n    excess = [max(a - b, 0) for a, b in zip(p, q)]",
        "    total = sum(excess)\n    return [mass / total for mass in excess] if total else list(p)",
        "%%bash\nrm -rf /",
        "def broken(:\n    pass",
        "def double(x):\n    return 2 * x",
        submissions.others,
    ]
    reports = grade_submission(submissions.notebook(cells))
    report = reports.of("E01.residual")
    assert report.ok, str(reports)
    assert report.notes == (
        "E01.residual: residual is defined 2 times (code cell 4, line 1; code cell 7 and code cell 8, line 1); "
        "the last one that runs is graded",
    )
    assert any(note.startswith("code cell 10 cannot be read: SyntaxError") for note in reports.notes)
    assert any("it was run again" in note for note in reports.notes)
    without = [cell for cell in cells if "rejection_probability" not in cell]
    deleted = grade_submission(submissions.notebook(without)).of("E01.residual")
    assert deleted.result("beta_is_the_refused_mass").status == "not started" and deleted.points == 8


def test_p69_a_name_that_a_later_cell_sets_again_is_graded_as_it_ends(submissions: Submissions) -> None:
    reports = grade_submission(submissions.notebook(["t = 3", submissions.good, "t = 4", submissions.others]))
    assert reports.of("E01.residual").ok and reports.of("E01.residual").notes == ()


@pytest.mark.parametrize("name", ["submission.txt", "none.py", "."])
def test_what_is_no_submission_is_said(submissions: Submissions, name: str) -> None:
    submissions.write(submissions.good, "submission.txt")
    with pytest.raises(ValueError, match="expected an existing .py or .ipynb file"):
        grade_submission(submissions.folder / name)


@pytest.mark.parametrize("name", ["E02", "e02.ridge", "E02_bandwidth"])
def test_a_set_or_task_in_place_of_a_file_is_told_the_way_to_one(name: str) -> None:
    with pytest.raises(ValueError, match="specdec start E02"):
        grade_submission(Path(name))


def test_wrong_use(submissions: Submissions) -> None:
    path = submissions.write(submissions.good)
    with pytest.raises(ValueError, match="there are: E01.residual"):
        grade_submission(path, "E55")
    with pytest.raises(ValueError, match="seconds above 0"):
        Limits(seconds=0)
    with pytest.raises(ValueError, match="defines nothing that a task asks for"):
        submissions.grade("x = 1")
    with pytest.raises(ValueError, match="is no notebook"):
        grade_submission(submissions.write("{}", "broken.ipynb"))


def test_an_instructors_cases_are_run_and_never_shown_to_the_submission(submissions: Submissions) -> None:
    cases = submissions.folder / "cases.json"
    pair = {"p": ["1/7", "6/7"], "q": ["5/7", "2/7"]}
    cases.write_text(json.dumps({"cases": {"E01.residual": {"residual": [pair]}}}), encoding="utf-8")
    text = "\nright = residual\ndef residual(p, q):\n    return right(p, q) if str(p[0]) != '1/7' else list(p)\n"
    reports = submissions.grade(submissions.good + text, hidden=read_hidden(cases))
    report = reports.of("E01.residual")
    assert report.result("recovers_the_target").status == "passed"
    assert report.result("recovers_the_target", "hidden").status == "failed"
    assert "hidden checks: " in report.summary


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("[]", "has another form"),
        ('{"cases": {"E99.x": {}}}', "there are: E01.residual"),
        ('{"cases": {"E99.x": {"y": []}}}', "there are: E01.residual"),
        ('{"cases": {"E01.residual": {"nobody": []}}}', "asks for: rejection_probability"),
        ('{"cases": {"E05.expected": {"EXPECTED": [{}]}}}', "takes no hidden cases"),
        ('{"cases": {"E01.residual": {"residual": [{"p": ["1/2"], "q": ["1/3"]}]}}}', "case 0 of residual"),
        ("{", "cannot be read as JSON"),
    ],
)
def test_a_file_of_cases_that_cannot_be_taken_is_said(submissions: Submissions, data: str, said: str) -> None:
    path = submissions.write(data, "cases.json")
    with pytest.raises(ValueError, match=said):
        read_hidden(path)


def test_grade_writes_three_forms_and_says_which_seed(
    submissions: Submissions, capsys: pytest.CaptureFixture[str]
) -> None:
    path = submissions.write(submissions.good)
    assert grade_command(path, out=submissions.folder / "out", seed=4) == 0
    printed = capsys.readouterr().out
    assert "hidden checks passed (9), seed 4" in printed
    written = ", ".join(str(submissions.folder / "out" / f"submission.{form}") for form in ("json", "xml", "csv"))
    assert printed.splitlines()[-1] == f"Reports written: {written}"
    assert sorted(entry.name for entry in (submissions.folder / "out").iterdir()) == [
        "submission.csv",
        "submission.json",
        "submission.xml",
    ]
    data = json.loads((submissions.folder / "out" / "submission.json").read_text(encoding="utf-8"))
    assert data["ok"] is True and data["points"] == data["of"] == 9 and data["tasks"][0]["hidden_seed"] == 4
    assert ElementTree.parse(submissions.folder / "out" / "submission.xml").getroot()[0].get("tests") == "18"
    assert "submission.py,E01.residual,9,9," in (submissions.folder / "out" / "submission.csv").read_text(
        encoding="utf-8"
    )
    assert grade_command(submissions.write(submissions.good + WRONG), public_only=True) == 1
    assert "9 hidden not run" in capsys.readouterr().out
    with pytest.raises(ValueError, match="expected a folder"):
        grade_command(path, out=path)


def test_check_writes_its_reports_and_returns_a_code(
    submissions: Submissions, capsys: pytest.CaptureFixture[str]
) -> None:
    path = submissions.write(submissions.good + WRONG)
    assert check_command(path, json_path=submissions.folder / "r.json", junit_path=submissions.folder / "r.xml") == 1
    printed = capsys.readouterr().out
    assert "Diagnosis: draws_from_p" in printed and "9 hidden not run" in printed
    assert json.loads((submissions.folder / "r.json").read_text(encoding="utf-8"))["ok"] is False
    with pytest.raises(ValueError, match="its folder does not exist"):
        check_command(path, json_path=submissions.folder / "nowhere" / "r.json")


@pytest.mark.slow
def test_every_reference_is_green_from_a_file_and_from_a_notebook(submissions: Submissions) -> None:
    sets = sorted({task.set_id for task in TASKS.values()})
    texts = [find_exercise(set_id).solution.read_text(encoding="utf-8") for set_id in sets]
    for path in (submissions.write("\n\n".join(texts)), submissions.notebook(texts)):
        reports = grade_submission(path, limits=Limits(seconds=120.0), hidden_seed=os.getpid())
        assert reports.ok and len(reports) == len(TASKS), str(reports)
