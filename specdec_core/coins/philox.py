"""Philox 4x32-10, a counter-based generator: the noise of any key, in any order, without state.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); the generator behind Triton's
`tl.rand`. Checked against the published known-answer vectors in the tests.
"""

from jaxtyping import UInt32, UInt64
import numpy as np
from numpy import ndarray

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


Word = int | UInt64[ndarray, " blocks"]


def philox4x32(counter: UInt32[ndarray, "blocks 4"], key: tuple[Word, Word]) -> UInt32[ndarray, "blocks 4"]:
    """Four random 32-bit words for each counter, after ten rounds.

    Shapes: `counter` is [blocks, 4] uint32; `key` two 32-bit words, or two arrays with a word for each block.
    """
    c0, c1, c2, c3 = (counter[:, word].astype(np.uint64) for word in range(4))
    k0, k1 = key
    for _ in range(10):
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = (product1 >> _SHIFT) ^ c1 ^ np.uint64(k0)
        c2 = (product0 >> _SHIFT) ^ c3 ^ np.uint64(k1)
        c1, c3 = product1 & _LOW, product0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack((c0, c1, c2, c3), axis=1).astype(np.uint32)
