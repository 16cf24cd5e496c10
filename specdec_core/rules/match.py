"""Match verification: the target draws its own token, and a draft counts when it is the same."""

from collections.abc import Sequence

from specdec_core.coins.protocol import Coins
from specdec_core.residual import Law
from specdec_core.rules.checks import check_chain
from specdec_core.rules.verdict import Verdict


def verify_match(
    draft_tokens: Sequence[int], draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """Keeps drafts while they equal the target's own draw; whatever is emitted *is* a draw from p, for any draft.

    The law is the target's because only the target's draws are emitted, however the drafts were made - `draft_probs`
    is not read. Each draw is keyed by its position in the text (`sample`), so that under this rule the text for a seed
    is the same for every drafter and gamma, 0 included. A drafter that draws with the same noise (Gumbel coupling) is
    kept with probability sum_i 1 / sum_j max(p_j/p_i, q_j/q_i); one with noise of its own with sum p q.

    Shapes and errors as in `verify_chain`.

    Source: exact-match sampling of llama.cpp and others; the coupling: Daliri et al. 2408.07978.
    """
    check_chain(draft_tokens, None, target_probs)
    for i, token in enumerate(draft_tokens):
        own = coins.draw(target_probs[i], node=i, purpose="sample")
        if own != token:
            return Verdict(i, tuple(range(i)), own, "recovered")
    drafted = len(draft_tokens)
    bonus = coins.draw(target_probs[drafted], node=drafted, purpose="sample")
    return Verdict(drafted, tuple(range(drafted)), bonus, "bonus")
