"""Expected tokens and speed-up in closed form. Every function takes floats or exact Fractions.

`alpha` is accepted / tested: the chance that a draft that is judged is kept. Not accepted / drafted, which counts
drafts behind a refusal as failures and under-predicts.
"""

from collections.abc import Sequence
from fractions import Fraction

from specdec_core.arguments import check_number, check_whole

Number = float | Fraction


def expected_accepted(alpha: Number, gamma: int) -> Number:
    """Drafts kept a round when each is kept independently with `alpha`: alpha (1 - alpha^gamma) / (1 - alpha)."""
    _check(alpha, gamma)
    return sum((alpha**kept for kept in range(1, gamma + 1)), 0 * alpha)


def expected_tokens(alpha: Number, gamma: int) -> Number:
    """Tokens emitted a round: the drafts kept and one more, (1 - alpha^(gamma+1)) / (1 - alpha).

    Source: Leviathan et al. 2211.17192, equation 1.
    """
    return 1 + expected_accepted(alpha, gamma)


def expected_tokens_of_chain(conditional: Sequence[Number]) -> Number:
    """Tokens emitted a round when draft i, once judged, is kept with `conditional[i]`: 1 + sum of running products."""
    total: Number = 1
    product: Number = 1
    for chance in conditional:
        _check(chance, 0)
        product = product * chance
        total = total + product
    return total


def expected_tokens_of_tree(parents: Sequence[int], chances: Sequence[Number]) -> Number:
    """Tokens emitted a round when node n is the accepted child of its accepted parent with chance `chances[n]`.

    1 (the token every round emits) + the sum over nodes of the product of the chances on their path.

    Raises:
        ValueError: not one chance a node, a chance that is none, or a parent that does not come before its child.
    """
    if len(parents) != len(chances):
        raise ValueError(f"chances has {len(chances)} entries for {len(parents)} nodes; give one chance a node")
    reached: list[Number] = []
    for node, (parent, chance) in enumerate(zip(parents, chances)):
        _check(chance, 0)
        if not -1 <= parent < node:
            raise ValueError(f"parents[{node}] is {parent}; expected -1 or a node before it")
        reached.append(chance if parent < 0 else reached[parent] * chance)
    return 1 + sum(reached)


def speedup(alpha: Number, gamma: int, draft_cost: Number, verify_cost: Number = 1) -> Number:
    """Plain time / speculative time a token. Values below 1 are slower than plain decoding.

    `draft_cost` is the time of one draft step and `verify_cost` that of a verify pass, both in target steps.

    Source: Leviathan et al. 2211.17192, theorem 3.8, which takes verify_cost = 1.
    """
    check_number("draft_cost", draft_cost)
    check_number("verify_cost", verify_cost, above=True)
    return expected_tokens(alpha, gamma) / (gamma * draft_cost + verify_cost)


def implied_alpha(tokens_per_round: float, gamma: int) -> float | None:
    """The alpha that emits so many tokens a round, the inverse of `expected_tokens`; None when no alpha does.

    Solves 1 + alpha + ... + alpha^gamma = tokens_per_round. The left side rises and is convex, so Newton's steps from
    alpha = 1 come down to the root without passing it.

    Raises:
        ValueError: gamma below 1, or tokens that are no number.
    """
    if check_whole("gamma", gamma) < 1:
        raise ValueError(f"gamma is {gamma}; expected at least 1: with 0 every round emits one token at any alpha")
    check_number("tokens_per_round", tokens_per_round)
    if not 1 <= tokens_per_round <= gamma + 1:
        return None
    alpha = 1.0
    while True:
        slope = sum(kept * alpha ** (kept - 1) for kept in range(1, gamma + 1))
        step = (float(expected_tokens(alpha, gamma)) - tokens_per_round) / slope
        if step <= 1e-15:
            return max(alpha, 0.0)
        alpha = max(alpha - step, 0.0)


def best_gamma(alpha: Number, draft_cost: Number, verify_cost: Number = 1, *, largest: int = 64) -> int:
    """The gamma in 0..largest of largest speed-up, the smallest on a tie; 0 (plain, speed-up 1) when none gains."""
    check_whole("largest", largest, 0)
    _check(alpha, 0)
    check_number("draft_cost", draft_cost)
    check_number("verify_cost", verify_cost, above=True)
    gains = {0: 1 + 0 * alpha}
    gains.update({gamma: speedup(alpha, gamma, draft_cost, verify_cost) for gamma in range(1, largest + 1)})
    return max(gains, key=lambda gamma: (gains[gamma], -gamma))


def _check(alpha: Number, gamma: int) -> None:
    if getattr(alpha, "ndim", 0) or not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; expected a probability, one number")
    check_whole("gamma", gamma, 0)
