"""The hint ladder: separate reveals, noted beside the learner's copy."""

import json
from pathlib import Path

import pytest

from specdec_labs.grade import hint, hints_used, solution


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path) -> Path:
    """A small clone around the current folder, with the real exercise in it."""
    (tmp_path / "specdec_core").mkdir()
    (tmp_path / "exercises").mkdir()
    (tmp_path / "exercises" / "E01_residual").symlink_to(root / "exercises" / "E01_residual")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_three_levels_and_the_solution_are_separate_reveals(clone: Path) -> None:
    texts = [hint("E01.residual", level) for level in (1, 2, 3)]
    assert len(set(texts)) == 3 and all(len(text) > 80 for text in texts)
    assert not any("##" in text or "def " in text for text in texts)
    assert "def residual" in solution("E01") and solution("E01").startswith("```python")
    assert hint("E01", "idea") == texts[1]
    assert repr(texts[0]) == str(texts[0]) == texts[0]._repr_markdown_()


def test_what_was_revealed_is_noted(clone: Path) -> None:
    assert hints_used("E01") == []
    hint("E01")
    hint("E01_residual", 3)
    solution("E01")
    assert [entry["level"] for entry in hints_used("E01")] == ["nudge", "pseudocode", "solution"]
    path = clone / "work" / "E01_residual" / "hints_used.json"
    assert json.loads(path.read_text(encoding="utf-8")) == hints_used("E01")
    assert [entry.name for entry in path.parent.iterdir()] == ["hints_used.json"]


@pytest.mark.parametrize("level", [0, 4, "solution", "Nudge", None])
def test_unknown_level(clone: Path, level: object) -> None:
    with pytest.raises(ValueError, match="expected 1 \\(nudge\\)"):
        hint("E01.residual", level)  # type: ignore[arg-type]
    assert hints_used("E01") == []


def test_unknown_exercise(clone: Path) -> None:
    with pytest.raises(ValueError, match="there are: E01.residual"):
        hint("E42.none")


def test_a_broken_log_is_kept_and_the_hint_still_given(clone: Path) -> None:
    hint("E01")
    path = clone / "work" / "E01_residual" / "hints_used.json"
    path.write_text("{broken", encoding="utf-8")
    with pytest.warns(UserWarning, match="kept as hints_used.unreadable"):
        assert hint("E01.residual", 2)
    assert path.with_suffix(".unreadable").read_text(encoding="utf-8") == "{broken"
    assert [entry["level"] for entry in hints_used("E01")] == ["idea"]


def test_a_place_that_cannot_be_written_does_not_withhold_the_hint(clone: Path) -> None:
    (clone / "work").write_text("a file where the folder should be", encoding="utf-8")
    with pytest.warns(UserWarning, match="was not noted"):
        assert hint("E01.residual", 1)
