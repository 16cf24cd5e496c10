"""Block verification of many chains at once."""

from jaxtyping import Float, Float64, Int, Int64
import torch
from torch import Tensor

from specdec_core.rules.batched.chain import masses
from specdec_core.rules.batched.checks import check_batch
from specdec_core.rules.batched.coins import BatchCoins, Questions
from specdec_core.rules.batched.laws import Laws, groups
from specdec_core.rules.batched.ragged import Ragged
from specdec_core.rules.batched.rows import draw_from_rows, law_rows, scaled_excess_rows
from specdec_core.rules.batched.verdict import BatchVerdict, chain_verdict


def verify_block_batch(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "slots+batch vocab"],
    coins: BatchCoins,
    *,
    validate: bool = True,
) -> BatchVerdict:
    """`verify_block` for every request: the longest prefix that passes is kept.

    Prefixes are judged from the longest down, so that p and q are read whole only at the rows between the one a
    request keeps and its last. Shapes and errors as in `verify_chain_batch`.
    """
    if validate:
        check_batch(draft_tokens, cu_num_draft, draft_probs, target_probs, coins)
    batch = Ragged.of(draft_tokens, cu_num_draft)
    weights = _prefix_weights(batch, *masses(batch, draft_probs, target_probs))
    everyone = torch.arange(len(batch), device=batch.counts.device)
    whole = batch.counts == 0
    asked = everyone[~whole]
    drafted = batch.counts[asked]
    first = Questions(asked, drafted - 1, torch.zeros_like(asked))
    whole[asked] = coins.uniforms(first) < weights[asked, drafted]
    num_accepted, next_token = batch.counts.clone(), torch.zeros_like(batch.counts)
    done = everyone[whole]
    at = batch.counts[done]
    # a request without drafts has asked nothing
    last = Questions(done, at, at.clamp(max=1))
    next_token[done] = draw_from_rows(target_probs, batch.first_row[done] + at, coins, last, "bonus")
    left = everyone[~whole]
    while len(left):
        num_accepted[left] -= 1
        tokens = torch.empty_like(left)
        for part in groups(len(left), target_probs.shape[1]):
            requests = left[part]
            kept = num_accepted[requests]
            tokens[part] = _shortened(batch, draft_probs, target_probs, coins, requests, kept, weights[requests, kept])
        next_token[left] = tokens
        left = left[tokens < 0]
    return chain_verdict(batch, num_accepted, next_token)


def _prefix_weights(
    batch: Ragged, p: Float64[Tensor, " slots"], q: Float64[Tensor, " slots"]
) -> Float64[Tensor, "batch longest+1"]:
    """w_0 = 1 and w_i = min(1, w_{i-1} p_i / q_i) for every request."""
    weights = torch.ones(len(batch), batch.longest + 1, dtype=p.dtype, device=p.device)
    for node in range(batch.longest):
        drafted = torch.nonzero(batch.counts > node)[:, 0]
        slots = batch.first_slot[drafted] + node
        weights[drafted, node + 1] = capped_ratios(weights[drafted, node] * p[slots], q[slots])
    return weights


def capped_ratios(p: Float64[Tensor, " some"], q: Float64[Tensor, " some"]) -> Float64[Tensor, " some"]:
    """`capped_ratio` of each pair: min(1, p / q); with q = 0 it is 1 when p > 0 and 0 otherwise."""
    return torch.where(p >= q, (p > 0).to(p.dtype), p / q)


def _shortened(
    batch: Ragged,
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "rows vocab"],
    coins: BatchCoins,
    requests: Int64[Tensor, " some"],
    kept: Int64[Tensor, " some"],
    weights: Float64[Tensor, " some"],
) -> Int64[Tensor, " some"]:
    """The recovered token of each request whose prefix `kept` passes, -1 for the others."""
    slots = batch.first_slot[requests] + kept
    p = law_rows(target_probs, slots + requests)
    q = None if draft_probs is None else law_rows(draft_probs, slots)
    excess = scaled_excess_rows(p, weights, q, batch.draft_tokens[slots])
    total = excess.sum(-1)
    # question 0 judged the whole draft, then came one for each prefix tried
    orders = batch.counts[requests] - kept
    # w_0 = 1, so the empty prefix always passes and is not asked about
    passes, tried = kept == 0, torch.nonzero(kept > 0)[:, 0]
    u = coins.uniforms(Questions(requests, kept - 1, orders)[tried])
    passes[tried] = u * (total + (1 - weights))[tried] < total[tried]
    tokens = torch.full_like(requests, -1)
    if bool(passes.any()):
        rest = excess if bool((total > 0).all()) else torch.where((total > 0)[:, None], excess, p)
        questions = Questions(requests, kept, orders + (kept > 0))[passes]
        tokens[passes] = coins.draw(Laws.of(rest[passes]), questions, "recover")
    return tokens
