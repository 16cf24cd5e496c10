"""Production coins for a batch: the noise of `PhiloxCoins`, number for number."""

from collections.abc import Sequence
from numbers import Integral
import secrets

from jaxtyping import Float64, Int64, UInt32
import numpy as np
from numpy import ndarray
import torch
from torch import Tensor

from specdec_core.coins.noise import FROM_DENORMAL, PURPOSE_CODES, NoiseKey, exponential, race_times
from specdec_core.coins.philox import philox4x32
from specdec_core.coins.protocol import Purpose
from specdec_core.rules.batched.coins import Questions, check_drawn
from specdec_core.rules.batched.laws import Laws


class PhiloxBatchCoins:
    """The coins `PhiloxCoins(seeds[b]).at(request=requests[b], length=lengths[b])` for every b.

    A seed of None is fresh from the operating system, one for each request. Noise is made on the host.

    Raises:
        ValueError: lists of different length, or a number that a noise key does not take.
    """

    def __init__(self, seeds: Sequence[int | None], *, requests: Sequence[int], lengths: Sequence[int]) -> None:
        if not len(seeds) == len(requests) == len(lengths):
            raise ValueError(
                f"seeds, requests and lengths have {len(seeds)}, {len(requests)} and {len(lengths)} entries; "
                "give one of each a request"
            )
        for name, numbers in (("seeds", seeds), ("requests", requests), ("lengths", lengths)):
            for place, number in enumerate(numbers):
                if not (isinstance(number, Integral) or (name == "seeds" and number is None)):
                    raise ValueError(f"{name}[{place}] is {number!r}; expected a whole number")
        self.seeds = [secrets.randbits(53) if seed is None else int(seed) for seed in seeds]
        for pick in (min, max) if len(requests) else ():
            # its checks name the number that does not fit
            NoiseKey(pick(self.seeds), int(pick(requests)), int(pick(lengths)), 0, "sample")
        self._low = np.array([seed & 0xFFFFFFFF for seed in self.seeds], dtype=np.uint64)
        self._high = np.array([seed >> 32 for seed in self.seeds], dtype=np.uint64)
        self._requests = np.array(requests, dtype=np.uint32)
        self._lengths = np.array(lengths, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.seeds)

    def uniforms(self, questions: Questions) -> Float64[Tensor, " questions"]:
        """k / 2^32 from word 0 of token 0 of each key."""
        who = np.arange(len(questions))
        words = self._blocks(questions, "accept", who, np.zeros(len(who), dtype=np.int64))[:, 0]
        return torch.from_numpy(words * 2.0**-32).to(questions.requests.device)

    def draw(self, laws: Laws, questions: Questions, purpose: Purpose) -> Int64[Tensor, " questions"]:
        """The winner of each law's exponential race: the smallest E / weight, the lowest index on a tie."""
        tokens = torch.empty_like(questions.requests)
        for part, group in laws:
            tokens[part] = torch.from_numpy(self._race(group.values().cpu().numpy(), questions[part], purpose))
        return tokens

    def _race(
        self, weights: Float64[ndarray, "questions vocab"], questions: Questions, purpose: Purpose
    ) -> Int64[ndarray, " questions"]:
        # as in the scalar coins, noise is made for the support alone; NaN and negative weights are nonzero, and faults
        rows, tokens = np.nonzero(weights)
        drawn = weights[rows, tokens]
        first_of_row = np.flatnonzero(np.diff(rows, prepend=-1))
        drawable = np.zeros(len(questions))
        drawable[rows[first_of_row]] = 1
        drawable[rows[~(np.isfinite(drawn) & (drawn > 0))]] = 0
        check_drawn(torch.from_numpy(drawable), questions)
        exponentials = exponential(self._words(questions, purpose, rows, tokens))
        times = race_times(exponentials, drawn)
        best = np.minimum.reduceat(times, first_of_row)
        if np.isinf(best).any():
            tiny = np.isinf(best)[rows]
            times[tiny] = race_times(exponentials[tiny], drawn[tiny] * FROM_DENORMAL)
            best = np.minimum.reduceat(times, first_of_row)
        winners = np.flatnonzero(times == best[rows])
        return tokens[winners[np.diff(rows[winners], prepend=-1) > 0]]

    def _words(
        self, questions: Questions, purpose: Purpose, rows: ndarray, tokens: ndarray
    ) -> UInt32[ndarray, " tokens"]:
        """One word for each (row, token), in increasing order; neighbouring ids share a block of four."""
        blocks = tokens >> 2
        is_new = (np.diff(rows, prepend=-1) != 0) | (np.diff(blocks, prepend=-1) != 0)
        words = self._blocks(questions, purpose, rows[is_new], blocks[is_new])
        return words[np.cumsum(is_new) - 1, tokens & 3]

    def _blocks(
        self, questions: Questions, purpose: Purpose, who: ndarray, numbers: ndarray
    ) -> UInt32[ndarray, "blocks 4"]:
        """Block `numbers[i]` of the noise of question `who[i]`; the layout is that of `NoiseKey`."""
        asked = questions.requests.cpu().numpy()[who]
        nodes, lengths = questions.nodes.cpu().numpy()[who], self._lengths[asked]
        if purpose == "sample":
            # keyed by the position in the text alone, as the scalar coins do
            lengths, nodes = lengths + nodes, np.zeros_like(nodes)
        counter = np.empty((len(who), 4), dtype=np.uint32)
        counter[:, 0], counter[:, 1], counter[:, 2] = numbers, lengths, self._requests[asked]
        counter[:, 3] = nodes << 3 | PURPOSE_CODES[purpose]
        return philox4x32(counter, (self._low[asked], self._high[asked]))
