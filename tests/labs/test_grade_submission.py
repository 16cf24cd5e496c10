"""`specdec grade` against submissions that misbehave or cheat: no points by trick, no hang, the others are graded."""

from collections.abc import Iterator
import json
import os
from pathlib import Path
import time
from typing import Any
from xml.etree import ElementTree

import pytest

from specdec_labs.cli.grading import check_command, grade_command
from specdec_labs.exercises import find_exercise
from specdec_labs.grade import Reports, grade_submission
from specdec_labs.grade.hidden import read_hidden
from specdec_labs.grade.session import MARK, Limits
from specdec_labs.grade.tasks import TASKS

SHORT = Limits(seconds=3.0)
OTHERS = """
def count_paths(branching, depth):
    return branching ** depth

def count_nodes(branching, depth):
    return sum(branching ** level for level in range(1, depth + 1))

PATHS_3_4 = 81

def tree_positions(parents, offset):
    positions = [offset]
    for parent in parents:
        positions.append(positions[parent + 1] + 1)
    return positions
"""
"""Two other tasks, right: what must survive whatever the first one does."""

GOOD = """
def rejection_probability(p, q):
    return sum(max(a - b, 0) for a, b in zip(p, q))

def residual(p, q):
    excess = [max(a - b, 0) for a, b in zip(p, q)]
    if sum(excess) == 0:
        return list(p)
    return [mass / sum(excess) for mass in excess]
"""
WRONG = GOOD + "\ndef residual(p, q):\n    return list(p)\n"


@pytest.fixture(autouse=True)
def nothing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner's progress is none of these tests' business."""
    monkeypatch.setenv("SPECDEC_FAST", "1")


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    """Every process that a submission started is gone afterwards."""
    yield
    marked = [entry for entry in Path("/proc").glob("[0-9]*/environ") if MARK.encode() in _read(entry)]
    assert marked == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def write(folder: Path, text: str, name: str = "submission.py") -> Path:
    """A submission."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def graded(folder: Path, text: str, **more: Any) -> Reports:
    """The reports on a submission of E01 and two tasks of E07, all right but for `text`."""
    began = time.monotonic()
    reports = grade_submission(write(folder, GOOD + OTHERS + text), limits=more.pop("limits", SHORT), **more)
    assert time.monotonic() - began < 90
    assert reports.of("E07.paths").ok and reports.of("E07.positions").ok, str(reports)
    return reports


def notebook(folder: Path, cells: list[str], name: str = "submission.ipynb") -> Path:
    """A notebook of code cells, an image and some text between them."""
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": []} for cell in cells]
    data = {"cells": [{"cell_type": "markdown", "source": ["# x"]}, *made], "nbformat": 4, "nbformat_minor": 5}
    return write(folder, json.dumps(data), name)


ALWAYS_EQUAL = """
class Same:
    def __eq__(self, other): return True
    __hash__ = None
    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = __eq__
    def __len__(self): return 2
    def __iter__(self): return iter([self, self])
    def __getitem__(self, at): return self
    def __sub__(self, other): return self
    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __abs__ = __sub__
    @property
    def __class__(self):
        from fractions import Fraction
        return Fraction
def rejection_probability(p, q): return Same()
def residual(p, q): return {0}
"""
ANSWERS = {
    "always equal": ALWAYS_EQUAL.format("Same()"),
    "list of always equal": ALWAYS_EQUAL.format("[Same(), Same()]"),
    "nan": "def residual(p, q): return [float('nan')] * len(p)\nrejection_probability = residual",
    "inf": "def residual(p, q): return [float('inf')] * len(p)\nrejection_probability = residual",
    "string": "def residual(p, q): return '1/2'\nrejection_probability = residual",
    "list of strings": "def residual(p, q): return ['1/2'] * len(p)\nrejection_probability = residual",
    "none": "def residual(p, q): pass\nrejection_probability = residual",
    "booleans": "def residual(p, q): return [True] + [False] * (len(p) - 1)\nrejection_probability = residual",
    "huge numbers": "def residual(p, q): return [10 ** 6000] * len(p)\nrejection_probability = residual",
    "endless list": "def residual(p, q):\n    a = []\n    a.append(a)\n    return a\nrejection_probability = residual",
    "a generator": "def residual(p, q): yield from p\nrejection_probability = residual",
    "the checker's property": "residual = rejection_probability = type('passed', (), {'__call__': lambda *a: 'passed'})()",
    "an exception that passes": "def residual(p, q): raise type('Malformed', (Exception,), {})('')\n"
    "rejection_probability = residual",
}


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS)
def test_p67_answers_that_are_none_get_no_points(tmp_path: Path, text: str) -> None:
    report = graded(tmp_path, text).of("E01.residual")
    assert report.points == 0 and not report.ok, str(report)


