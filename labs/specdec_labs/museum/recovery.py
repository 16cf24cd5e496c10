"""Bug: after a refusal the next token is drawn from the target's law instead of the residual.

Symptom: tokens the draft likes too much are still said too often, and nothing else looks wrong. Cause: the refused
draft had its chance already; giving it another from p counts it twice. Met in published loops and one course.
"""

from collections.abc import Sequence
from dataclasses import replace

from specdec_core.coins import Coins
from specdec_core.residual import Law, mass
from specdec_core.rules import RULES, Verdict


def verify_chain_recovering_from_target(
    draft_tokens: Sequence[int], draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """`verify_chain`, but the token that replaces a refused draft comes from p."""
    for i, token in enumerate(draft_tokens):
        q = 1 if draft_probs is None else mass(draft_probs[i], token)
        if not coins.accept(mass(target_probs[i], token), q, node=i):
            return Verdict(i, tuple(range(i)), coins.draw(target_probs[i], node=i, purpose="recover"), "recovered")
    drafted = len(draft_tokens)
    bonus = coins.draw(target_probs[drafted], node=drafted, purpose="bonus")
    return Verdict(drafted, tuple(range(drafted)), bonus, "bonus")


RECOVERY_FROM_TARGET = replace(
    RULES["chain"], name="recovery_from_target", verify=verify_chain_recovering_from_target, lossless=False
)
