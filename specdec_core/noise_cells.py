"""Cells over the noise behind a text, whatever the vocabulary and the entropy are.

Under the law, u_t = F(x_t - 1 | text) + v p(x_t | text) is uniform and independent of everything before it, where F is
the cumulative law in the order of the ids and v fresh noise of the certificate: the randomised probability integral
transform. So equal cells of u are cells of known probability at *every* position, where no single text need be likely.
Grids over one, two and three positions show a wrong marginal, noise read twice, and a token made from two others. The
same with tokens in the order of their probability shows a wrong temperature or a cut tail; crossed with the place in
the batch it shows a broken row.

A race for the smallest E_i / p_i has no order of ids. Noise used again lets the same token win again: for each pair of
positions the repeats x_t = x_s are counted, and compared with their chance p(x_s | text before t).

Sources: Rosenblatt, Remarks on a multivariate transformation (1952); Smith (1985) and Brockwell (2007) for discrete
laws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, Protocol

from jaxtyping import Bool, Float64, Int
import numpy as np
from numpy import ndarray

from specdec_core.partition import LEAST_EXPECTED, NextLaws, Tokens

GridKind = Literal["noise", "rank", "slot"]
SIDES = (20, 6, 4)
"""Cells a token in grids over one, two and three tokens."""

SLOTS, SLOT_SIDE = 8, 4
"""Places in the batch are taken modulo 8, and crossed with quarters of u."""

_OWN_STREAM = 0x43455254  # no sampler seeds its noise with this word
_MOST_REMEMBERED = 1 << 20


@dataclass(frozen=True, slots=True)
class Readings:
    """What the law says about a batch of samples.

    Attributes:
        uniforms, ranks: u of each token, ids in their own order and in the order of probability.
        repeats, chances: for each pair of positions whether the tokens are equal, and how likely that was given the
            text before the later one. Pairs (1, 2), (1, 3), (2, 3), (1, 4) and so on.
        slots: place in the batch, from 0.
        impossible: (sample, tokens up to the first of probability 0).
    """

    uniforms: Float64[ndarray, "samples horizon"]
    ranks: Float64[ndarray, "samples horizon"]
    repeats: Bool[ndarray, "samples pairs"]
    chances: Float64[ndarray, "samples pairs"]
    slots: Int[ndarray, " samples"]
    impossible: tuple[tuple[int, Tokens], ...]


class Reader(Protocol):
    """Readings of one batch after the other."""

    def read(self, samples: Sequence[Tokens]) -> Readings:
        """The readings of the next samples, all of the horizon's length."""
        ...


class LawReader:
    """Reads batches by `laws`; `seed` selects the noise v, a stream of its own that no sampler reads."""

    def __init__(self, laws: NextLaws, seed: int) -> None:
        self._laws = laws
        self._noise = own_noise(seed)
        self._facts: dict[Tokens, tuple[float, ...]] = {}

    def read(self, samples: Sequence[Tokens]) -> Readings:
        """The readings of the next batch."""
        heads = [[tokens[:length] for length in range(1, len(tokens) + 1)] for tokens in samples]
        self._learn(heads)
        facts = [[self._facts[head] for head in own] for own in heads]
        horizon = len(samples[0])
        base = np.array([[fact[:4] for fact in own] for own in facts]).reshape(len(samples), horizon, 4)
        chances = np.array([[chance for fact in own for chance in fact[4:]] for own in facts])
        impossible = tuple(
            (number, next(head for head, fact in zip(heads[number], facts[number]) if fact[1] <= 0))
            for number in np.flatnonzero((base[..., 1] <= 0).any(axis=1)).tolist()
        )
        return readings_of(np.array(samples), base, chances.reshape(len(samples), -1), self._noise, impossible)

    def _learn(self, heads: Sequence[Sequence[Tokens]]) -> None:
        """The laws after all texts that are new."""
        if len(self._facts) > _MOST_REMEMBERED:
            self._facts.clear()
        unknown = sorted({head for own in heads for head in own}.difference(self._facts))
        self._laws.prefetch([head[:-1] for head in unknown])
        for head in unknown:
            law, token = self._laws(head[:-1]), head[-1]
            p = law[token]
            smaller, tied = law[law < p].sum(), law[law == p].sum()
            self._facts[head] = (law[:token].sum(), p, smaller, tied, *law[list(head[:-1])])


