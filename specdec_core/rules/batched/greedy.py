"""Greedy verification of many chains at once."""

from jaxtyping import Float, Int
import torch
from torch import Tensor

from specdec_core.rules.batched.chain import first_refusals
from specdec_core.rules.batched.checks import check_batch
from specdec_core.rules.batched.coins import BatchCoins
from specdec_core.rules.batched.ragged import Ragged
from specdec_core.rules.batched.verdict import BatchVerdict, chain_verdict


def verify_greedy_batch(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "slots+batch vocab"],
    coins: BatchCoins | None = None,
    *,
    validate: bool = True,
) -> BatchVerdict:
    """`verify_greedy` for every request: drafts are kept up to the first that is not the target's argmax.

    Shapes and errors as in `verify_chain_batch`, but `target_probs` may be any rows whose argmax is meant.
    `draft_probs` and `coins` are not used. Ties go to the lowest id.

    Raises:
        ValueError: with `validate`, shapes that do not fit, a token outside the vocabulary, or a NaN.
    """
    if validate:
        check_batch(draft_tokens, cu_num_draft, None, target_probs, None, are_laws=False, needs_coins=False)
        if bool(target_probs.isnan().any()):
            raise ValueError("target_probs holds NaN; an argmax needs numbers - check the logits")
    batch = Ragged.of(draft_tokens, cu_num_draft)
    best = target_probs.argmax(-1)
    rows = torch.arange(len(batch.draft_tokens), device=best.device) + batch.request_of_slot
    num_accepted = first_refusals(batch, batch.draft_tokens == best[rows])
    return chain_verdict(batch, num_accepted, best[batch.first_row + num_accepted])
