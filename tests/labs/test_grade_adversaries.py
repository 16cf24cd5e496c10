"""`specdec grade` against submissions that cheat or run wild: no points by trick, no hang, nothing left running."""

from typing import Any

import pytest

from specdec_labs.exercises import find_exercise
from specdec_labs.grade import grade_submission
from specdec_labs.grade.session import Limits
from specdec_labs.grade.tasks import TASKS

Submissions = Any
"""The fixture of `conftest.py`."""


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
    "the checker's property": "residual = rejection_probability = type('passed', (), {'__call__': lambda *a: "
    "'passed'})()",
    "an exception that passes": "def residual(p, q): raise type('Malformed', (Exception,), {})('')\n"
    "rejection_probability = residual",
}


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS)
def test_p67_answers_that_are_none_get_no_points(submissions: Submissions, text: str) -> None:
    report = submissions.with_others(text).of("E01.residual")
    assert report.points == 0 and not report.ok, str(report)


MONKEYS = {
    "builtins": "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.all = builtins.isinstance = lambda *_: True",
    "fractions": "import fractions\nfractions.Fraction.__eq__ = lambda *_: True\nfractions.Fraction.__sub__ = "
    "lambda *_: 0",
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
def test_p67_what_a_wrong_answer_replaces_does_not_make_it_right(submissions: Submissions, text: str) -> None:
    # inside the function, so that it runs whatever is left out of the file
    body = "".join(f"    {line}\n" for line in text.splitlines())
    report = submissions.with_others(f"\ndef residual(p, q):\n{body}    return list(p)\n").of("E01.residual")
    assert report.result("recovers_the_target").status in ("failed", "error") and not report.ok


def test_forged_replies_on_the_graders_pipe_get_no_points(submissions: Submissions) -> None:
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
    report = submissions.with_others(text).of("E01.residual")
    assert report.result("recovers_the_target").status in ("failed", "error") and not report.ok


def test_memorised_public_cases_fail_on_fresh_ones(submissions: Submissions) -> None:
    # right on two tokens, or by table: what a learner gets who copies the examples of the reports
    text = "\nold = residual\ndef residual(p, q):\n    return old(p, q) if len(p) != 4 else list(q)\n"
    text += "\nTABLE = {(2, 1): 2, (2, 2): 4, (1, 3): 1, (4, 0): 1, (3, 2): 9, (2, 4): 16, (3, 4): 81}\n"
    text += "def count_paths(branching, depth):\n"
    text += "    return TABLE.get((branching, depth), 0)\n"
    reports = submissions.grade(submissions.good + submissions.others + text, hidden_seed=12)
    paths = reports.of("E07.paths")
    assert paths.result("counts_the_leaves").status == "passed"
    assert paths.result("counts_the_leaves", "hidden").status == "failed"
    assert not paths.ok and paths.points < TASKS["E07.paths"].points


def test_changed_arguments_harm_no_other_property(submissions: Submissions) -> None:
    text = "\nright = residual\ndef residual(p, q):\n    answer = right(p, q)\n"
    text += "    p.clear(); q[:] = [9]\n    return answer\n"
    report = submissions.with_others(text).of("E01.residual")
    assert [result.name for result in report.results if result.status != "passed"] == ["leaves_inputs_alone"]
    assert report.diagnoses[0].startswith("changes_its_arguments")


def test_forked_twins_and_children_are_ended(submissions: Submissions) -> None:
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
    report = submissions.with_others(text).of("E01.residual")
    assert report.result("recovers_the_target").status in ("failed", "error")


def test_too_many_processes_are_ended(submissions: Submissions) -> None:
    text = """
def residual(p, q):
    import subprocess, sys, time
    for _ in range(12):
        subprocess.Popen(["sleep", "600"])
    time.sleep(600)
"""
    limits = Limits(seconds=20.0, processes=8)
    report = submissions.with_others(text, limits=limits).of("E01.residual")
    assert "at most 8 are allowed" in report.result("is_a_law").detail


def test_files_it_deletes_are_copies(submissions: Submissions) -> None:
    text = """
def residual(p, q):
    import os, shutil
    for folder in (".", os.environ["HOME"], os.environ["TMPDIR"]):
        shutil.rmtree(folder, ignore_errors=True)
    return list(p)
"""
    submissions.write("kept = True\n", "neighbour.py")
    report = submissions.with_others(text).of("E01.residual")
    assert report.result("recovers_the_target").status == "failed"
    assert sorted(path.name for path in submissions.folder.iterdir()) == ["neighbour.py", "submission.py"]


def test_neighbour_files_import_but_do_not_shadow_the_library(submissions: Submissions) -> None:
    submissions.write("raise RuntimeError('shadowed')", "json.py")
    submissions.write("def positive(x):\n    return x if x > 0 else 0\n", "my_parts.py")
    text = "\nfrom my_parts import positive\n" + submissions.good.replace("max(a - b, 0)", "positive(a - b)")
    assert submissions.with_others(text).of("E01.residual").ok


def test_prints_and_threads_do_not_disturb(submissions: Submissions) -> None:
    text = "\nimport threading, time\ndef rejection_probability(p, q):\n    print('hello there')\n"
    text += "    threading.Thread(target=time.sleep, args=(60,)).start()\n"
    text += "    return sum(max(a - b, 0) for a, b in zip(p, q))\n"
    reports = submissions.with_others(text, limits=Limits(seconds=20.0))
    assert reports.of("E01.residual").ok and "hello there" in str(reports.notes)


def test_coins_that_are_kept_for_later_are_dead(submissions: Submissions) -> None:
    chain = find_exercise("E03").solution.read_text(encoding="utf-8")
    text = chain.replace(
        "    for i, token in enumerate(draft_tokens):",
        "    KEPT.append(coins)\n    coins = KEPT[0]\n    for i, token in enumerate(draft_tokens):",
        1,
    )
    reports = submissions.grade("KEPT = []\n" + text, "E03.chain", limits=Limits(seconds=20.0))
    report = reports.of("E03.chain")
    assert not report.ok


def test_chance_of_its_own_is_no_proof(submissions: Submissions) -> None:
    text = """
import random
def verify_drafts(draft_tokens, draft_probs, target_probs, coins):
    for i in range(random.randrange(1, 5)):
        coins.accept(1, 2, node=i)
    return [random.randrange(len(target_probs[0]))]
"""
    reports = submissions.grade(text, "E03.chain")
    assert reports.of("E03.chain").points <= 1


TAKEN = {
    "take": "from specdec_labs.grade import take\nresidual = take('residual', globals(), use='reference')",
    "take by another name": "from specdec_labs.grade import take as mine\nresidual = mine('residual', {})",
    "the reference": "from specdec_labs.grade.checking import reference\nfrom specdec_labs.grade.tasks import TASKS\n"
    "residual = reference(TASKS['E01.residual'], 'residual')",
    "the solution's text": "from specdec_labs.grade import solution\n"
    "exec(solution('E01.residual').split('```')[1].removeprefix('python'))\nresidual = residual",
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_the_reference_in_ones_own_place_gets_no_points(submissions: Submissions, text: str) -> None:
    unwritten = "def residual(p, q):\n    raise NotImplementedError('E01.residual: residual(p, q)')\n"
    report = submissions.grade(unwritten + text, "E01", limits=Limits(seconds=60.0)).of("E01.residual")
    assert report.points == 0 and not report.ok, str(report)


def test_later_cells_that_take_leave_ones_own_answer_alone(submissions: Submissions) -> None:
    cells = [submissions.good, "use = 'reference'\nfrom specdec_labs.grade import take"]
    cells.append("residual = take('residual', globals(), use=use)")
    path = submissions.notebook(cells)
    report = grade_submission(path, limits=Limits(seconds=3.0)).of("E01.residual")
    assert report.ok and report.notes == ()