MONKEYS = {
    "builtins": "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.all = builtins.isinstance = lambda *_: True",
    "fractions": "import fractions\nfractions.Fraction.__eq__ = lambda *_: True\nfractions.Fraction.__sub__ = lambda *_: 0",
    "numpy": "import numpy\nnumpy.allclose = numpy.array_equal = lambda *_, **__: True",
    "json": "import json\njson.dumps = lambda *_, **__: '{\"passed\": true}'",
    "the grader's own modules": (
        "import specdec_labs.grade.plain as plain, specdec_labs.grade.access as access\n"
        "plain.encode = lambda value: {'q': ['0x1', '0x1']}\naccess.failure_of = None"
    ),
    "its engine": "import specdec_labs.grade.engine as engine\nengine._judge = lambda *_: ('passed', '')",
    "frames": "import sys\nsys._getframe(0).f_globals['passed'] = True",
    "exit code": "import atexit, os\natexit.register(lambda: os._exit(0))",
}


@pytest.mark.parametrize("text", MONKEYS.values(), ids=MONKEYS)
def test_p67_what_a_wrong_answer_replaces_does_not_make_it_right(tmp_path: Path, text: str) -> None:
    # inside the function, so that it runs whatever is left out of the file
    body = "".join(f"    {line}\n" for line in text.splitlines())
    report = graded(tmp_path, f"\ndef residual(p, q):\n{body}    return list(p)\n").of("E01.residual")
    assert report.result("recovers_the_target").status in ("failed", "error")
    assert report.result("recovers_the_target", "public").status != "passed" and not report.ok


def test_forged_replies_on_the_graders_pipe_get_no_points(tmp_path: Path) -> None:
    text = """
def residual(p, q):
    import os
    for descriptor in range(1, 12):
        try:
            os.write(descriptor, b'{"id": 1, "value": {"q": ["0x1", "0x1"]}}\\n{"passed": true}\\n{broken\\n')
        except OSError:
            pass
    return list(p)
"""
    report = graded(tmp_path, text).of("E01.residual")
    assert report.result("recovers_the_target").status in ("failed", "error") and not report.ok


def test_memorised_public_cases_fail_on_fresh_ones(tmp_path: Path) -> None:
    # right on two tokens, or by table: what a learner gets who copies the examples of the reports
    text = "\nold = residual\ndef residual(p, q):\n    return old(p, q) if len(p) != 4 else list(q)\n"
    text += "\ntable = {}\ndef count_paths(branching, depth):\n"
    text += "    return {(2, 1): 2, (2, 2): 4, (1, 3): 1, (4, 0): 1, (3, 2): 9, (2, 4): 16, (3, 4): 81}.get((branching, depth), 0)\n"
    reports = grade_submission(write(tmp_path, GOOD + OTHERS + text), limits=SHORT, hidden_seed=12)
    paths = reports.of("E07.paths")
    assert paths.result("counts_the_leaves").status == "passed"
    assert paths.result("counts_the_leaves", "hidden").status == "failed"
    assert not paths.ok and paths.points < TASKS["E07.paths"].points


def test_changed_arguments_harm_no_other_property(tmp_path: Path) -> None:
    text = "\nright = residual\ndef residual(p, q):\n    answer = right(p, q)\n    p.clear(); q[:] = [9]\n    return answer\n"
    report = graded(tmp_path, text).of("E01.residual")
    assert [result.name for result in report.results if result.status != "passed"] == ["leaves_inputs_alone"]
    assert report.diagnoses[0].startswith("changes_its_arguments")


