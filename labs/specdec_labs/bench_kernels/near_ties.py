"""Whether a decision was close: float32 from logits may then decide otherwise than the reference in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specdec_core.coins.noise import NoiseKey
from specdec_kernels.chain_reference import request_coins, request_inputs
from specdec_kernels.verify_batch import GREEDY_BELOW_FLOAT32, KeyedNoise, VerifyBatch

NEAR_TIE = 1e-5
"""Relative gap below which the answers may differ."""


class WatchedCoins:
    """Coins that keep the smallest relative gap between the two sides of any decision they took."""

    def __init__(self, inner: Any, key: tuple[int, int, int]) -> None:
        self.inner, self.key, self.gap = inner, key, 1.0

    @property
    def events(self) -> Any:
        """Those of the coins inside."""
        return self.inner.events

    def accept(self, p: Any, q: Any, *, node: int) -> bool:
        """The answer of the coins inside."""
        answer = self.inner.accept(p, q, node=node)
        left, right = self.inner.events[-1].uniform * float(q), float(p)
        self._note(abs(left - right), max(left, right))
        return answer

    def draw(self, weights: Any, *, node: int, purpose: Any) -> int:
        """The answer of the coins inside."""
        answer = self.inner.draw(weights, node=node, purpose=purpose)
        dense = np.asarray(weights, dtype=np.float64)
        tokens, (seed, request, length) = np.flatnonzero(dense), self.key
        is_sample = purpose == "sample"
        key = NoiseKey(seed, request, length + node * is_sample, 0 if is_sample else node, purpose)
        times = np.sort(key.exponentials(tokens.astype(np.uint32)) / dense[tokens])
        if len(times) > 1:
            self._note(times[1] - times[0], times[1])
        return answer

    def _note(self, distance: float, scale: float) -> None:
        if distance > 0:
            self.gap = min(self.gap, distance / scale)


def smallest_gap(batch: VerifyBatch, request: int, judge: Callable[..., Any]) -> float:
    """The smallest gap of a request's round; `judge(tokens, draft laws, target laws, coins)` is the scalar rule.

    A greedy request has none: its argmax is exact. The batch lies on the CPU and has keyed noise.
    """
    if float(batch.temperature[request]) < GREEDY_BELOW_FLOAT32:
        return 1.0
    assert isinstance(batch.noise, KeyedNoise)
    seed, sample, length = batch.noise.keys[request].tolist()
    coins = WatchedCoins(request_coins(batch, request), (seed & (2**64 - 1), sample, length))
    judge(*request_inputs(batch, request), coins)
    return coins.gap
