"""The hint ladder of an exercise: nudge, idea, pseudocode, then the solution, each a separate reveal.

What was revealed is noted in `hints_used.json` beside the learner's copy, for the learner; nothing is deducted.
"""

from datetime import UTC, datetime
import json
from pathlib import Path
import re
import warnings

from specdec_labs.exercises import Exercise, find_exercise, work_root

LEVELS = ("nudge", "idea", "pseudocode")
_HEADING = re.compile(r"^## \d+ (\w+)$", re.MULTILINE)


class Reveal(str):
    """A text that shows as Markdown in Jupyter and as it is in a terminal."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return str(self)


def hint(exercise_id: str, level: int | str = 1) -> Reveal:
    """One hint: level 1 "nudge", 2 "idea" or 3 "pseudocode". ValueError for another exercise or level."""
    exercise = find_exercise(exercise_id)
    names = dict(enumerate(LEVELS, start=1))
    name = names.get(level) if isinstance(level, int) else level
    if name not in LEVELS:
        raise ValueError(f"level is {level!r}; expected 1 (nudge), 2 (idea) or 3 (pseudocode)")
    parts = _HEADING.split(exercise.hints.read_text(encoding="utf-8"))
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    _note(exercise, name)
    return Reveal(texts[name].strip())


def solution(exercise_id: str) -> Reveal:
    """The reference solution as a code block. ValueError for an unknown exercise."""
    exercise = find_exercise(exercise_id)
    _note(exercise, "solution")
    return Reveal(f"```python\n{exercise.solution.read_text(encoding='utf-8').strip()}\n```")


def hints_used(exercise_id: str) -> list[dict[str, str]]:
    """What was revealed so far, oldest first: `level` and `time` (UTC)."""
    return _read(_log(find_exercise(exercise_id)))


def _log(exercise: Exercise) -> Path:
    return work_root() / exercise.folder.name / "hints_used.json"


def _read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        entries = None
    if not isinstance(entries, list):
        kept = path.replace(path.with_suffix(".unreadable"))
        warnings.warn(f"{path.name} was not a JSON list; it is kept as {kept.name} and a new one begun", stacklevel=4)
        return []
    return entries


def _note(exercise: Exercise, level: str) -> None:
    path = _log(exercise)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = [*_read(path), {"level": level, "time": datetime.now(UTC).isoformat(timespec="seconds")}]
        partial = path.with_name(path.name + ".part")
        partial.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        warnings.warn(f"the hint was not noted in {path}: {error}", stacklevel=3)
