"""Coins in front of other coins: what a detector or a mutant changes is one method of a subclass."""

from collections.abc import Sequence

from specdec_core.coins import Coins, Event, Mass, Purpose, Weights


class ThroughCoins:
    """Coins that pass every question on to `coins`."""

    def __init__(self, coins: Coins) -> None:
        self._coins = coins

    @property
    def events(self) -> Sequence[Event]:
        """What has been asked in this round."""
        return self._coins.events

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        """As `coins`."""
        return self._coins.accept(p, q, node=node)

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        """As `coins`."""
        return self._coins.draw(weights, node=node, purpose=purpose)

    def coupled(self) -> Coins:
        """As `coins`."""
        return self._coins.coupled()
