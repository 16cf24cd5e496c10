"""Chain verification in two levels, in plain torch, a request at a time; every score it reads is counted.

The algorithm of `verify_chain` version 3 to read, and the byte floor to hold the kernels against: a row is read once
for its normaliser, the scores of the drafted tokens are picked up on the way, and one row a request is read again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specdec_core.coins.noise import NoiseKey
from specdec_core.coins.protocol import Purpose
from specdec_kernels.chain_launch import Reads
from specdec_kernels.verify_batch import GREEDY_BELOW_FLOAT32, GivenNoise, KernelVerdict, VerifyBatch


class CountedRows:
    """Rows of scores that count how often each element is read."""

    def __init__(self, scores: Tensor, counts: Tensor) -> None:
        self._scores, self._counts = scores, counts

    def block(self, row: int, first: int, last: int) -> Tensor:
        """Scores first .. last - 1 of a row, in float32."""
        self._counts[row, first:last] += 1
        return self._scores[row, first:last].to(torch.float32)


@dataclass(frozen=True, slots=True)
class RowStats:
    """The normaliser of a row: p(x) = exp((x - largest) / T) / total; and the score of the token asked about."""

    largest: Tensor
    total: Tensor
    best: int
    at_token: Tensor

    def law(self, scores: Tensor, temperature: float) -> Tensor:
        """The probabilities of some scores of the row."""
        return torch.exp((scores - self.largest) / temperature) / self.total


def verify_chain_two_level(batch: VerifyBatch, *, block: int) -> tuple[KernelVerdict, Reads]:
    """The verdicts, and how often each score was read; `block` tokens are read at a time."""
    reads = Reads.of(batch)
    out = KernelVerdict.empty(batch.num_requests, batch.slots, batch.device)
    out.emitted.fill_(-1)
    for request in range(batch.num_requests):
        tokens, kept, answer = _Request(batch, request, reads, block).verdict()
        drafted = tokens[:kept]
        out.num_accepted[request], out.next_token[request] = kept, answer
        out.is_bonus[request] = kept == len(tokens)
        out.emitted[request, : kept + 1] = torch.tensor([*drafted, answer])
    return out, reads


class _Request:
    """One request's drafts, rows and noise."""

    def __init__(self, batch: VerifyBatch, request: int, reads: Reads, block: int) -> None:
        first, last = batch.cu_num_draft[request : request + 2].tolist()
        tokens = batch.draft_tokens[first : min(last, first + batch.max_draft)].tolist()
        self.tokens = tokens[: tokens.index(-1)] if -1 in tokens else tokens
        self.batch, self.request, self.first, self.step = batch, request, first, block
        self.temperature = float(batch.temperature[request])
        self.target = CountedRows(batch.target_logits, reads.target)
        draft: Any = batch.draft_logits if batch.draft_logits is not None else batch.draft_probs
        self.draft = None if reads.draft is None else CountedRows(draft, reads.draft)

    def verdict(self) -> tuple[list[int], int, int]:
        """(its drafts, how many are kept, the token after them)."""
        is_greedy = self.temperature < GREEDY_BELOW_FLOAT32
        wanted = [*self.tokens, None]
        stats = [self._stats(self.target, self.first + self.request + row, token) for row, token in enumerate(wanted)]
        if is_greedy:
            kept = next((row for row, token in enumerate(self.tokens) if token != stats[row].best), len(self.tokens))
            return self.tokens, kept, stats[kept].best
        drafted = [self._draft_mass(row, token) for row, token in enumerate(self.tokens)]
        kept = len(self.tokens)
        for row, (q, _) in enumerate(drafted):
            p = stats[row].law(stats[row].at_token, self.temperature)
            if not self._uniform(row) * q < p:
                kept = row
                break
        return self.tokens, kept, self._draw(kept, stats[kept], drafted)

    def _stats(self, rows: CountedRows, row: int, token: int | None) -> RowStats:
        temperature = 1.0 if self.temperature < GREEDY_BELOW_FLOAT32 else self.temperature
        maxima, sums, places, at_token = [], [], [], torch.tensor(-torch.inf)
        for first in range(0, self.batch.vocab, self.step):
            scores = rows.block(row, first, min(first + self.step, self.batch.vocab))
            maxima.append(scores.max())
            shift = maxima[-1] if maxima[-1] > -torch.inf else torch.tensor(0.0)
            sums.append(torch.exp((scores - shift) / temperature).sum())
            places.append(first + int((scores == maxima[-1]).nonzero()[0]))
            if token is not None and first <= token < first + self.step:
                at_token = scores[token - first]
        largest = torch.stack(maxima).max()
        total = sum(part * torch.exp((top - largest) / temperature) for top, part in zip(maxima, sums))
        best = min(place for top, place in zip(maxima, places) if top == largest)
        return RowStats(largest, torch.as_tensor(total), best, at_token)

    def _draft_mass(self, row: int, token: int) -> tuple[Tensor, RowStats | None]:
        """q of a draft, and the normaliser of its row if it has one."""
        if self.draft is None:
            return torch.tensor(1.0), None
        if self.batch.draft_probs is not None:
            return self.draft.block(self.first + row, token, token + 1)[0], None
        stats = self._stats(self.draft, self.first + row, token)
        return stats.law(stats.at_token, self.temperature), stats

    def _draw(self, kept: int, stats: RowStats, drafted: list[tuple[Tensor, RowStats | None]]) -> int:
        recovers = kept < len(self.tokens)
        winner, fallback = (-1.0, -1), (-1.0, -1)
        for first in range(0, self.batch.vocab, self.step):
            last = min(first + self.step, self.batch.vocab)
            p = stats.law(self.target.block(self.first + self.request + kept, first, last), self.temperature)
            weights = p
            if recovers and self.draft is None:
                weights = torch.where(torch.arange(first, last) == self.tokens[kept], 0.0, p)
            elif recovers and self.draft is not None:
                scores, own = self.draft.block(self.first + kept, first, last), drafted[kept][1]
                weights = p - (scores if own is None else own.law(scores, self.temperature))
            noise = self._exponentials(kept, "recover" if recovers else "bonus", first, last)
            winner = max(winner, _best(weights, noise, first), key=lambda found: found[0])
            fallback = max(fallback, _best(p, noise, first), key=lambda found: found[0])
        return winner[1] if winner[0] >= 0 else fallback[1]

    def _key(self, node: int, purpose: Purpose) -> NoiseKey:
        assert not isinstance(self.batch.noise, GivenNoise)
        seed, sample, length = self.batch.noise.keys[self.request].tolist()
        return NoiseKey(seed & 0xFFFFFFFFFFFFFFFF, sample, length, node, purpose)

    def _uniform(self, node: int) -> float:
        if isinstance(self.batch.noise, GivenNoise):
            return float(self.batch.noise.uniforms[self.first + node])
        return self._key(node, "accept").uniform()

    def _exponentials(self, node: int, purpose: Purpose, first: int, last: int) -> Tensor:
        if isinstance(self.batch.noise, GivenNoise):
            return self.batch.noise.exponentials[self.request, first:last]
        noise = self._key(node, purpose).exponentials(np.arange(first, last, dtype=np.uint32))
        return torch.from_numpy(noise).to(torch.float32)


def _best(weights: Tensor, noise: Tensor, first: int) -> tuple[float, int]:
    """(largest weight / E, its lowest token) of a block; -1 where no weight is positive."""
    scores = torch.where(weights > 0, weights / noise, -1.0)
    return float(scores.max()), first + int((scores == scores.max()).nonzero()[0])
