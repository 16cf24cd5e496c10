"""Match verification of many chains at once."""

from jaxtyping import Float, Int
import torch
from torch import Tensor

from specdec_core.rules.batched.checks import check_batch
from specdec_core.rules.batched.coins import BatchCoins, Questions
from specdec_core.rules.batched.ragged import Ragged
from specdec_core.rules.batched.rows import draw_from_rows
from specdec_core.rules.batched.verdict import BatchVerdict, chain_verdict


def verify_match_batch(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "slots+batch vocab"],
    coins: BatchCoins,
    *,
    validate: bool = True,
) -> BatchVerdict:
    """`verify_match` for every request: the target draws its own token, position by position, while they match.

    A draw is made only where a request still goes on. `draft_probs` is not read. Shapes and errors as in
    `verify_chain_batch`.
    """
    if validate:
        check_batch(draft_tokens, cu_num_draft, None, target_probs, coins)
    batch = Ragged.of(draft_tokens, cu_num_draft)
    num_accepted, next_token = torch.zeros_like(batch.counts), torch.zeros_like(batch.counts)
    alive = torch.arange(len(batch), device=batch.counts.device)
    for node in range(batch.longest + 1):
        at = torch.full_like(alive, node)
        own = draw_from_rows(target_probs, batch.first_row[alive] + node, coins, Questions(alive, at, at), "sample")
        next_token[alive] = own
        drafted = batch.counts[alive] > node
        alive, own = alive[drafted], own[drafted]
        alive = alive[batch.draft_tokens[batch.first_slot[alive] + node] == own]
        num_accepted[alive] += 1
    return chain_verdict(batch, num_accepted, next_token)
