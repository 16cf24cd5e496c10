"""Which prompts, tasks, temperatures and arms a speed-up run measures, and the loop over them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
import time

from specdec_core.models.pairs import Pair
from specdec_core.prompts import OWN, TASKS, available, load_prompts
from specdec_core.warp import SamplingParams
from specdec_labs.bench.arms import PLAIN, Arm, ArmRun, run_arms
from specdec_labs.bench.drafters import Factory

HALVES = 2
DIGITS = tuple(
    " ".join(str((first + step * place) % 10) for place in range(4)) for step in (1, 3) for first in range(6)
)
MIXED = "mixed"
"""The task made of all our own tasks, a prompt of each in turn."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """Prompts of one task at one temperature."""

    task: str
    temperature: float


@dataclass(frozen=True, slots=True)
class CellRun:
    """All arms on one prompt of a cell. Prompts of different halves are never used together in a prediction."""

    cell: Cell
    prompt: int
    half: int
    runs: tuple[ArmRun, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """What is measured. `seconds` limits the whole loop; at least one prompt of each half of every cell is run."""

    drafters: tuple[str, ...]
    gammas: tuple[int, ...]
    cells: tuple[Cell, ...]
    tokens: int
    prompts: int
    seconds: float
    seed: int = 0
    arms: tuple[Arm, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not self.gammas or min(self.gammas) < 1:
            raise ValueError(f"gammas is {self.gammas}; expected numbers of at least 1: plain decoding is always run")
        for name, value in (("tokens", self.tokens), ("prompts", self.prompts)):
            if value < HALVES:
                raise ValueError(f"{name} is {value}; expected at least {HALVES}")
        arms = [PLAIN, *(Arm(name, gamma) for name in self.drafters for gamma in sorted(set(self.gammas)))]
        object.__setattr__(self, "arms", tuple(arms))


def task_prompts(task: str) -> list[str]:
    """The first turns of the task's prompts. "mixed" takes a prompt of each of our tasks in turn, the halves alike.

    Raises:
        ValueError: an unknown task, or one whose wheel is not installed.
    """
    if task != MIXED:
        return [prompt.turns[0] for prompt in load_prompts(task)]
    by_task = [[prompt.turns[0] for prompt in load_prompts(name)] for name in TASKS]
    # two of a task follow each other, so that each half gets one of them
    pairs = range(0, min(map(len, by_task)) - 1, HALVES)
    return [prompts[place + half] for place in pairs for prompts in by_task for half in range(HALVES)]


def pair_prompts(pair: Pair, task: str, new_tokens: int) -> list[list[int]]:
    """The task's prompts as ids in the pair's chat format; the toy pair, which reads digits alone, gets those.

    Prompts that leave no room for `new_tokens` in the target's context are left out, two at a time.

    Raises:
        ValueError: fewer than two prompts fit.
    """
    texts = DIGITS if pair.name == "toy" else task_prompts(task)
    room = pair.target.max_length - new_tokens
    every = [pair.tokenizer.chat(text) for text in texts]
    # in pairs, one for each half, so that the halves stay alike
    twos = [every[place : place + HALVES] for place in range(0, len(every) - 1, HALVES)]
    found = [ids for two in twos if all(len(ids) <= room for ids in two) for ids in two]
    if not found:
        raise ValueError(
            f"task {task!r} has no two prompts that leave room for {new_tokens} tokens in a context of "
            f"{pair.target.max_length}; choose another task or fewer tokens"
        )
    return found


def check_task(task: str) -> None:
    """ValueError for a task there are no prompts for here."""
    if task not in (MIXED, OWN, *available()):
        raise ValueError(f"task is {task!r}; expected one of {', '.join((MIXED, *available()))}")


def run_grid(
    grid: Grid,
    pair: Pair,
    factories: Mapping[str, Factory],
    before_run: Callable[[Cell, int, float], None],
    kept: list[CellRun],
) -> None:
    """Appends to `kept`, two prompts a cell in turn, until the time is up or the prompts are used.

    `before_run(cell, prompt, seconds left)` is called before each. Ctrl-C passes through; what is finished is in
    `kept`.
    """
    start = time.monotonic()
    prompts = {cell: pair_prompts(pair, cell.task, grid.tokens)[: grid.prompts] for cell in grid.cells}
    slowest = 0.0
    for request, (place, cell) in enumerate(_places(prompts, grid.cells)):
        left = grid.seconds - (time.monotonic() - start)
        # both halves of a cell or none: uneven ones would differ in their tasks
        if place >= HALVES and place % HALVES == 0 and left < HALVES * slowest:
            return
        before_run(cell, place, left)
        began = time.monotonic()
        runs = run_arms(
            pair.target,
            factories,
            _rotated(grid.arms, place),
            prompts[cell][place],
            SamplingParams(temperature=cell.temperature, seed=grid.seed, stop=pair.tokenizer.eos_ids),
            grid.tokens,
            # a number of its own, so that prompts of equal length in two cells do not share their noise
            request=request,
        )
        kept.append(CellRun(cell, place, place % HALVES, tuple(runs)))
        slowest = max(slowest, time.monotonic() - began)


def _places(prompts: Mapping[Cell, Sequence[Sequence[int]]], cells: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
    """A prompt of each half of one cell, then of the next cell; an odd prompt at the end is left out."""
    for first in range(0, max(map(len, prompts.values())) - 1, HALVES):
        for cell in cells:
            if first + 1 < len(prompts[cell]):
                yield from ((first + half, cell) for half in range(HALVES))


def _rotated(arms: Sequence[Arm], places: int) -> list[Arm]:
    """No arm is always first."""
    start = places % len(arms)
    return [*arms[start:], *arms[:start]]