ENDS = {
    "sys.exit": ("import sys\n    sys.exit(0)", "SystemExit"),
    "exit()": ("exit()", "exit"),
    "os._exit": ("import os\n    os._exit(0)", "ended with code 0"),
    "a crash": ("import os, signal\n    os.kill(os.getpid(), signal.SIGSEGV)", "ended with code -11"),
    "an endless loop": ("while True: pass", "longer than the limit of 3 s"),
    "a sleep": ("import time\n    time.sleep(600)", "longer than the limit of 3 s"),
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


@pytest.mark.parametrize(("body", "said"), ENDS.values(), ids=ENDS)
def test_p70_a_function_that_ends_badly_loses_its_own_points_only(tmp_path: Path, body: str, said: str) -> None:
    report = graded(tmp_path, f"\ndef residual(p, q):\n    {body}\n").of("E01.residual")
    about = [result for result in report.results if result.about == "residual"]
    assert {result.status for result in about} == {"error"} and said in about[0].detail, str(report)
    assert report.result("beta_is_the_refused_mass").status == "passed" and report.points == 1


def test_p70_a_loop_in_the_first_function_does_not_hide_the_second(tmp_path: Path) -> None:
    text = "\ndef rejection_probability(p, q):\n    while True: pass\n"
    report = graded(tmp_path, text).of("E01.residual")
    assert report.result("beta_is_the_refused_mass").status == "error"
    assert report.points == 8


def test_p70_what_passed_before_a_loop_is_kept(tmp_path: Path) -> None:
    text = GOOD.replace("return list(p)", "\n        while True: pass")
    report = graded(tmp_path, text, hidden_seed=2).of("E01.residual")
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
def test_p70_a_statement_that_no_asked_name_needs_is_not_run(tmp_path: Path, text: str) -> None:
    reports = graded(tmp_path, f"\n{text}\n")
    assert reports.of("E01.residual").ok, str(reports)


NEEDED = {
    "loops": ("PATHS_3_4 = [1 for _ in iter(int, 1)]", "longer than the limit of 3 s"),
    "exits": ("import sys\nPATHS_3_4 = sys.exit(0)", "SystemExit"),
    "dies": ("import os\nPATHS_3_4 = os._exit(7)", "ended with code 7"),
    "raises": ("PATHS_3_4 = 1 / 0", "ZeroDivisionError"),
}


@pytest.mark.parametrize(("text", "said"), NEEDED.values(), ids=NEEDED)
def test_p70_a_value_that_cannot_be_made_costs_its_own_points_only(tmp_path: Path, text: str, said: str) -> None:
    text = GOOD + OTHERS.replace("PATHS_3_4 = 81", text)
    reports = grade_submission(write(tmp_path, text), limits=SHORT)
    assert reports.of("E01.residual").ok and reports.of("E07.positions").ok
    report = reports.of("E07.paths")
    assert report.result("knows_the_seeds_example").status == "error" and report.points == 4
    assert said in report.result("knows_the_seeds_example").detail


def test_a_slip_in_one_function_leaves_the_others(tmp_path: Path) -> None:
    reports = graded(tmp_path, "\ndef residual(p, q)\n    return p\n\ndef other():\n    pass\n")
    report = reports.of("E01.residual")
    # the good definition before it stands; the note names the one that cannot be read
    assert report.ok and any("SyntaxError" in note for note in reports.notes)


def test_forked_twins_and_children_are_ended(tmp_path: Path) -> None:
    text = """
def rejection_probability(p, q):
    import os, time
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    return sum(max(a - b, 0) for a, b in zip(p, q))

def residual(p, q):
    import os
    os.fork()
    return list(p)
"""
    report = graded(tmp_path, text).of("E01.residual")
    assert report.result("recovers_the_target").status in ("failed", "error")


def test_too_many_processes_are_ended(tmp_path: Path) -> None:
    text = """
def residual(p, q):
    import subprocess, sys, time
    for _ in range(12):
        subprocess.Popen(["sleep", "600"])
    time.sleep(600)
"""
    limits = Limits(seconds=20.0, processes=8)
    report = graded(tmp_path, text, limits=limits).of("E01.residual")
    assert "at most 8 are allowed" in report.result("is_a_law").detail


def test_files_it_deletes_are_copies(tmp_path: Path) -> None:
    text = """
def residual(p, q):
    import os, shutil
    for folder in (".", os.environ["HOME"], os.environ["TMPDIR"]):
        shutil.rmtree(folder, ignore_errors=True)
    return list(p)
"""
    write(tmp_path, "kept = True\n", "neighbour.py")
    report = graded(tmp_path, text).of("E01.residual")
    assert report.result("recovers_the_target").status == "failed"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["neighbour.py", "submission.py"]


def test_neighbour_files_import_but_do_not_shadow_the_library(tmp_path: Path) -> None:
    write(tmp_path, "raise RuntimeError('shadowed')", "json.py")
    write(tmp_path, "def positive(x):\n    return x if x > 0 else 0\n", "my_parts.py")
    text = "\nfrom my_parts import positive\n" + GOOD.replace("max(a - b, 0)", "positive(a - b)")
    assert graded(tmp_path, text).of("E01.residual").ok


def test_prints_and_threads_do_not_disturb(tmp_path: Path) -> None:
    text = "\nimport threading, time\ndef rejection_probability(p, q):\n    print('hello there')\n"
    text += "    threading.Thread(target=time.sleep, args=(60,)).start()\n"
    text += "    return sum(max(a - b, 0) for a, b in zip(p, q))\n"
    reports = graded(tmp_path, text, limits=Limits(seconds=20.0))
    assert reports.of("E01.residual").ok and "hello there" in str(reports.notes)


def test_coins_that_are_kept_for_later_are_dead(tmp_path: Path) -> None:
    chain = find_exercise("E03").solution.read_text(encoding="utf-8")
    text = chain.replace(
        "    for i, token in enumerate(draft_tokens):",
        "    KEPT.append(coins)\n    coins = KEPT[0]\n    for i, token in enumerate(draft_tokens):",
        1,
    )
    reports = grade_submission(write(tmp_path, "KEPT = []\n" + text), "E03.chain", limits=Limits(seconds=20.0))
    report = reports.of("E03.chain")
    assert not report.ok


def test_chance_of_its_own_is_no_proof(tmp_path: Path) -> None:
    text = """
import random
def verify_drafts(draft_tokens, draft_probs, target_probs, coins):
    for i in range(random.randrange(1, 5)):
        coins.accept(1, 2, node=i)
    return [random.randrange(len(target_probs[0]))]
"""
    reports = grade_submission(write(tmp_path, text), "E03.chain", limits=SHORT)
    assert reports.of("E03.chain").points <= 1


def test_p68_cells_doubled_split_deleted_and_out_of_order(tmp_path: Path) -> None:
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
        OTHERS,
    ]
    reports = grade_submission(notebook(tmp_path, cells), limits=SHORT)
    report = reports.of("E01.residual")
    assert report.ok, str(reports)
    assert report.notes == (
        "E01.residual: residual is defined 2 times (cell 4, line 1; cell 7 and cell 8, line 1); the last one that runs "
        "is graded",
    )
    assert any(note.startswith("cell 10 cannot be read: SyntaxError") for note in reports.notes)
    assert any("it was run again" in note for note in reports.notes)
    without = [cell for cell in cells if "rejection_probability" not in cell]
    deleted = grade_submission(notebook(tmp_path, without), limits=SHORT).of("E01.residual")
    assert deleted.result("beta_is_the_refused_mass").status == "not started" and deleted.points == 8


