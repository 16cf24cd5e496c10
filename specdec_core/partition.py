"""The exact joint law of the next tokens, cut into cells that can be tested.

Two kinds of partition are made. *Leading* tokens 1 .. t: the most probable continuations are cells of their own,
the others are grouped by their last token. *Pairs* of tokens j < t: a cell a pair of values, which shows noise
that comes back in a later round even where every single continuation is too rare to be a cell. Whatever has
little weight, or a history that was not followed, is the last cell, whose probability is known as well. Cells
are chosen from the law alone, never from the samples, so the tests stay valid.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch

from specdec_core.memo import MemoisedModel
from specdec_core.warp import SamplingParams

Tokens = tuple[int, ...]
LEAST_PROBABLE = 0.004
LEAST_EXPECTED = 10
"""Samples a cell should expect: below about 5 the chi-square approximation gives false alarms."""

_MAX_HISTORIES = 600


@dataclass(frozen=True, slots=True)
class Partition:
    """Cells over the tokens at `positions` (from 1, increasing).

    `index` maps sequences of positions[-1] tokens to cells; every other sequence falls in the last cell.
    `probabilities` lists the exact probability of each cell; they sum to 1.
    """

    positions: tuple[int, ...]
    index: dict[Tokens, int]
    probabilities: tuple[float, ...]

    @property
    def cells(self) -> int:
        """How many there are."""
        return len(self.probabilities)

    def cell_of(self, tokens: Tokens) -> int:
        """The cell that a sample of at least positions[-1] tokens falls in."""
        return self.index.get(tokens[: self.positions[-1]], self.cells - 1)


def partitions(
    oracle: MemoisedModel,
    prompt: Tokens,
    params: SamplingParams,
    horizon: int,
    max_cells: int,
    *,
    least: float = LEAST_PROBABLE,
) -> list[Partition]:
    """The partitions of the first `horizon` tokens that have at least two cells, by last position.

    No cell is less probable than `least`.

    Raises:
        ValueError: a horizon below 1, fewer than two cells allowed, or a law that leaves nothing to test.
    """
    if horizon < 1 or max_cells < 2:
        raise ValueError(f"horizon is {horizon} and max_cells is {max_cells}; expected at least 1 and 2")
    histories: dict[Tokens, float] = {(): 1.0}
    found: list[Partition] = []
    for last in range(1, horizon + 1):
        oracle.prefetch([prompt + history for history in histories])
        joint = _extend(oracle, prompt, params, histories)
        found.append(_leading(last, joint, max_cells, least))
        if last > 2:
            found += [_pair(first, last, joint, max_cells, least) for first in range(1, last)]
        histories = dict(sorted(joint.items(), key=_by_mass)[:_MAX_HISTORIES])
    found = [part for part in found if part.cells >= 2]
    if not found:
        raise ValueError(
            "params leave one continuation of any weight (or n is too small); raise temperature or top_k, or n"
        )
    return found


def _by_mass(item: tuple[Tokens, float]) -> tuple[float, Tokens]:
    return -item[1], item[0]


def _leading(last: int, joint: dict[Tokens, float], max_cells: int, least: float) -> Partition:
    """Single continuations of weight, up to half the cells; the others by their last token."""
    ranked = sorted(joint.items(), key=_by_mass)[: max_cells // 2]
    single = {continuation for continuation, mass in ranked if mass >= least}
    return _grouped(
        tuple(range(1, last + 1)), joint, lambda tokens: tokens if tokens in single else tokens[-1], max_cells, least
    )


def _pair(first: int, last: int, joint: dict[Tokens, float], max_cells: int, least: float) -> Partition:
    """A cell a pair of values of the tokens at two positions."""
    return _grouped((first, last), joint, lambda tokens: (tokens[first - 1], tokens[-1]), max_cells, least)


def _grouped(
    positions: tuple[int, ...],
    joint: dict[Tokens, float],
    key: Callable[[Tokens], Hashable],
    max_cells: int,
    least: float,
) -> Partition:
    """The heaviest groups of equal `key` become cells; the last cell takes all the rest."""
    masses: dict[Hashable, float] = {}
    for continuation, mass in joint.items():
        masses[key(continuation)] = masses.get(key(continuation), 0.0) + mass
    heaviest = sorted(masses, key=lambda group: -masses[group])[: max_cells - 1]
    groups = [group for group in heaviest if masses[group] >= least]
    rest = max(0.0, 1.0 - sum(masses[group] for group in groups))
    while rest < least and groups:
        # too small a cell of its own: the lightest group joins the rest
        rest += masses[groups.pop()]
    cell_of = {group: cell for cell, group in enumerate(groups)}
    index = {tokens: cell_of[key(tokens)] for tokens in joint if key(tokens) in cell_of}
    return Partition(positions, index, (*(masses[group] for group in groups), rest))


def _extend(
    oracle: MemoisedModel, prompt: Tokens, params: SamplingParams, histories: dict[Tokens, float]
) -> dict[Tokens, float]:
    """Every continuation of the histories by one token, with its probability."""
    joint: dict[Tokens, float] = {}
    for history, mass in histories.items():
        law = next_law(oracle, prompt, history, params).to(torch.float64)
        # a float32 law sums to 1 only to about 1e-7; a draw goes by ratios, and so must the cells
        law = law / law.sum()
        joint.update({history + (token,): mass * float(law[token]) for token in law.nonzero()[:, 0].tolist()})
    return joint


def next_law(oracle: MemoisedModel, prompt: Tokens, continuation: Tokens, params: SamplingParams) -> torch.Tensor:
    """The target's law after `prompt + continuation`, float32."""
    prefix = prompt + continuation
    history = [prefix] if params.uses_history else None
    return params.probs(oracle.logits_after(prefix)[None], history, prompt_length=len(prompt))[0]