def own_noise(seed: int) -> np.random.Generator:
    """The certificate's own noise."""
    return np.random.default_rng([_OWN_STREAM, seed])


def readings_of(
    tokens: Int[ndarray, "samples horizon"],
    base: Float64[ndarray, "samples horizon 4"],
    chances: Float64[ndarray, "samples pairs"],
    noise: np.random.Generator,
    impossible: tuple[tuple[int, Tokens], ...] = (),
) -> Readings:
    """Readings from the masses below, at, less probable than and as probable as each token."""
    v = noise.random(tokens.shape)
    repeats = [tokens[:, first - 1] == tokens[:, last - 1] for first, last in pairs_of(tokens.shape[1])]
    return Readings(
        uniforms=base[..., 0] + v * base[..., 1],
        ranks=base[..., 2] + v * base[..., 3],
        repeats=np.array(repeats, dtype=bool).T.reshape(len(tokens), -1),
        chances=np.minimum(chances, 1.0),
        slots=np.arange(len(tokens)),
        impossible=impossible,
    )


def pairs_of(horizon: int) -> list[tuple[int, int]]:
    """All pairs of positions (from 1), by the later one."""
    return [(first, last) for last in range(2, horizon + 1) for first in range(1, last)]


@dataclass(frozen=True, slots=True)
class Grid:
    """Equal cells of u at `positions`, `side` a position; kind "slot" crosses them with `strata` places in a batch."""

    kind: GridKind
    positions: tuple[int, ...]
    side: int
    strata: int = 1

    @property
    def cells(self) -> int:
        """Of one stratum."""
        return self.side ** len(self.positions)

    @property
    def degrees(self) -> int:
        """Degrees of freedom: counts of each stratum are given."""
        return self.strata * (self.cells - 1)

    def cells_of(self, readings: Readings) -> Int[ndarray, " samples"]:
        """stratum * cells + cell of each sample."""
        u = readings.ranks if self.kind == "rank" else readings.uniforms
        found = readings.slots % self.strata
        for position in self.positions:
            # rounding may lift u to 1
            own = np.minimum((u[:, position - 1] * self.side).astype(np.int64), self.side - 1)
            found = found * self.side + own
        return found


def grids(horizon: int, n: float, max_cells: int, slots: int) -> list[Grid]:
    """All grids whose cells expect `LEAST_EXPECTED` of n samples each; `slots` is the size of a batch, 1 for none."""
    orders: tuple[tuple[GridKind, int], ...] = (("noise", 3), ("rank", 2))
    found = [
        Grid(kind, positions, side)
        for kind, most in orders
        for size in range(1, most + 1)
        if (side := _side(size, n, max_cells)) >= 2
        for positions in combinations(range(1, horizon + 1), size)
    ]
    strata = min(SLOTS, slots)
    if strata > 1 and n >= LEAST_EXPECTED * strata * SLOT_SIDE:
        found += [Grid("slot", (position,), SLOT_SIDE, strata) for position in range(1, horizon + 1)]
    return found


def _side(size: int, n: float, max_cells: int) -> int:
    """Cells a token in a grid over `size` tokens; three tokens get 3 each of 40 cells, and 4 from 64 on."""
    most = max(2**size, min(n / LEAST_EXPECTED, max_cells))
    side = SIDES[size - 1]
    while side > 1 and side**size > most:
        side -= 1
    return side if side**size * LEAST_EXPECTED <= n else 1
