"""What the tests of the grader start from: a right submission, and a fixture that grades variants of it."""

from collections.abc import Iterator
from dataclasses import dataclass
import json
from pathlib import Path
import secrets
import time
from typing import Any

import pytest

from specdec_labs.grade import Reports, grade_submission
from specdec_labs.grade.access import GRADING
from specdec_labs.grade.session import Limits

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
GOOD = """
def rejection_probability(p, q):
    return sum(max(a - b, 0) for a, b in zip(p, q))

def residual(p, q):
    excess = [max(a - b, 0) for a, b in zip(p, q)]
    if sum(excess) == 0:
        return list(p)
    return [mass / sum(excess) for mass in excess]
"""


@dataclass(frozen=True)
class Submissions:
    """Writes and grades submissions below a folder.

    `good` is right for E01, `others` for two tasks of E07: what must survive whatever is added.
    """

    folder: Path
    limits: Limits = Limits(seconds=3.0)
    good: str = GOOD
    others: str = OTHERS

    def write(self, text: str, name: str = "submission.py") -> Path:
        """A file."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def notebook(self, cells: list[str], name: str = "submission.ipynb") -> Path:
        """A notebook of code cells behind some text."""
        made = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": []} for cell in cells]
        data = {"cells": [{"cell_type": "markdown", "source": ["# x"]}, *made], "nbformat": 4, "nbformat_minor": 5}
        return self.write(json.dumps(data), name)

    def grade(self, text: str, exercise: str | None = None, **more: Any) -> Reports:
        """The reports on this text alone."""
        return grade_submission(self.write(text), exercise, **{"limits": self.limits, **more})

    def with_others(self, text: str, **more: Any) -> Reports:
        """The reports on a submission that is right but for `text`; the two other tasks keep their points."""
        began = time.monotonic()
        reports = self.grade(self.good + self.others + text, **more)
        assert time.monotonic() - began < 90
        assert reports.of("E07.paths").ok and reports.of("E07.positions").ok, str(reports)
        return reports


@pytest.fixture
def submissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submissions]:
    """Submissions in a folder of their own; afterwards no process of theirs is left, and nothing was noted."""
    monkeypatch.setenv("SPECDEC_FAST", "1")
    # children inherit it: other workers grade at the same time
    own = secrets.token_hex(16)
    monkeypatch.setenv("SPECDEC_OWN_SUBMISSIONS", own)
    yield Submissions(tmp_path)
    environments = ((path, _read(path)) for path in Path("/proc").glob("[0-9]*/environ"))
    assert [path for path, text in environments if GRADING.encode() in text and own.encode() in text] == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
