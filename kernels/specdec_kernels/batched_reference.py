"""The verdicts without Triton: softmax of all rows, then the batched rules of `specdec_core.rules.batched`."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float64, Int64
import torch
from torch import Tensor

from specdec_core.coins.protocol import Purpose
from specdec_core.rules.batched import (
    BatchCoins,
    BatchVerdict,
    PhiloxBatchCoins,
    Questions,
    verify_greedy_batch,
    verify_target_only_batch,
)
from specdec_core.rules.batched.coins import check_drawn
from specdec_core.rules.batched.laws import Laws
from specdec_core.warp import GREEDY_BELOW
from specdec_core.warp_filters import one_hot_at_argmax, softmax
from specdec_kernels.verify_batch import GivenNoise, KernelVerdict, VerifyBatch

BatchRule = Callable[..., BatchVerdict]
"""(draft tokens, cu_num_draft, draft laws, target laws, coins) -> verdicts."""


class GivenBatchCoins:
    """The coins of `GivenCoins` for a batch: a uniform a draft, one row of exponentials a request."""

    def __init__(self, noise: GivenNoise, requests: Int64[Tensor, " batch"], first: Int64[Tensor, " batch"]) -> None:
        self._noise, self._requests, self._first = noise, requests, first

    def __len__(self) -> int:
        return len(self._requests)

    def uniforms(self, questions: Questions) -> Float64[Tensor, " questions"]:
        """Those of the drafts asked about."""
        return self._noise.uniforms[self._first[questions.requests] + questions.nodes].to(torch.float64)

    def draw(self, laws: Laws, questions: Questions, purpose: Purpose) -> Int64[Tensor, " questions"]:
        """The smallest E / weight of each law, the lowest index on a tie."""
        tokens = torch.empty_like(questions.requests)
        for part, group in laws:
            weights = group.values()
            noise = self._noise.exponentials[self._requests[questions.requests[part]]].to(torch.float64)
            tokens[part] = torch.where(weights > 0, noise / weights, torch.inf).argmin(1)
            check_drawn(torch.where(weights.isfinite().all(1), weights.amax(1), torch.nan), questions[part])
        return tokens


class _Group:
    """Some requests of a batch, laid out for a batched rule: padding cut off, their rows gathered."""

    def __init__(self, batch: VerifyBatch, requests: Int64[Tensor, " group"]) -> None:
        counts, device = batch.cu_num_draft.diff().clamp(max=batch.max_draft)[requests], batch.device
        self.batch, self.requests, self.first = batch, requests, batch.cu_num_draft[:-1][requests]
        place = torch.arange(batch.max_draft, device=device)
        drafts = (self.first[:, None] + place).clamp(max=max(0, batch.num_drafts - 1))
        # padding ends a request's drafts
        real = (place < counts[:, None]) & (batch.draft_tokens[drafts] >= 0 if batch.num_drafts else place < 0)
        real = real.cumprod(1).to(torch.bool)
        self.counts = real.sum(1)
        self.slots = drafts[real]
        self.owner = requests.repeat_interleave(self.counts)
        rows = torch.arange(batch.max_draft + 1, device=device)
        used = rows <= self.counts[:, None]
        self.rows = ((self.first + requests)[:, None] + rows)[used]
        self.row_owner = requests.repeat_interleave(self.counts + 1)
        self.offsets = torch.nn.functional.pad(self.counts.cumsum(0), (1, 0))

    @property
    def tokens(self) -> Tensor:
        """Its drafts."""
        return self.batch.draft_tokens[self.slots]

    @property
    def logits(self) -> Tensor:
        """Its target rows, as they came."""
        return self.batch.target_logits[self.rows].to(torch.float32)

    def target(self) -> Tensor:
        """Its target laws."""
        return _laws(self.logits, self.batch.temperature[self.row_owner])

    def draft(self) -> Tensor | None:
        """Its draft laws."""
        if self.batch.draft_logits is not None:
            scores = self.batch.draft_logits[self.slots].to(torch.float32)
            return _laws(scores, self.batch.temperature[self.owner])
        return None if self.batch.draft_probs is None else self.batch.draft_probs[self.slots].to(torch.float32)

    def coins(self) -> BatchCoins:
        """Its noise."""
        if isinstance(self.batch.noise, GivenNoise):
            return GivenBatchCoins(self.batch.noise, self.requests, self.first)
        keys = self.batch.noise.keys[self.requests].tolist()
        seeds, requests, lengths = zip(*keys) if keys else ((), (), ())
        return PhiloxBatchCoins([seed & 0xFFFFFFFFFFFFFFFF for seed in seeds], requests=requests, lengths=lengths)

    def store(self, found: BatchVerdict, out: KernelVerdict, path: Tensor | None) -> None:
        """Writes its verdicts."""
        out.num_accepted[self.requests], out.next_token[self.requests] = found.num_accepted, found.next_token
        out.is_bonus[self.requests] = found.is_bonus
        out.emitted[self.requests, : found.emitted.shape[1]] = found.emitted
        if path is not None:
            path[self.requests, : found.path.shape[1]] = found.path


def verify_chain_batched(batch: VerifyBatch, rule: BatchRule, out: KernelVerdict | None = None) -> KernelVerdict:
    """The verdicts of a batched chain rule; greedy requests by their argmax.

    Raises:
        ValueError: whatever `check_values` or the rule finds, or `out` without room.
    """
    result = _cleared(batch, out)
    for group, is_greedy in _groups(batch):
        if is_greedy:
            found = verify_greedy_batch(group.tokens, group.offsets, None, group.logits)
        else:
            found = rule(group.tokens, group.offsets, group.draft(), group.target(), group.coins())
        group.store(found, result, None)
    return result


def verify_tree_batched(
    batch: VerifyBatch, parents: Tensor, rule: BatchRule, out: KernelVerdict, path: Int64[Tensor, "requests nodes"]
) -> None:
    """Writes the verdicts of a batched tree rule to `out` and `path`; errors as above."""
    _cleared(batch, out)
    path.fill_(-1)
    for group, is_greedy in _groups(batch):
        law: Any = group.logits if is_greedy else None
        target = one_hot_at_argmax(law, law.amax(-1, keepdim=True)) if is_greedy else group.target()
        chosen, draft = (verify_target_only_batch, None) if is_greedy else (rule, group.draft())
        # one-hot laws leave nothing to chance, so any coins do
        coins = _no_chance(len(group.requests)) if is_greedy else group.coins()
        found = chosen(group.tokens, group.offsets, draft, target, coins, parents=parents[group.slots])
        group.store(found, out, path)


def _groups(batch: VerifyBatch) -> list[tuple[_Group, bool]]:
    is_greedy = batch.temperature < GREEDY_BELOW
    wanted = ((torch.nonzero(is_greedy == greedy)[:, 0], greedy) for greedy in (False, True))
    return [(_Group(batch, requests), greedy) for requests, greedy in wanted if len(requests)]


def _cleared(batch: VerifyBatch, out: KernelVerdict | None) -> KernelVerdict:
    batch.check_values()
    result = KernelVerdict.empty(batch.num_requests, batch.slots, batch.device) if out is None else out
    result.check(batch.num_requests, batch.slots, batch.device)
    result.emitted.fill_(-1)
    return result


def _no_chance(requests: int) -> PhiloxBatchCoins:
    return PhiloxBatchCoins([0] * requests, requests=[0] * requests, lengths=[0] * requests)


def _laws(scores: Tensor, temperature: Tensor) -> Tensor:
    return softmax(scores, temperature[:, None]) if len(scores) else scores  # pyright: ignore[reportArgumentType]
