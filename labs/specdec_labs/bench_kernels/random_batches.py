"""Random ragged batches and trees for the checks: ties, one-hots, bans, p = q, padding, greedy requests."""

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from specdec_kernels.verify_batch import KeyedNoise, VerifyBatch
from specdec_labs.bench_kernels.inputs import children_of

T = TypeVar("T")


def moved(value: T, device: torch.device | str) -> T:
    """The same dataclass with every tensor on `device`."""
    if isinstance(value, Tensor):
        return value.to(device)  # pyright: ignore[reportReturnType]
    if not is_dataclass(value):
        return value
    parts = {field.name: moved(getattr(value, field.name), device) for field in fields(value)}
    return type(value)(**parts)  # pyright: ignore[reportReturnType]


def ragged_batch(seed: int, *, vocab: int, requests: int, max_draft: int = 4, draft: str = "logits") -> VerifyBatch:
    """Chains of 0 to `max_draft` drafts on the CPU, bfloat16; `draft` is "logits", "probs" or "none"."""
    rng = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, max_draft + 1, (requests,), generator=rng)
    counts[0] = max_draft
    rows, target, tokens, temperature = _laws(counts, vocab, rng)
    heads = torch.arange(len(tokens)) + torch.arange(requests).repeat_interleave(counts)
    for row in range(len(tokens)):
        tokens[row] = int(torch.multinomial(_warm(rows[row], temperature, counts, row), 1, generator=rng))
        # whatever was not edited stays near the draft
        target[heads[row]] = _edited(target[heads[row]], rows[row], rng)
    if len(tokens) > 3:
        tokens[-1] = -1
    return _batch(counts, rows, target, tokens, temperature, draft, rng)


def forest(seed: int, *, vocab: int, requests: int, draft: str, method: str) -> tuple[VerifyBatch, Tensor]:
    """(trees of up to 6 nodes on the CPU, their parents). Siblings are drawn from the law of the first of them.

    Without replacement they differ; deterministic children ("none") are the likeliest tokens.
    """
    rng = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 7, (requests,), generator=rng)
    counts[0] = 6
    rows, target, tokens, temperature = _laws(counts, vocab, rng)
    parents, first = [], 0
    for request, count in enumerate(counts.tolist()):
        own = [int(torch.randint(-1, node, (), generator=rng)) if node else -1 for node in range(count)]
        parents += own
        for row, family in enumerate(children_of(own)):
            if family:
                at, law = first + family[0], first + request + row
                rows[[first + node for node in family]] = rows[at].clone()
                target[law] = rows[at] + torch.randn(vocab, generator=rng).to(rows.dtype)
                probs = torch.softmax(rows[at].float() / max(0.05, float(temperature[request])), -1)
                drawn = _family(probs, len(family), draft == "none", "without" in method, rng)
                tokens[[first + node for node in family]] = drawn
        first += count
    return _batch(counts, rows, target, tokens, temperature, draft, rng), torch.tensor(parents)


def _family(probs: Tensor, count: int, is_certain: bool, is_different: bool, rng: torch.Generator) -> Tensor:
    if is_certain:
        return probs.topk(count).indices
    # tokens of no probability would be drawn when all others are used up
    floor = probs + 1e-9 if is_different else probs
    return torch.multinomial(floor, count, replacement=not is_different, generator=rng)


def _laws(counts: Tensor, vocab: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(draft logits, target logits, room for tokens, temperatures with some greedy)."""
    drafts, requests = int(counts.sum()), len(counts)
    rows = (torch.randn(drafts, vocab, generator=rng) * 2).bfloat16()
    target = (torch.randn(drafts + requests, vocab, generator=rng) * 2).bfloat16()
    temperature = torch.rand(requests, generator=rng) + 0.5
    temperature[torch.rand(requests, generator=rng) < 0.15] = 0.0
    return rows, target, torch.zeros(drafts, dtype=torch.int64), temperature


def _warm(row: Tensor, temperature: Tensor, counts: Tensor, place: int) -> Tensor:
    request = int(torch.searchsorted(counts.cumsum(0), place, right=True))
    return torch.softmax(row.float() / max(0.05, float(temperature[request])), -1)


def _edited(target: Tensor, draft: Tensor, rng: torch.Generator) -> Tensor:
    """A target row near the draft's, in one case of four with a ban, a one-hot, or equal to it."""
    kind = int(torch.randint(0, 12, (), generator=rng))
    near = (draft.float() + 0.5 * target.float()).to(target.dtype)
    if kind == 0:
        return draft.clone()
    if kind == 1 and len(near) > 1:
        near[: len(near) // 2] = float("-inf")
    if kind == 2:
        hot = int(torch.randint(0, len(near), (), generator=rng))
        near = torch.full_like(near, float("-inf")).index_fill_(0, torch.tensor([hot]), 1.0)
    return near


def _batch(
    counts: Tensor, rows: Tensor, target: Tensor, tokens: Tensor, temperature: Tensor, draft: str, rng: torch.Generator
) -> VerifyBatch:
    requests = len(counts)
    keys = torch.stack([torch.randint(0, 2**31, (requests,), generator=rng) for _ in range(3)], 1)
    noise = KeyedNoise(torch.stack([keys[:, 0] << 20, keys[:, 1], keys[:, 2] % 2**20], 1).contiguous())
    options: dict[str, Any] = {}
    if draft == "logits":
        options["draft_logits"] = rows
    if draft == "probs":
        options["draft_probs"] = torch.softmax(rows.float(), -1)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    return VerifyBatch(target, tokens, offsets, temperature, noise, int(counts.max()), **options)
