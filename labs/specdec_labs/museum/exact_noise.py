"""Exact laws of noise that is read twice.

Enumeration treats every answer of the coins as fresh. Where noise is reused, an answer depends on an earlier one:
the coins here hand the conditional law to the enumeration, so the law of the mutant is exact as well.
"""

from collections.abc import Sequence
from fractions import Fraction

from specdec_core.coins import Coins, CoinSource, Mass, Purpose, Weights
from specdec_core.coins.weights import as_fractions
from specdec_core.exact_drafts import ExactLaw
from specdec_labs.museum.through_coins import ThroughCoins


def second_winner(first: ExactLaw, second: ExactLaw, winner: int) -> list[Fraction]:
    """For each token the probability that it wins the race of `second` and `winner` that of `first`, on one noise.

    A race is won by the smallest E_i / weight_i, with E_i independent standard exponentials. For winners x = y the
    probability is 1 / sum_i max(q_i / q_x, r_i / r_x) (Daliri et al. 2408.07978). For x != y put E_y = t E_x:
    the probability is the integral of dt / (A + B t)^2 over the t that both races allow, A + B t piecewise linear,
    which is rational. The sum over tokens is first[winner].
    """
    return [_both_win(first, second, winner, token) for token in range(len(second))]


def _both_win(q: ExactLaw, r: ExactLaw, x: int, y: int) -> Fraction:
    if not q[x] or not r[y]:
        return Fraction(0)
    if x == y:
        return 1 / sum((max(q_i / q[x], r_i / r[x]) for q_i, r_i in zip(q, r)), Fraction(0))
    low, high = q[y] / q[x], (r[y] / r[x] if r[x] else None)
    if high is not None and high <= low:
        return Fraction(0)
    others = [(q[i] / q[x], r[i] / r[y]) for i in range(len(q)) if i not in (x, y)]
    inside = sorted({c / d for c, d in others if d and c / d > low and (high is None or c / d < high)})
    edges: list[Fraction | None] = [low, *inside, high]
    total = Fraction(0)
    for start, end in zip(edges, edges[1:]):
        assert start is not None
        # left of c / d the first race binds token i, right of it the second does
        constant = 1 + sum((c for c, d in others if c > start * d), Fraction(0))
        slope = 1 + sum((d for c, d in others if c <= start * d), Fraction(0))
        total += (1 / (constant + slope * start) - (0 if end is None else 1 / (constant + slope * end))) / slope
    return total


class DraftRaceEnumeration:
    """A source whose recovered tokens read the noise that drew the refused draft."""

    def __init__(self, coins: CoinSource) -> None:
        self._coins = coins

    def at(self, *, request: int, length: int) -> Coins:
        """The coins of a round."""
        return _DraftRaceRound(self._coins.at(request=request, length=length))


class _DraftRaceRound(ThroughCoins):
    def __init__(self, coins: Coins) -> None:
        super().__init__(coins)
        self._drafts: dict[int, tuple[Sequence[Fraction], int]] = {}

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        if purpose == "recover":
            # the accept number is a number of its own, so only the draft's victory is known of this noise
            drawn_from, draft = self._drafts[node]
            weights = second_winner(drawn_from, as_fractions(weights), draft)
        token = super().draw(weights, node=node, purpose=purpose)
        if purpose == "draft":
            self._drafts[node] = (as_fractions(weights), token)
        return token


class PositionKeyedEnumeration:
    """A source whose draft and accept noise belongs to a position of the text, whichever round asks for it.

    For laws that do not depend on the text: a position that is drafted again meets the same noise and the same law,
    so its draft is the same token. What is known of an accept number is an interval, narrowed by every answer.
    Recovered and bonus tokens are emitted, so their noise is read once.
    """

    def __init__(self, coins: CoinSource) -> None:
        self._coins = coins
        self.drafts: dict[int, tuple[Sequence[Fraction], int]] = {}
        self.accepts: dict[int, tuple[Fraction, Fraction]] = {}

    def at(self, *, request: int, length: int) -> Coins:
        """The coins of the round that starts at `length`."""
        return _PositionRound(self, self._coins.at(request=request, length=length), length)


class _PositionRound(ThroughCoins):
    def __init__(self, source: PositionKeyedEnumeration, coins: Coins, length: int) -> None:
        super().__init__(coins)
        self._source, self._length = source, length

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        position = self._length + node
        low, high = self._source.accepts.get(position, (Fraction(0), Fraction(1)))
        threshold = min(max(Fraction(p) / Fraction(q) if q else Fraction(p > 0), low), high)
        accepted = super().accept(threshold - low, high - low, node=node)
        self._source.accepts[position] = (low, threshold) if accepted else (threshold, high)
        return accepted

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        if purpose != "draft":
            return super().draw(weights, node=node, purpose=purpose)
        position = self._length + node
        if position not in self._source.drafts:
            token = super().draw(weights, node=node, purpose=purpose)
            self._source.drafts[position] = (as_fractions(weights), token)
        drawn_from, token = self._source.drafts[position]
        if drawn_from != as_fractions(weights):
            raise ValueError(
                f"position {position} is drafted again from another law; only laws without context are enumerated"
            )
        return token
