"""Lossy acceptance: faster, and no longer the target's law. Shown so that the loss can be measured."""

from collections.abc import Sequence
from fractions import Fraction
import math

from torch import Tensor

from specdec_core.arguments import check_number
from specdec_core.coins.protocol import Coins
from specdec_core.residual import Law, mass, residual, residual_of_one_hot
from specdec_core.rules.checks import check_chain
from specdec_core.rules.verdict import Verdict

EPSILON = 0.09
DELTA = 0.3
"""The published defaults (`posterior_threshold`, `posterior_alpha`); delta is the square root of epsilon."""


def verify_typical(
    draft_tokens: Sequence[int], draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """Keeps drafts the target finds typical: p(x) > min(0.09, 0.3 exp(-H(p))), entropy H in nats. LOSSY.

    The next token is drawn from the target's law. No coin decides over a draft, so a draft's own habits go straight
    into the text: the law is not the target's.

    Source: Medusa, Cai et al. 2401.10774, section 2.3.1, with its published thresholds.
    """
    check_chain(draft_tokens, None, target_probs)
    kept = 0
    for token, p in zip(draft_tokens, target_probs):
        if not mass(p, token) > min(EPSILON, DELTA * math.exp(-entropy(p))):
            break
        kept += 1
    kind, purpose = ("bonus", "bonus") if kept == len(draft_tokens) else ("recovered", "recover")
    return Verdict(kept, tuple(range(kept)), coins.draw(target_probs[kept], node=kept, purpose=purpose), kind)


def verify_relaxed(
    draft_tokens: Sequence[int],
    draft_probs: Sequence[Law] | None,
    target_probs: Sequence[Law],
    coins: Coins,
    *,
    threshold: Fraction = Fraction(1, 2),
) -> Verdict:
    """`verify_chain` with the acceptance probability divided by `threshold` <= 1: min(1, p / (threshold q)). LOSSY.

    At threshold 1 it is the exact rule; below, drafts are kept more often than the target's law allows.

    Source: the acceptance thresholds of serving engines, for instance SGLang's `threshold_acc`.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold is {threshold}; expected above 0 and at most 1 (1 is the exact rule)")
    check_chain(draft_tokens, draft_probs, target_probs)
    for i, token in enumerate(draft_tokens):
        p = target_probs[i]
        q = 1 if draft_probs is None else mass(draft_probs[i], token)
        if not coins.accept(mass(p, token), q * threshold, node=i):
            rest = residual_of_one_hot(p, token) if draft_probs is None else residual(p, draft_probs[i])
            return Verdict(i, tuple(range(i)), coins.draw(rest, node=i, purpose="recover"), "recovered")
    drafted = len(draft_tokens)
    bonus = coins.draw(target_probs[drafted], node=drafted, purpose="bonus")
    return Verdict(drafted, tuple(range(drafted)), bonus, "bonus")


def entropy(law: Law) -> float:
    """-sum p log p in nats."""
    masses = law.double().tolist() if isinstance(law, Tensor) else [float(value) for value in law]
    for token, value in enumerate(masses):
        check_number(f"law[{token}]", value)
    return -sum(value * math.log(value) for value in masses if value > 0)
