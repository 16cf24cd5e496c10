"""Token-wise rejection sampling along many chains at once."""

from jaxtyping import Bool, Float, Float64, Int, Int64
import torch
from torch import Tensor

from specdec_core.residual import wide
from specdec_core.rules.batched.checks import check_batch
from specdec_core.rules.batched.coins import BatchCoins, Questions
from specdec_core.rules.batched.laws import LawGroup, Laws
from specdec_core.rules.batched.ragged import Ragged
from specdec_core.rules.batched.rows import draw_from_rows, law_rows, residual_of_one_hot_rows, residual_rows, single
from specdec_core.rules.batched.verdict import BatchVerdict, chain_verdict


def verify_chain_batch(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "slots+batch vocab"],
    coins: BatchCoins,
    *,
    validate: bool = True,
) -> BatchVerdict:
    """`verify_chain` for every request of a batch: the same verdicts, for the same coins.

    Reads p and q at the drafted tokens, then one row of each a request: that of the first refusal, or of the bonus.

    Shapes: B requests with K_b drafts each, flat: slots = sum K_b; `cu_num_draft` is 0, K_0, K_0 + K_1, ...; the
    target has K_b + 1 rows a request. `draft_probs` None: a deterministic proposal, q one-hot. Any float dtype,
    arithmetic in float64 (float32 where the device has none).

    Raises:
        ValueError: with `validate`, shapes that do not fit, rows that are no laws, tokens outside the vocabulary;
            always, a law from which nothing can be drawn.

    Source: as `verify_chain`.
    """
    if validate:
        check_batch(draft_tokens, cu_num_draft, draft_probs, target_probs, coins)
    batch = Ragged.of(draft_tokens, cu_num_draft)
    p, q = masses(batch, draft_probs, target_probs)
    u = coins.uniforms(Questions(batch.request_of_slot, batch.node_of_slot, batch.node_of_slot))
    num_accepted = first_refusals(batch, u * q < p)
    is_bonus = num_accepted == batch.counts
    next_token = torch.empty_like(num_accepted)
    refused = torch.nonzero(~is_bonus)[:, 0]
    at = num_accepted[refused]
    residuals = _Residuals(batch, batch.first_slot[refused] + at, draft_probs, target_probs)
    next_token[refused] = coins.draw(residuals.laws(), Questions(refused, at, at + 1), "recover")
    whole = torch.nonzero(is_bonus)[:, 0]
    at = num_accepted[whole]
    rows = batch.first_row[whole] + at
    next_token[whole] = draw_from_rows(target_probs, rows, coins, Questions(whole, at, at), "bonus")
    return chain_verdict(batch, num_accepted, next_token)


def masses(
    batch: Ragged, draft_probs: Float[Tensor, "slots vocab"] | None, target_probs: Float[Tensor, "rows vocab"]
) -> tuple[Float64[Tensor, " slots"], Float64[Tensor, " slots"]]:
    """p and q of every draft of a chain; q is 1 for a deterministic proposal."""
    slots = torch.arange(len(batch.draft_tokens), device=batch.draft_tokens.device)
    p = wide(target_probs[slots + batch.request_of_slot, batch.draft_tokens])
    return p, torch.ones_like(p) if draft_probs is None else wide(draft_probs[slots, batch.draft_tokens])


def first_refusals(batch: Ragged, kept: Bool[Tensor, " slots"]) -> Int64[Tensor, " batch"]:
    """The number of drafts each request keeps: those before the first that is not."""
    refused = torch.nonzero(~kept)[:, 0]
    return batch.counts.scatter_reduce(0, batch.request_of_slot[refused], batch.node_of_slot[refused], "amin")


class _Residuals:
    """The residuals of some slots, one for each."""

    def __init__(
        self,
        batch: Ragged,
        slots: Int64[Tensor, " some"],
        draft_probs: Float[Tensor, "slots vocab"] | None,
        target_probs: Float[Tensor, "rows vocab"],
    ) -> None:
        self.slots, self.rows = slots, slots + batch.request_of_slot[slots]
        self.drafts = batch.draft_tokens[slots]
        self.draft_probs, self.target_probs = draft_probs, target_probs
        # as numbers too: large rows come one by one, and looking each up in a tensor would take a good part of the time
        self._slots, self._rows = self.slots.tolist(), self.rows.tolist()

    def laws(self) -> Laws:
        """Them all, to be drawn from."""
        return Laws(len(self.slots), self.target_probs.shape[1], self.make, self.rough, self.entries)

    def make(self, part: slice) -> LawGroup:
        """As the scalar rule has them."""
        p = law_rows(self.target_probs, self.rows[part])
        if self.draft_probs is None:
            return residual_of_one_hot_rows(p, self.drafts[part])
        return residual_rows(p, law_rows(self.draft_probs, self.slots[part]))

    def rough(self, law: int) -> Float[Tensor, " vocab"]:
        """One of them in float32."""
        p = single(self.target_probs[self._rows[law]])
        if self.draft_probs is None:
            return p.scatter(0, self.drafts[law : law + 1], 0.0)
        return (p - single(self.draft_probs[self._slots[law]])).clamp_(min=0)

    def entries(
        self, which: Int64[Tensor, " laws"], tokens: Int64[Tensor, "laws tokens"]
    ) -> Float64[Tensor, "laws tokens"]:
        """Some weights of some of them."""
        p = wide(self.target_probs[self.rows[which, None], tokens])
        if self.draft_probs is None:
            return torch.where(tokens == self.drafts[which, None], 0.0, p)
        return (p - wide(self.draft_probs[self.slots[which, None], tokens])).clamp_(min=0)
