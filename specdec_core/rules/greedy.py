"""Greedy verification: a draft is kept while it is what the target would have said."""

from collections.abc import Sequence

from torch import Tensor

from specdec_core.coins.protocol import Coins
from specdec_core.residual import Law
from specdec_core.rules.checks import check_chain
from specdec_core.rules.verdict import Verdict


def argmax(law: Law) -> int:
    """The token of largest mass, the lowest id on a tie."""
    if isinstance(law, Tensor):
        places = (law == law.max()).nonzero()
        if len(places) == 0:
            raise ValueError("target_probs holds NaN; an argmax needs numbers - check the logits")
        return int(places[0])
    return max(range(len(law)), key=lambda token: (law[token], -token))


def verify_greedy(
    draft_tokens: Sequence[int],
    draft_probs: Sequence[Law] | None,
    target_probs: Sequence[Law],
    coins: Coins | None = None,
) -> Verdict:
    """Keeps drafts up to the first that is not the target's argmax; the output is the target's greedy text.

    `draft_probs` and `coins` are not used: nothing here is random. `target_probs` may be any rows whose argmax
    is meant - logits too. Ties go to the lowest id.

    Raises:
        ValueError: counts or vocabularies that do not fit, a token outside the vocabulary, or a NaN in a row.

    Source: the temperature-0 case of Leviathan et al. 2211.17192, section 2.2.
    """
    check_chain(draft_tokens, None, target_probs, are_laws=False)
    for i, token in enumerate(draft_tokens):
        best = argmax(target_probs[i])
        if token != best:
            return Verdict(i, tuple(range(i)), best, "recovered")
    drafted = len(draft_tokens)
    return Verdict(drafted, tuple(range(drafted)), argmax(target_probs[drafted]), "bonus")
