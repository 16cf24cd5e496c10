"""Production coins: counter-based noise keyed by what each number is for.

The key of a number is (seed, request, length at round start, node, purpose[, token id]). `length` is the number
of tokens when the round starts, not the position of the token: a refused position is drafted again in the next
round, and rules that look ahead are biased if it meets the same numbers there. `sample` alone is keyed by
position (length + node): whoever uses it emits what it draws, so each position is asked once.
"""

from dataclasses import dataclass
from numbers import Integral
import secrets

from jaxtyping import Float64, UInt32
import numpy as np
from numpy import ndarray

from specdec_core.coins.philox import philox4x32
from specdec_core.coins.protocol import Event, Mass, Purpose, Weights
from specdec_core.coins.weights import support

PURPOSE_CODES: dict[Purpose, int] = {"draft": 0, "accept": 1, "recover": 2, "bonus": 3, "sample": 4}
_MAX_NODE = 1 << 29
_LARGEST_UNIFORM = 1.0 - 2.0**-24


@dataclass(frozen=True, slots=True)
class NoiseKey:
    """Everything but the token id; `words` are the noise of this key.

    Philox layout: key = low and high half of the seed; counter = (token id // 4, length, request,
    node * 8 + purpose code); token id t reads output word t % 4. An accept reads word 0 of token 0.
    """

    seed: int
    request: int
    length: int
    node: int
    purpose: Purpose

    def __post_init__(self) -> None:
        limits = {"seed": 1 << 64, "request": 1 << 32, "length": 1 << 32, "node": _MAX_NODE}
        for name, limit in limits.items():
            value = getattr(self, name)
            if not isinstance(value, Integral) or not 0 <= int(value) < limit:
                raise ValueError(f"{name} is {value!r}; a noise key takes whole numbers 0..{limit - 1}")
        if self.purpose not in PURPOSE_CODES:
            raise ValueError(f"purpose is {self.purpose!r}; expected one of {', '.join(PURPOSE_CODES)}")

    def words(self, token_ids: UInt32[ndarray, " tokens"]) -> UInt32[ndarray, " tokens"]:
        """One 32-bit word for each token id; neighbouring ids in increasing order share a block of four."""
        highest = int(token_ids.max(initial=0))
        if highest < 4 * len(token_ids):
            # as good as every block is wanted: all in order, which saves finding out which
            return self._blocks(np.arange(highest // 4 + 1, dtype=np.uint32)).reshape(-1)[token_ids]
        block = token_ids >> 2
        is_new = np.diff(block, prepend=~block[:1]) != 0
        return self._blocks(block[is_new])[np.cumsum(is_new) - 1, token_ids & 3]

    def _blocks(self, numbers: UInt32[ndarray, " blocks"]) -> UInt32[ndarray, "blocks 4"]:
        counter = np.empty((len(numbers), 4), dtype=np.uint32)
        counter[:, 0] = numbers
        counter[:, 1:] = self.length, self.request, self.node << 3 | PURPOSE_CODES[self.purpose]
        return philox4x32(counter, (self.seed & 0xFFFFFFFF, self.seed >> 32))

    def uniform(self) -> float:
        """The uniform of an accept: k / 2^32, in [0, 1)."""
        return float(self.words(np.zeros(1, dtype=np.uint32))[0]) * 2.0**-32

    def exponentials(self, token_ids: UInt32[ndarray, " tokens"]) -> Float64[ndarray, " tokens"]:
        """A standard exponential for each token id."""
        return exponential(self.words(token_ids))


def exponential(words: UInt32[ndarray, " words"]) -> Float64[ndarray, " words"]:
    """A standard exponential from each 32-bit word k.

    E = -log1p(-u) with u = (k + 1/2) / 2^32, at most 1 - 2^-24: fine near 0, so that a token of mass
    1e-9 can still win a race, and never infinite, not even in float32.
    """
    uniforms = (words.astype(np.float64) + 0.5) * 2.0**-32
    return -np.log1p(-np.minimum(uniforms, _LARGEST_UNIFORM))


FROM_DENORMAL = 2.0**900
"""Where every time of a race overflows, all weights are below 1e-305: scaled by this, which is exact, they can race."""


def race_times(
    exponentials: Float64[ndarray, " tokens"], weights: Float64[ndarray, " tokens"]
) -> Float64[ndarray, " tokens"]:
    """E / weight; infinite, and so behind every other, where a weight is too small to divide by."""
    with np.errstate(over="ignore"):
        return exponentials / weights


class PhiloxCoins:
    """A source of coins for any round of any request, from one seed.

    Without a seed every instance takes a fresh one from the operating system, so unseeded requests are
    independent of each other. The same seed and request give the same numbers in any order of asking.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbits(53) if seed is None else seed
        NoiseKey(self.seed, 0, 0, 0, "sample")

    def at(self, *, request: int, length: int) -> "RoundCoins":
        """The coins of one round; `request` is the sample's index, never a batch slot."""
        NoiseKey(self.seed, request, length, 0, "sample")
        return RoundCoins(self.seed, request, length)


class RoundCoins:
    """The coins of one round. `events` lists what was asked, in order; no key can be asked twice."""

    def __init__(self, seed: int, request: int, length: int) -> None:
        self._round = (seed, request, length)
        self.events: list[Event] = []
        self._asked: set[tuple[Purpose, int]] = set()

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        """True exactly when `u * q < p`."""
        u = self._key(node, "accept").uniform()
        self.events.append(Event("accept", node, u))
        return u * q < p

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        """The winner of an exponential race: the smallest E / weight, the lowest index on a tie.

        Noise is drawn for the support alone; a single candidate needs none.
        """
        key = self._key(node, purpose)
        self.events.append(Event(purpose, node, None))
        indices, values = support(weights)
        if len(indices) == 1:
            return int(indices[0])
        exponentials = key.exponentials(indices.astype(np.uint32))
        times = race_times(exponentials, values)
        winner = np.argmin(times)
        if times[winner] == np.inf:
            winner = np.argmin(race_times(exponentials, values * FROM_DENORMAL))
        return int(indices[winner])

    def coupled(self) -> "RoundCoins":
        """The coins of this round for the draft's side of a coupling."""
        return RoundCoins(*self._round)

    def _key(self, node: int, purpose: Purpose) -> NoiseKey:
        if (purpose, node) in self._asked:
            raise ValueError(
                f"purpose {purpose!r} at node {node} was already asked in this round; the same noise twice biases "
                "the output - give each question its own node"
            )
        self._asked.add((purpose, node))
        seed, request, length = self._round
        if purpose == "sample":
            # keyed by the position in the text alone, so that rounds may cut it anywhere
            length, node = length + node, 0
        return NoiseKey(seed, request, length, node, purpose)