def test_p69_a_name_that_a_later_cell_sets_again_is_graded_as_it_ends(tmp_path: Path) -> None:
    reports = grade_submission(notebook(tmp_path, ["t = 3", GOOD, "t = 4", OTHERS]), limits=SHORT)
    assert reports.of("E01.residual").ok and reports.of("E01.residual").notes == ()


@pytest.mark.parametrize("name", ["submission.txt", "none.py", "."])
def test_what_is_no_submission_is_said(tmp_path: Path, name: str) -> None:
    write(tmp_path, GOOD, "submission.txt")
    with pytest.raises(ValueError, match="expected an existing .py or .ipynb file"):
        grade_submission(tmp_path / name)


def test_wrong_use(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    with pytest.raises(ValueError, match="there are: E01.residual"):
        grade_submission(path, "E55")
    with pytest.raises(ValueError, match="seconds above 0"):
        Limits(seconds=0)
    with pytest.raises(ValueError, match="defines nothing that a task asks for"):
        grade_submission(write(tmp_path, "x = 1"))
    with pytest.raises(ValueError, match="is no notebook"):
        grade_submission(write(tmp_path, "{}", "broken.ipynb"))


def test_an_instructors_cases_are_run_and_never_shown_to_the_submission(tmp_path: Path) -> None:
    cases = tmp_path / "cases.json"
    pair = {"p": ["1/7", "6/7"], "q": ["5/7", "2/7"]}
    cases.write_text(json.dumps({"cases": {"E01.residual": {"residual": [pair]}}}), encoding="utf-8")
    text = "\nright = residual\ndef residual(p, q):\n    return right(p, q) if str(p[0]) != '1/7' else list(p)\n"
    reports = grade_submission(write(tmp_path, GOOD + text), limits=SHORT, hidden=read_hidden(cases))
    report = reports.of("E01.residual")
    assert report.result("recovers_the_target").status == "passed"
    assert report.result("recovers_the_target", "hidden").status == "failed"
    assert "hidden checks: " in report.summary


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("[]", "has another form"),
        ('{"cases": {"E99.x": {}}}', None),
        ('{"cases": {"E99.x": {"y": []}}}', "there are: E01.residual"),
        ('{"cases": {"E01.residual": {"nobody": []}}}', "asks for: rejection_probability"),
        ('{"cases": {"E05.expected": {"EXPECTED": [{}]}}}', "takes no hidden cases"),
        ('{"cases": {"E01.residual": {"residual": [{"p": ["1/2"], "q": ["1/3"]}]}}}', "case 0 of residual"),
        ("{", "cannot be read as JSON"),
    ],
)
def test_a_file_of_cases_that_cannot_be_taken_is_said(tmp_path: Path, data: str, said: str | None) -> None:
    path = write(tmp_path, data, "cases.json")
    if said is None:
        assert read_hidden(path) == {"E99.x": {}}
        return
    with pytest.raises(ValueError, match=said):
        read_hidden(path)


