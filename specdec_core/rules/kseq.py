"""k-SEQ: k independent drafts of one token, each judged in turn against the same scaled target."""

from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from specdec_core.coins.protocol import Coins
from specdec_core.draft import DraftTree
from specdec_core.residual import Law, exact_law, mass
from specdec_core.rules.checks import check_tree
from specdec_core.rules.verdict import Verdict

DENOMINATOR = 4096
"""rho is a multiple of 1 / DENOMINATOR: the smallest valid one, so that the law stays exact."""


def verify_kseq(
    tree: DraftTree, draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """Accepts each of k siblings in turn with probability min(1, p / (rho q)); same law as the target.

    With beta = sum min(q, p / rho), one of the k is accepted with probability 1 - (1 - beta)^k =: a. When none is, the
    token comes from p - min(q, p / rho) a / beta, normalised; that is a law whenever a <= rho beta, and rho is the
    smallest multiple of 1 / DENOMINATOR for which it is. Then a is at least (1 - (1 - 1/k)^k) of the optimum.

    Raises:
        ValueError: a tree deeper than one level, or deterministic children.

    Source: SpecTr, Sun et al. 2310.15141, algorithm 3 and theorem 3.
    """
    check_tree(tree, draft_probs, target_probs)
    p, children = target_probs[0], range(len(tree))
    if any(parent >= 0 for parent in tree.parents):
        raise ValueError(f"parents is {tree.parents}; k-SEQ judges one level, so every parent is -1")
    if not children:
        return Verdict(0, (), coins.draw(p, node=0, purpose="bonus"), "bonus")
    if draft_probs is None:
        raise ValueError("draft_probs is None; k-SEQ judges drafts drawn independently from q")
    q = draft_probs[0]
    rho = smallest_rho(p, q, len(tree))
    for child in children:
        token = tree.tokens[child]
        if coins.accept(mass(p, token), rho * mass(q, token), node=child):
            bonus = coins.draw(target_probs[child + 1], node=child + 1, purpose="bonus")
            return Verdict(1, (child,), bonus, "bonus")
    return Verdict(0, (), coins.draw(kseq_residual(p, q, rho, len(tree)), node=0, purpose="recover"), "recovered")


def smallest_rho(p: Law, q: Law, k: int) -> Fraction:
    """The smallest multiple of 1 / DENOMINATOR in [1, k] with 1 - (1 - beta)^k <= rho beta."""
    low, high = DENOMINATOR - 1, k * DENOMINATOR
    while high - low > 1:
        middle = (low + high) // 2
        rho = Fraction(middle, DENOMINATOR)
        beta = _beta(p, q, rho)
        low, high = (low, middle) if 1 - (1 - beta) ** k <= rho * beta else (middle, high)
    return Fraction(high, DENOMINATOR)


def kseq_residual(p: Law, q: Law, rho: Fraction, k: int) -> Law:
    """What a refusal of all k drafts redraws from, not normalised; p itself when nothing is left."""
    beta = _beta(p, q, rho)
    # accepted mass of a token: min(q, p / rho) times the expected number of drafts that are judged
    share = (1 - (1 - beta) ** k) / beta if beta else 0
    if isinstance(p, Tensor) and isinstance(q, Tensor):
        rest = (p.double() - torch.minimum(q.double(), p.double() / float(rho)) * float(share)).clamp(min=0)
        return rest if float(rest.sum()) > 0 else p
    exact = [p_x - min(q_x, p_x / rho) * Fraction(share) for p_x, q_x in zip(exact_law(p), exact_law(q))]
    return exact if any(exact) else p


def _beta(p: Law, q: Law, rho: Fraction) -> float | Fraction:
    if isinstance(p, Tensor) and isinstance(q, Tensor):
        return float(torch.minimum(q.double(), p.double() / float(rho)).sum())
    return sum((min(q_x, p_x / rho) for p_x, q_x in zip(exact_law(p), exact_law(q))), Fraction(0))
