"""The exact joint law of the next tokens, cut into cells that can be tested.

Two kinds of partition are made. *Leading* tokens 1 .. t: the most probable continuations are cells of their own,
the others are grouped by their last token. *Pairs* of tokens j < t: a cell a pair of values, which shows noise
that comes back in a later round even where every single continuation is too rare to be a cell. What has little
weight is bundled; a history that was not followed falls in the last cell, whose probability is known as well. Cells
are chosen from the law alone, never from the samples, so the tests stay valid.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Float64
import numpy as np
from numpy import ndarray

Tokens = tuple[int, ...]
LEAST_PROBABLE = 0.004
LEAST_EXPECTED = 10
"""Samples a cell should expect: below about 5 the chi-square approximation gives false alarms."""

_MAX_HISTORIES = 600
_RARE_CLASSES = 16
_BUNDLE = 0.05
"""Groups too light for a cell share one of about this probability: fine enough to show a bias, few enough for power."""


class NextLaws(Protocol):
    """The target's law of the next token after any continuation; it sums to 1."""

    def __call__(self, continuation: Tokens) -> Float64[ndarray, " vocab"]:
        """The law after `continuation` (behind the prompt, if there is one)."""
        ...

    def prefetch(self, continuations: Sequence[Tokens]) -> None:
        """A hint that these will be asked for; computing them together may be cheaper."""
        ...


@dataclass(frozen=True, slots=True)
class JointLaw:
    """The joint law of the first t tokens, as far as cells need it.

    `masses` maps continuations to probabilities. Tokens outside `common` have little weight at position t whatever
    comes before; most of their continuations are summed by `rare_class`, which stands in for the last token.
    """

    masses: dict[Tokens, float]
    common: frozenset[int]

    def last_of(self, tokens: Tokens) -> int:
        """The last token, or the class that stands for it."""
        return tokens[-1] if tokens[-1] < 0 or tokens[-1] in self.common else rare_class(tokens[-1])


def rare_class(token: int) -> int:
    """One of a few negative numbers."""
    return -1 - token % _RARE_CLASSES


@dataclass(frozen=True, slots=True)
class Partition:
    """Cells over the tokens at `positions` (from 1, increasing).

    `index` maps sequences of positions[-1] tokens to cells, the last token perhaps by the `rare_class` of one outside
    `common`; every other sequence falls in the last cell. `probabilities` lists the exact probability of each cell;
    they sum to 1.
    """

    positions: tuple[int, ...]
    index: dict[Tokens, int]
    common: frozenset[int]
    probabilities: tuple[float, ...]

    @property
    def cells(self) -> int:
        """How many there are."""
        return len(self.probabilities)

    def cell_of(self, tokens: Tokens) -> int:
        """The cell that a sample of at least positions[-1] tokens falls in."""
        tokens = tokens[: self.positions[-1]]
        cell = self.index.get(tokens)
        if cell is None and tokens[-1] not in self.common:
            cell = self.index.get((*tokens[:-1], rare_class(tokens[-1])))
        return self.cells - 1 if cell is None else cell


def joint_laws(law: NextLaws, horizon: int) -> list[JointLaw]:
    """The joint law of the first t tokens for t = 1 .. `horizon`.

    Past the `_MAX_HISTORIES` most probable ones, histories are not followed; what they lead to is left out.
    """
    histories: dict[Tokens, float] = {(): 1.0}
    joints: list[JointLaw] = []
    for _ in range(horizon):
        law.prefetch(list(histories))
        joints.append(_extend(law, histories))
        whole = (item for item in joints[-1].masses.items() if item[0][-1] >= 0)
        histories = dict(sorted(whole, key=_by_mass)[:_MAX_HISTORIES])
    return joints


def _extend(law: NextLaws, histories: dict[Tokens, float]) -> JointLaw:
    rows = {history: mass * law(history) for history, mass in histories.items()}
    is_common = np.sum(list(rows.values()), axis=0) >= LEAST_PROBABLE
    heaviest = _heaviest(list(rows.values()))
    classes = np.arange(len(is_common)) % _RARE_CLASSES
    masses: dict[Tokens, float] = {}
    for number, (history, row) in enumerate(rows.items()):
        is_own = is_common & (row > 0)
        is_own[heaviest.get(number, [])] = True
        for token in np.flatnonzero(is_own).tolist():
            masses[history + (token,)] = float(row[token])
        summed = np.bincount(classes, weights=np.where(is_own, 0.0, row), minlength=_RARE_CLASSES)
        for rest in np.flatnonzero(summed).tolist():
            masses[history + (rare_class(rest),)] = float(summed[rest])
    return JointLaw(masses, frozenset(np.flatnonzero(is_common).tolist()))


