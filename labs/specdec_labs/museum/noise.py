"""Bugs of the whole engine's noise: random numbers that are read twice.

`AcceptByDraftNoise`: a draft is judged by the very number that drew it. It won its race with a small number, so
nearly everything is accepted. Met as one random stream for draft and verification (vLLM #47386).
`NoiseOfTheDraft`: the recovered token is drawn with the very noise that drew the refused draft; on a law of three
tokens 0.60 becomes about 0.63. Met in vLLM (#54282, fixed 2026-08). `NoiseOfTheFirstRound`: noise is drawn once a
request and read again in every round; each marginal stays right and the joint law does not. Met in Sequoia.
"""

from collections.abc import Sequence

import numpy as np

from specdec_core.coins import CoinSource, Mass, NoiseKey, PhiloxCoins, Purpose, RoundCoins, Weights
from specdec_core.engine import Engine, Stream
from specdec_core.warp import SamplingParams
from specdec_labs.museum.keys import of_the_draft


class NoiseOfTheDraft(PhiloxCoins):
    """Coins whose recovered token reads the noise of the refused draft."""

    def at(self, *, request: int, length: int) -> RoundCoins:
        """The coins of one round, with the bug."""
        return _RecoversWithDraftNoise(self.seed, request, length)


class _RecoversWithDraftNoise(RoundCoins):
    def _key(self, node: int, purpose: Purpose) -> NoiseKey:
        return of_the_draft(super()._key(node, purpose))


class AcceptByDraftNoise(PhiloxCoins):
    """Coins that judge a draft by the number that drew it."""

    def at(self, *, request: int, length: int) -> RoundCoins:
        """The coins of one round, with the bug."""
        return _AcceptsByDraftNoise(self.seed, request, length)


class _AcceptsByDraftNoise(RoundCoins):
    def __init__(self, seed: int, request: int, length: int) -> None:
        super().__init__(seed, request, length)
        self._drawn: dict[int, int] = {}

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        token = super().draw(weights, node=node, purpose=purpose)
        if purpose == "draft":
            self._drawn[node] = token
        return token

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        seed, request, length = self._round
        words = NoiseKey(seed, request, length, node, "draft").words(np.array([self._drawn[node]], dtype=np.uint32))
        return float(words[0]) * 2.0**-32 * q < p


class NoiseOfTheFirstRound(PhiloxCoins):
    """Coins that are the same in every round of a request."""

    def at(self, *, request: int, length: int) -> RoundCoins:
        """The coins of one round, with the bug."""
        return super().at(request=request, length=0)


def with_coins(engine: Engine, source: type[PhiloxCoins]) -> Engine:
    """The same engine, its noise taken from `source`."""

    class WithCoins(Engine):
        def stream(
            self,
            prompt: Sequence[int],
            params: SamplingParams | None = None,
            max_new_tokens: int = 64,
            *,
            request: int = 0,
            coins: CoinSource | None = None,
        ) -> Stream:
            seed = None if params is None else params.seed
            return super().stream(prompt, params, max_new_tokens, request=request, coins=source(seed))

    return WithCoins(engine.target, engine.drafter, engine.rule, engine.controller)
