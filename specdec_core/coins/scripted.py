"""Coins that read their uniforms from a list: tests, worked examples, the coin editor."""

from collections.abc import Iterable

import numpy as np

from specdec_core.coins.protocol import Event, Mass, Purpose, Weights
from specdec_core.coins.weights import support


def inverse_cdf(weights: Weights, v: float) -> int:
    """The lowest index of positive weight whose running sum exceeds `v * total`.

    The sum runs in float64; should rounding leave it at or below `v * total` at the end, the last positive
    index is taken.

    Raises:
        ValueError: `v` outside [0, 1), or weights that cannot be drawn from.
    """
    if not 0 <= v < 1:
        raise ValueError(f"v is {v}; a uniform lies in [0, 1)")
    indices, values = support(weights)
    running = np.cumsum(values)
    place = int(np.searchsorted(running, v * running[-1], side="right"))
    return int(indices[min(place, len(indices) - 1)])


class ScriptedCoins:
    """Takes the next uniform of a list for each question, whatever its key.

    `accept` compares it as `u * q < p`; `draw` inverts the running sum. `used` lists what has been taken.
    """

    def __init__(self, uniforms: Iterable[float]) -> None:
        self._uniforms = list(uniforms)
        for index, u in enumerate(self._uniforms):
            if not 0 <= u < 1:
                raise ValueError(f"uniforms[{index}] is {u}; a uniform lies in [0, 1)")
        self.used: list[float] = []
        self.events: list[Event] = []

    def at(self, *, request: int, length: int) -> "ScriptedCoins":
        """Itself: the script runs on through all rounds. `events` starts anew."""
        self.events = []
        return self

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        """True exactly when `u * q < p` for the next uniform."""
        return self._next("accept", node) * q < p

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        """The index the next uniform selects by inverse CDF."""
        return inverse_cdf(weights, self._next(purpose, node))

    def coupled(self) -> "ScriptedCoins":
        """Refused: a script has no keys."""
        raise ValueError("scripted coins have no keys, so two sides cannot read the same noise; use PhiloxCoins")

    def _next(self, purpose: Purpose, node: int) -> float:
        if len(self.used) == len(self._uniforms):
            raise ValueError(f"the script has {len(self._uniforms)} uniforms and all are used; give it more")
        self.used.append(self._uniforms[len(self.used)])
        self.events.append(Event(purpose, node, self.used[-1]))
        return self.used[-1]
