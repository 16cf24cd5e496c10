"""The prompts acceptance is measured on, and the few that settings are chosen with.

MT-bench's first turns and HumanEval are never trained on, nor are our own; of our own the first two of every task are
kept apart to measure acceptance vectors and to choose trees with, the others are measured on.
"""

from dataclasses import dataclass

from specdec_core.prompts import HUMANEVAL, MT_BENCH, TASKS, available, load_prompts

SETS = (MT_BENCH, HUMANEVAL, *TASKS)
TUNING_EACH = 2
_HUMANEVAL_COUNT, _HUMANEVAL_EVERY = 40, 4


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """One prompt. `task` is "mt_bench", "humaneval" or a task of ours; `tuning` ones are not measured on."""

    task: str
    number: int
    text: str
    tuning: bool = False


def bench_prompts() -> list[BenchPrompt]:
    """All that are available here, in a fixed order: 80 of MT-bench, every fourth of HumanEval (40), 90 of our own."""
    there = available()
    found: list[BenchPrompt] = []
    for task in SETS:
        if task not in there:
            continue
        prompts = load_prompts(task)
        if task == HUMANEVAL:
            prompts = prompts[::_HUMANEVAL_EVERY][:_HUMANEVAL_COUNT]
        found += [
            BenchPrompt(task, prompt.question_id, prompt.turns[0], task in TASKS and place < TUNING_EACH)
            for place, prompt in enumerate(prompts)
        ]
    return found
