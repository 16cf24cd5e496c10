"""Coins that walk every branch with its exact weight: the proof tool behind `specdec_core.laws`."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import lcm
from typing import TypeVar

from specdec_core.coins.protocol import Event, Mass, Purpose, Weights
from specdec_core.coins.weights import as_fractions, exact_mass

Result = TypeVar("Result")


class EnumeratingCoins:
    """Answers along one branch of the tree of all answers; `branches` visits them all.

    Only Fraction and int weights are taken: a float raises ValueError, so that no rounding enters a proof.
    """

    def __init__(self, prefix: list[int]) -> None:
        self._prefix = prefix
        self._widths: list[int] = []
        self.weight = Fraction(1)
        self.events: list[Event] = []

    def at(self, *, request: int, length: int) -> "EnumeratingCoins":
        """Itself: fresh noise in each round is a new level of the tree."""
        return self

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        """Both answers, true with weight min(1, p/q); with q = 0, true exactly when p > 0."""
        p, q = exact_mass(p, "p"), exact_mass(q, "q")
        if p < 0 or q < 0:
            raise ValueError(f"p is {p} and q is {q}; probabilities are not negative")
        self.events.append(Event("accept", node, None))
        if p >= q or p == 0:
            self._choose(1)
            return p > 0
        accepted = self._choose(2) == 0
        self.weight *= p / q if accepted else 1 - p / q
        return accepted

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        """Every index of positive weight, with its share of the total."""
        exact = as_fractions(weights)
        self.events.append(Event(purpose, node, None))
        support = [index for index, weight in enumerate(exact) if weight.numerator]
        index = support[self._choose(len(support))]
        # whole numbers over one denominator: adding Fractions is most of the time of an enumeration
        scale = lcm(*(weight.denominator for weight in exact))
        whole = [weight.numerator * (scale // weight.denominator) for weight in exact]
        self.weight *= Fraction(whole[index], sum(whole))
        return index

    def coupled(self) -> "EnumeratingCoins":
        """Refused: only the noise is shared by the sides, and a branch knows answers, not noise."""
        raise ValueError("coupled draws cannot be enumerated; match verification has the same law for every draft")

    def _choose(self, width: int) -> int:
        """Which of `width` answers this branch takes to the next question."""
        level = len(self._widths)
        self._widths.append(width)
        return self._prefix[level] if level < len(self._prefix) else 0

    def next_prefix(self) -> list[int] | None:
        """The choices that lead to the next branch, or None after the last."""
        choices = self._prefix + [0] * (len(self._widths) - len(self._prefix))
        while choices:
            level = len(choices) - 1
            if choices[level] + 1 < self._widths[level]:
                return choices[:level] + [choices[level] + 1]
            choices.pop()
        return None


def branches(run: Callable[[EnumeratingCoins], Result]) -> Iterator[tuple[Fraction, Result]]:
    """The weight and the result of `run` for every way its coins can fall; the weights sum to 1.

    `run` is called once a branch and must depend on nothing but its coins.
    """
    prefix: list[int] | None = []
    while prefix is not None:
        coins = EnumeratingCoins(prefix)
        result = run(coins)
        yield coins.weight, result
        prefix = coins.next_prefix()
