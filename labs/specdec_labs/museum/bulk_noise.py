"""The noise of `PhiloxCoins`, number for number, computed for many requests at a time; and its keys, rewritten.

Most bugs with random numbers are one wrong key: a mutant here is a function from the right key to the wrong one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import UInt32
import numpy as np
from numpy import ndarray

from specdec_core.coins import NoiseKey, PhiloxCoins, Purpose, RoundCoins
from specdec_core.coins.noise import PURPOSE_CODES
from specdec_core.coins.philox import philox4x32

Rekey = Callable[[NoiseKey], NoiseKey]


class BulkCoins(PhiloxCoins):
    """The coins of requests `first` .. `first + count - 1`; every block of noise is computed for all of them at once.

    `rekey` replaces each key before it is read (a bug, when it is not the identity). `keys_read`, when a list is
    given, collects the keys that are read.
    """

    def __init__(
        self,
        seed: int,
        first: int,
        count: int,
        *,
        rekey: Rekey | None = None,
        keys_read: list[NoiseKey] | None = None,
    ) -> None:
        super().__init__(seed)
        self.first = first
        self.count = count
        self.rekey = rekey
        self.keys_read = keys_read
        self._blocks: dict[tuple[int, int, Purpose, int], UInt32[ndarray, "requests 4"]] = {}

    def at(self, *, request: int, length: int) -> RoundCoins:
        """The coins of one round."""
        return _BulkRound(self, request, length)

    def words(self, key: NoiseKey, block: int) -> UInt32[ndarray, " 4"]:
        """The four words of `block` under `key`."""
        place = (key.length, key.node, key.purpose, block)
        if place not in self._blocks:
            counter = np.empty((self.count, 4), dtype=np.uint32)
            counter[:, 0], counter[:, 1] = block, key.length
            counter[:, 2] = np.arange(self.first, self.first + self.count, dtype=np.uint32)
            counter[:, 3] = key.node << 3 | PURPOSE_CODES[key.purpose]
            self._blocks[place] = philox4x32(counter, (self.seed & 0xFFFFFFFF, self.seed >> 32))
        return self._blocks[place][key.request - self.first]


class _BulkRound(RoundCoins):
    def __init__(self, source: BulkCoins, request: int, length: int) -> None:
        super().__init__(source.seed, request, length)
        self._source = source

    def _key(self, node: int, purpose: Purpose) -> NoiseKey:
        key = super()._key(node, purpose)
        if self._source.rekey is not None:
            key = self._source.rekey(key)
        if self._source.keys_read is not None:
            self._source.keys_read.append(key)
        return _BulkKey(key.seed, key.request, key.length, key.node, key.purpose, self._source)


@dataclass(frozen=True)
class _BulkKey(NoiseKey):
    source: BulkCoins

    def words(self, token_ids: UInt32[ndarray, " tokens"]) -> UInt32[ndarray, " tokens"]:
        last = int(token_ids[-1]) if len(token_ids) else 0
        if last < 4:
            return self.source.words(self, 0)[token_ids]
        blocks = [self.source.words(self, block) for block in range(last // 4 + 1)]
        return np.concatenate(blocks)[token_ids]