def _heaviest(rows: Sequence[Float64[ndarray, " vocab"]]) -> dict[int, list[int]]:
    """The columns of the `_MAX_HISTORIES` largest positive entries of all rows, by row."""
    found = []
    for number, row in enumerate(rows):
        # a sort of the whole row would cost more than everything else when the vocabulary is large
        columns = np.argpartition(-row, min(_MAX_HISTORIES, len(row)) - 1)[:_MAX_HISTORIES]
        found += [(-row[column], number, column) for column in columns.tolist() if row[column] > 0]
    columns_of: dict[int, list[int]] = {}
    for _, number, column in sorted(found)[:_MAX_HISTORIES]:
        columns_of.setdefault(number, []).append(column)
    return columns_of


def cut(
    joints: Sequence[JointLaw], max_cells: int, least: float = LEAST_PROBABLE, *, may_be_empty: bool = False
) -> list[Partition]:
    """The partitions that have at least two cells, by last position; no cell is less probable than `least`.

    Raises:
        ValueError: a law that leaves nothing to test, unless `may_be_empty`.
    """
    found: list[Partition] = []
    for last, joint in enumerate(joints, start=1):
        found.append(_leading(last, joint, max_cells, least))
        if last > 2:
            found += [_pair(first, last, joint, max_cells, least) for first in range(1, last)]
    found = [part for part in found if part.cells >= 2]
    if not found and not may_be_empty:
        raise ValueError("the law leaves one continuation of any weight to test; raise temperature or top_k")
    return found


def partitions(law: NextLaws, horizon: int, max_cells: int, *, least: float = LEAST_PROBABLE) -> list[Partition]:
    """`cut` of `joint_laws`."""
    return cut(joint_laws(law, horizon), max_cells, least)


def _by_mass(item: tuple[Tokens, float]) -> tuple[float, Tokens]:
    return -item[1], item[0]


def _leading(last: int, joint: JointLaw, max_cells: int, least: float) -> Partition:
    """Single continuations of weight, up to half the cells; the others by their last token."""
    whole = (item for item in joint.masses.items() if item[0][-1] in joint.common)
    single = {tokens for tokens, mass in sorted(whole, key=_by_mass)[: max_cells // 2] if mass >= least}

    def key(tokens: Tokens) -> Hashable:
        return tokens if tokens in single else joint.last_of(tokens)

    return _grouped(tuple(range(1, last + 1)), joint, key, max_cells, least)


def _pair(first: int, last: int, joint: JointLaw, max_cells: int, least: float) -> Partition:
    """A cell a pair of values of the tokens at two positions."""
    return _grouped((first, last), joint, lambda tokens: (tokens[first - 1], joint.last_of(tokens)), max_cells, least)


def _grouped(
    positions: tuple[int, ...], joint: JointLaw, key: Callable[[Tokens], Hashable], max_cells: int, least: float
) -> Partition:
    """The heaviest groups of equal `key` become cells, the others bundles; the last cell takes all the rest."""
    weights: dict[Hashable, float] = {}
    for tokens, mass in joint.masses.items():
        weights[key(tokens)] = weights.get(key(tokens), 0.0) + mass
    groups = sorted(weights, key=lambda group: -weights[group])
    alone = [group for group in groups[: max_cells - 1] if weights[group] >= least]
    cells = [[group] for group in alone] + _bundles(groups[len(alone) :], weights, max(least, _BUNDLE))
    del cells[max_cells - 1 :]
    probabilities = [sum(weights[group] for group in cell) for cell in cells]
    rest = max(0.0, 1.0 - sum(probabilities))
    while rest < least and cells:
        # too small a cell of its own: the last group or bundle joins the rest
        cells.pop()
        rest += probabilities.pop()
    cell_of = {group: number for number, cell in enumerate(cells) for group in cell}
    index = {tokens: cell_of[key(tokens)] for tokens in joint.masses if key(tokens) in cell_of}
    return Partition(positions, index, joint.common, (*probabilities, rest))


def _bundles(groups: Sequence[Hashable], weights: dict[Hashable, float], least: float) -> list[list[Hashable]]:
    """Neighbours in the order of weight, together at least `least` each; what is left over is in none."""
    bundles: list[list[Hashable]] = []
    bundle: list[Hashable] = []
    weight = 0.0
    for group in groups:
        bundle.append(group)
        weight += weights[group]
        if weight >= least:
            bundles.append(bundle)
            bundle, weight = [], 0.0
    return bundles
