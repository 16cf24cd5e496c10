"""Coins: the only source of randomness in the lab.

A verification rule or a drafter never calls a random generator. It asks coins two questions: *accept this
draft?* and *which index?* Three implementations answer: `ScriptedCoins` from a list of uniforms (tests, the
coin editor), `EnumeratingCoins` by walking every branch with its exact weight (proofs), `PhiloxCoins` from
counter-based noise (production).

Every question names its key: the `node` it is about and, for a draw, its `purpose`. `accept` and `draft`
are about a drafted node (0 .. N-1); `recover`, `bonus` and `sample` are about a row of the target's
probabilities (row 0 belongs to the pending token, row n+1 to node n). Two questions of a round with the
same key would read the same noise, so a rule that forgets to name its draw must fail: both are required.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

from torch import Tensor

Purpose = Literal["draft", "accept", "recover", "bonus", "sample"]
Mass = float | int | Fraction
Weights = Tensor | Sequence[float] | Sequence[int] | Sequence[Fraction]


@dataclass(frozen=True, slots=True)
class Event:
    """A question that was asked in a round: its key, and the uniform that answered it (None after a race)."""

    purpose: Purpose
    node: int
    uniform: float | None


class Coins(Protocol):
    """Answers the random questions of one round."""

    @property
    def events(self) -> Sequence[Event]:
        """What has been asked in this round, in order."""
        ...

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        """True exactly when `u * q < p` for this key's uniform `u` in [0, 1).

        The comparison is strict, so a token with p = 0 is never accepted, not even at u = 0.
        """
        ...

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        """An index with probability proportional to its weight; never one of weight zero.

        Raises:
            ValueError: a weight is negative or not finite, or none is positive.
        """
        ...

    def coupled(self) -> "Coins":
        """The same noise again, for the draft's side of a coupling: only `sample` draws may be read twice, once a side.

        Raises:
            ValueError: coins that cannot give the same answer twice.
        """
        ...


class CoinSource(Protocol):
    """Hands out the coins of each round."""

    def at(self, *, request: int, length: int) -> Coins:
        """The coins of the round that starts when `request` has `length` tokens (prompt included)."""
        ...
