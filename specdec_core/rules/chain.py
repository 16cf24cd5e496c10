"""Token-wise rejection sampling along a chain of drafts."""

from collections.abc import Sequence

from specdec_core.coins.protocol import Coins
from specdec_core.residual import Law, mass, residual, residual_of_one_hot
from specdec_core.rules.checks import check_chain
from specdec_core.rules.verdict import Verdict


def verify_chain(
    draft_tokens: Sequence[int], draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """Keeps drafts up to the first refusal; the emitted tokens have exactly the target's law.

    Draft x_i is kept when u * q_i(x_i) < p_i(x_i). At the first refusal the rest is dropped and one token comes
    from the residual max(p_i - q_i, 0), normalised; with no refusal one bonus token comes from p_{K+1}.

    Shapes: K draft tokens, K draft laws (None: a deterministic proposal, q one-hot), K + 1 target laws.

    Raises:
        ValueError: counts or vocabularies that do not fit, or a token outside the vocabulary.

    Source: Leviathan et al. 2211.17192, algorithm 1 and appendix A.1; Chen et al. 2302.01318, algorithm 2.
    """
    check_chain(draft_tokens, draft_probs, target_probs)
    for i, token in enumerate(draft_tokens):
        p = target_probs[i]
        q_of_token = 1 if draft_probs is None else mass(draft_probs[i], token)
        if not coins.accept(mass(p, token), q_of_token, node=i):
            rest = residual_of_one_hot(p, token) if draft_probs is None else residual(p, draft_probs[i])
            return Verdict(i, tuple(range(i)), coins.draw(rest, node=i, purpose="recover"), "recovered")
    drafted = len(draft_tokens)
    bonus = coins.draw(target_probs[drafted], node=drafted, purpose="bonus")
    return Verdict(drafted, tuple(range(drafted)), bonus, "bonus")
