"""What an independent reader ran into: outputs that would destroy something, a named draft that was not used."""

from pathlib import Path

import pytest

from specdec_labs.cli.grading import check_command
from specdec_labs.cli.setting_up import default_drafter, use_threads


def test_a_named_draft_drafts() -> None:
    assert default_drafter("org/target,org/draft") == "model"
    assert default_drafter("smollm2") == "ngram"


def test_a_report_never_replaces_the_answer_or_the_other_report(tmp_path: Path) -> None:
    answer = tmp_path / "residual.py"
    answer.write_text("def residual(p, q):\n    return p\n")
    for outputs in ({"json_path": answer}, {"json_path": tmp_path / "r", "junit_path": tmp_path / "r"}):
        with pytest.raises(ValueError, match="must be different files"):
            check_command(answer, "E01", **outputs)
    assert answer.read_text().startswith("def residual")
    assert [entry.name for entry in tmp_path.iterdir()] == ["residual.py"]


def test_threads_that_would_crash_the_process_are_refused() -> None:
    with pytest.raises(ValueError, match="threads is 100000"):
        use_threads(100_000)
