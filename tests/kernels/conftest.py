"""What the kernel tests share: random ragged batches full of edge cases, and the gap of each decision."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from specdec_core.coins.noise import NoiseKey
from specdec_core.rules import Verdict
from specdec_core.warp import GREEDY_BELOW
from specdec_kernels.chain_reference import request_coins, request_inputs
from specdec_kernels.verify_batch import GivenNoise, KernelVerdict, KeyedNoise, VerifyBatch

NEAR_TIE = 1e-5
"""Relative gap below which float32 from logits may decide otherwise than float64 (at most 1 request in 1,000)."""


class _WatchedCoins:
    """Coins that keep the smallest relative gap between the two sides of any decision they took."""

    def __init__(self, inner: Any, exponentials: Callable[[int, str, np.ndarray], np.ndarray]) -> None:
        self.inner, self.exponentials, self.gap = inner, exponentials, 1.0

    @property
    def events(self) -> Any:
        return self.inner.events

    def accept(self, p: Any, q: Any, *, node: int) -> bool:
        answer = self.inner.accept(p, q, node=node)
        left, right = self.inner.events[-1].uniform * float(q), float(p)
        self._note(abs(left - right), max(left, right))
        return answer

    def draw(self, weights: Any, *, node: int, purpose: str) -> int:
        answer = self.inner.draw(weights, node=node, purpose=purpose)
        dense = np.asarray(weights, dtype=np.float64)
        tokens = np.flatnonzero(dense)
        times = np.sort(self.exponentials(node, purpose, tokens) / dense[tokens])
        if len(times) > 1:
            self._note(times[1] - times[0], times[1])
        return answer

    def _note(self, distance: float, scale: float) -> None:
        if distance > 0:
            self.gap = min(self.gap, distance / scale)


def _noise_of(batch: VerifyBatch, request: int) -> Callable[[int, str, np.ndarray], np.ndarray]:
    if isinstance(batch.noise, GivenNoise):
        row = batch.noise.exponentials[request].double().numpy()
        return lambda node, purpose, tokens: row[tokens]
    seed, sample, length = batch.noise.keys[request].tolist()

    def keyed(node: int, purpose: Any, tokens: np.ndarray) -> np.ndarray:
        if purpose == "sample":
            return NoiseKey(seed & (2**64 - 1), sample, length + node, 0, purpose).exponentials(
                tokens.astype(np.uint32)
            )
        return NoiseKey(seed & (2**64 - 1), sample, length, node, purpose).exponentials(tokens.astype(np.uint32))

    return keyed


def _sampled_drafts(draft_logits: Tensor, temperatures: Tensor, rng: torch.Generator) -> Tensor:
    if len(draft_logits) == 0:
        return torch.zeros(0, dtype=torch.int64)
    probs = torch.softmax(draft_logits / temperatures.clamp(min=0.05)[:, None], -1)
    return torch.multinomial(probs, 1, generator=rng)[:, 0]


def _edge_rows(target: Tensor, draft: Tensor, is_last: Tensor, rng: torch.Generator) -> None:
    """Turns some rows into ties, one-hots, rows with -inf and rows with p = q. `target` has the drafts' rows only."""
    vocab = target.shape[1]
    for row in range(len(target)):
        flavour = int(torch.randint(0, 8, (), generator=rng))
        for logits in (target, draft):
            if flavour == 0:
                logits[row] = logits[row].round()
            elif flavour == 1:
                hot = int(torch.randint(0, vocab, (), generator=rng))
                logits[row, torch.arange(vocab) != hot] = float("-inf")
            elif flavour == 2 and vocab > 1:
                banned = torch.rand(vocab, generator=rng) < 0.5
                banned[int(torch.randint(0, vocab, (), generator=rng))] = False
                logits[row, banned] = float("-inf")
        if flavour == 3:
            draft[row] = target[row]


