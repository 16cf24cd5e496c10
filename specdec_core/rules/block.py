"""Block verification: the drafts of a round are judged jointly, the longest acceptable prefix is kept."""

from collections.abc import Sequence
from fractions import Fraction

from specdec_core.coins.protocol import Coins
from specdec_core.residual import Law, mass, scaled_excess
from specdec_core.rules.checks import check_chain, draft_laws
from specdec_core.rules.ratio import capped_ratio
from specdec_core.rules.verdict import Verdict


def verify_block(
    draft_tokens: Sequence[int], draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """Keeps the longest prefix that passes; same law as the target, and never fewer tokens on average than `chain`.

    With w_0 = 1 and w_i = min(1, w_{i-1} p_i(x_i) / q_i(x_i)), prefix i < K passes with probability
    Z / (Z + 1 - w_i), Z = sum max(w_i p_{i+1} - q_{i+1}, 0), and prefix K with w_K. Every prefix has a coin of its
    own and the *largest* that passes counts: a failure before it does not matter. After prefix i < K the next token
    comes from max(w_i p_{i+1} - q_{i+1}, 0), normalised; after K from p_{K+1}.

    Shapes and errors as in `verify_chain`.

    Source: Sun et al. 2403.10444, algorithm 2 and theorem 1; P(at least i kept | first i drafts) = w_i.
    """
    check_chain(draft_tokens, draft_probs, target_probs)
    laws = draft_laws(draft_tokens, draft_probs, target_probs)
    drafted = len(draft_tokens)
    weights: list[float | Fraction] = [1]
    for token, p, q in zip(draft_tokens, target_probs, laws):
        weights.append(capped_ratio(weights[-1] * mass(p, token), mass(q, token)))
    if drafted == 0 or coins.accept(weights[drafted], 1, node=drafted - 1):
        bonus = coins.draw(target_probs[drafted], node=drafted, purpose="bonus")
        return Verdict(drafted, tuple(range(drafted)), bonus, "bonus")
    kept = drafted - 1
    while True:
        excess, total = scaled_excess(target_probs[kept], laws[kept], weights[kept])
        # w_0 = 1, so the empty prefix always passes: its chance is Z / Z
        if kept == 0 or coins.accept(total, total + (1 - weights[kept]), node=kept - 1):
            break
        kept -= 1
    rest = excess if total > 0 else target_probs[kept]
    return Verdict(kept, tuple(range(kept)), coins.draw(rest, node=kept, purpose="recover"), "recovered")