def test_grade_writes_three_forms_and_says_which_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, GOOD)
    assert grade_command(path, out=tmp_path / "out", seed=4) == 0
    assert "hidden checks passed (9), seed 4" in capsys.readouterr().out
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == [
        "submission.csv",
        "submission.json",
        "submission.xml",
    ]
    data = json.loads((tmp_path / "out" / "submission.json").read_text(encoding="utf-8"))
    assert data["ok"] is True and data["points"] == data["of"] == 9 and data["tasks"][0]["hidden_seed"] == 4
    assert ElementTree.parse(tmp_path / "out" / "submission.xml").getroot()[0].get("tests") == "18"
    assert "submission.py,E01.residual,9,9," in (tmp_path / "out" / "submission.csv").read_text(encoding="utf-8")
    assert grade_command(write(tmp_path, WRONG), public_only=True) == 1
    assert "9 hidden not run" in capsys.readouterr().out
    with pytest.raises(ValueError, match="expected a folder"):
        grade_command(path, out=path)


def test_check_writes_its_reports_and_returns_a_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, WRONG)
    assert check_command(path, json_path=tmp_path / "r.json", junit_path=tmp_path / "r.xml") == 1
    printed = capsys.readouterr().out
    assert "Diagnosis: draws_from_p" in printed and "9 hidden not run" in printed
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["ok"] is False
    with pytest.raises(ValueError, match="its folder does not exist"):
        check_command(path, json_path=tmp_path / "nowhere" / "r.json")


@pytest.mark.slow
def test_every_reference_is_green_from_a_file_and_from_a_notebook(tmp_path: Path) -> None:
    sets = sorted({task.set_id for task in TASKS.values()})
    texts = [find_exercise(set_id).solution.read_text(encoding="utf-8") for set_id in sets]
    for path in (write(tmp_path, "\n\n".join(texts)), notebook(tmp_path, texts)):
        reports = grade_submission(path, limits=Limits(seconds=120.0), hidden_seed=os.getpid())
        assert reports.ok and len(reports) == len(TASKS), str(reports)
