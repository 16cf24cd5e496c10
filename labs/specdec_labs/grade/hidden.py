"""An instructor's file of held-back cases.

    {"cases": {"E01.residual": {"residual": [{"p": ["1/4", "3/4"], "q": ["1/2", "1/2"]}]}}}

Texts such as "1/4" and "3" become Fractions, numbers stay as they are. The file is read by the checker alone; the
learner's process never sees it.
"""

from collections.abc import Sequence
from fractions import Fraction
import json
from pathlib import Path
import re
from typing import Any

from specdec_labs.grade.hints import one_task
from specdec_labs.grade.task import Task

_FRACTION = re.compile(r"-?\d{1,50}(/[1-9]\d{0,49})?")


def read_hidden(path: str | Path) -> dict[str, dict[str, Sequence[Any]]]:
    """Task id -> asked name -> cases.

    Raises:
        ValueError: no such file, another form, an unknown task or name, or a case that the task cannot take; the
            message says which.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"hidden cases {str(path)!r} cannot be read as JSON: {error}") from error
    cases = data.get("cases") if isinstance(data, dict) else None
    if not isinstance(cases, dict) or not all(isinstance(names, dict) for names in cases.values()):
        raise ValueError(
            f'hidden cases {str(path)!r} has another form; expected {{"cases": {{TASK: {{NAME: [...]}}}}}}'
        )
    found = {}
    for task_id, names in cases.items():
        task = one_task(task_id)
        found[task.id] = {name: _cases(task, name, entries) for name, entries in names.items()}
    return found


def _cases(task: Task, name: str, entries: Any) -> list[Any]:
    ask = task.ask(name)
    if ask.read_case is None:
        raise ValueError(f"{task.id}: {name} takes no hidden cases")
    if not isinstance(entries, list):
        raise ValueError(f"{task.id}: {name} has {type(entries).__name__} for its cases; expected a list")
    cases = []
    for place, entry in enumerate(entries):
        try:
            cases.append(ask.read_case(**{key: _exact(value) for key, value in entry.items()}))
        except (ValueError, TypeError, AttributeError, ZeroDivisionError) as error:
            raise ValueError(f"{task.id}: case {place} of {name} cannot be taken: {error}") from error
    return cases


def _exact(value: Any) -> Any:
    if isinstance(value, list):
        return [_exact(entry) for entry in value]
    return Fraction(value) if isinstance(value, str) and _FRACTION.fullmatch(value) else value