def _make_batch(
    seed: int,
    *,
    vocab: int,
    requests: int,
    max_draft: int = 4,
    draft: str = "logits",
    given: bool = False,
    padded: bool = True,
    dtype: torch.dtype = torch.float32,
) -> VerifyBatch:
    rng = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, max_draft + 1, (requests,), generator=rng)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    drafts, owner = int(offsets[-1]), torch.arange(requests).repeat_interleave(counts)
    temperature = torch.rand(requests, generator=rng) * 1.5 + 0.2
    temperature[torch.rand(requests, generator=rng) < 0.15] = 0.0
    draft_logits = torch.randn(drafts, vocab, generator=rng) * 2
    near = draft_logits + torch.randn(drafts, vocab, generator=rng)
    _edge_rows(near, draft_logits, counts, rng)
    near, draft_logits = near.to(dtype), draft_logits.to(dtype)
    tokens = _sampled_drafts(draft_logits.float(), temperature[owner], rng)
    greedy = (temperature[owner] < GREEDY_BELOW) & (torch.rand(drafts, generator=rng) < 0.7)
    tokens = torch.where(greedy, near.float().argmax(1) if drafts else tokens, tokens)
    target = (torch.randn(drafts + requests, vocab, generator=rng) * 2).to(dtype)
    target[torch.arange(drafts) + owner] = near
    if padded and drafts:
        tokens = torch.where(torch.rand(drafts, generator=rng) < 0.05, -1, tokens)
    if given:
        uniforms = torch.rand(drafts, generator=rng)
        exponentials = torch.empty(requests, vocab).exponential_(generator=rng).clamp_(min=1e-9)
        noise: Any = GivenNoise(uniforms, exponentials)
    else:
        keys = torch.stack([torch.randint(0, 2**62, (requests,), generator=rng) for _ in range(3)], 1)
        noise = KeyedNoise(torch.stack([keys[:, 0], keys[:, 1] % 2**32, keys[:, 2] % 2**20], 1))
    return VerifyBatch(
        target_logits=target,
        draft_tokens=tokens,
        cu_num_draft=offsets,
        temperature=temperature,
        noise=noise,
        max_draft=max_draft,
        draft_logits=draft_logits if draft == "logits" else None,
        draft_probs=torch.softmax(draft_logits.float() / 0.8, -1).to(dtype) if draft == "probs" else None,
    )


def _smallest_gap(batch: VerifyBatch, request: int, rule: Callable[..., Verdict]) -> float:
    if bool(batch.temperature[request] < GREEDY_BELOW):
        return 1.0
    coins = _WatchedCoins(request_coins(batch, request), _noise_of(batch, request))
    rule(*request_inputs(batch, request), coins)
    return coins.gap


def _check_equal(batch: VerifyBatch, got: KernelVerdict, wanted: KernelVerdict, rule: Callable[..., Verdict]) -> int:
    """Asserts equal verdicts but for near-ties, at most 1 in 1,000; the number of those."""
    different = (got.emitted != wanted.emitted).any(1) | (got.num_accepted != wanted.num_accepted)
    different |= (got.is_bonus != wanted.is_bonus) | (got.next_token != wanted.next_token)
    ties = 0
    for request in different.nonzero()[:, 0].tolist():
        gap = _smallest_gap(batch, request, rule)
        print(
            f"request {request}: {got.emitted[request].tolist()} for {wanted.emitted[request].tolist()}, gap {gap:.1e}"
        )
        assert gap < NEAR_TIE, f"request {request} differs and is no near-tie (relative gap {gap:.1e})"
        ties += 1
    assert ties <= max(1, batch.num_requests // 1000), f"{ties} near-ties in {batch.num_requests} requests"
    return ties


@pytest.fixture
def make_batch() -> Callable[..., VerifyBatch]:
    """(seed, vocab=, requests=, max_draft=, draft=, given=, padded=, dtype=) -> a ragged batch."""
    return _make_batch


@pytest.fixture
def check_equal() -> Callable[..., int]:
    """(batch, got, wanted, scalar rule) -> near-ties; asserts that nothing else differs."""
    return _check_equal
