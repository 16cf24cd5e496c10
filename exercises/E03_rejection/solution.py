"""E03: rejection sampling of drafts.

p is the target's law, q the draft's: lists of the same length, one probability a token, Fractions or floats.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

Mass = Fraction | float
Law = Sequence[Mass]


# %% E03.acceptance: how often a draft is kept
def keep_probability(p: Law, q: Law, token: int) -> Mass:
    """The probability that the drafted `token` is kept: min(1, p/q) at the token.

    0 where p is 0. Where q is 0 and p is not, 1 (u * 0 < p). Fractions in, a Fraction (or 0, 1) out.

    >>> keep_probability([Fraction(1, 4), Fraction(3, 4)], [Fraction(1, 2), Fraction(1, 2)], 0)
    Fraction(1, 2)
    """
    if p[token] >= q[token]:
        return 1 if p[token] > 0 else 0
    return p[token] / q[token]


def mean_acceptance(p: Law, q: Law) -> Mass:
    """The probability that a draft is kept, averaged over the token that q proposes. Exact for Fractions.

    >>> mean_acceptance([Fraction(1, 4), Fraction(3, 4)], [Fraction(1, 2), Fraction(1, 2)])
    Fraction(3, 4)
    """
    return sum(min(p_x, q_x) for p_x, q_x in zip(p, q, strict=True))


# %% E03.valid_law: prove that the residual is a law
# Claim: for p and q that differ, max(p - q, 0) / Z is a law, where Z is the sum of max(p - q, 0) over all tokens.
# Put the steps that are needed into an order that proves it; some of them are false.
#   a  max(p(x) - q(x), 0) is at least 0 for every token x.
#   b  Z is above 0: p and q both sum to 1 and differ, so some token has p > q.
#   c  max(p(x) - q(x), 0) / Z is at least 0 for every token x.
#   d  The entries max(p(x) - q(x), 0) / Z sum to Z / Z = 1.
#   e  So no entry is negative and they sum to 1: a law.
#   f  p(x) - q(x) sums to 1 over all tokens x.
#   g  Z is 1, because p sums to 1.
#   h  Z is the probability that a draft from q is refused.
PROOF = "abcde"


# %% E03.chain: verify a chain of drafts
def verify_drafts(
    draft_tokens: Sequence[int], draft_probs: Sequence[Law], target_probs: Sequence[Law], coins: Any
) -> list[int]:
    """The tokens that a round emits: the accepted drafts, then one more.

    Draft i is accepted with probability min(1, p_i / q_i) at its token; the first refusal ends the round with a token
    from the residual max(p_i - q_i, 0), normalised; if none is refused, a bonus token comes from the last target law.

    Shapes: K draft tokens, K draft laws, K + 1 target laws (row i is the law of the token at draft i's place).

    All chance comes from `coins`:
        coins.accept(p, q, node=i)                        True with probability min(1, p/q)
        coins.draw(weights, node=i, purpose="recover")    an index with probability proportional to its weight
    `node` is the number of the draft or row, `purpose` is "recover" after a refusal and "bonus" for the bonus.
    """
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if not coins.accept(p[token], q[token], node=i):
            excess = [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]
            return [*draft_tokens[:i], coins.draw(excess, node=i, purpose="recover")]
    drafted = len(draft_tokens)
    return [*draft_tokens, coins.draw(target_probs[drafted], node=drafted, purpose="bonus")]


# %% E03.threshold: a threshold called lossless
def threshold_verify(p: Law, q: Law, token: int, coins: Any) -> tuple[bool, int]:
    """Broken, and given: judges a draft from q with half of u, so that more drafts pass. "Still lossless."

    Returns (whether the draft was accepted, the token that comes out).
    """
    if coins.accept(p[token], q[token] / 2, node=0):
        return True, token
    excess = [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]
    return False, coins.draw(excess, node=0, purpose="recover")


# The smallest (p, q) of Fractions for which the output of `threshold_verify` has not the law p: as few tokens as
# possible, then the largest denominator as small as possible.
THRESHOLD_INPUT = ([Fraction(1, 2), Fraction(1, 2)], [Fraction(1), Fraction(0)])


def mended_threshold(p: Law, q: Law, token: int, coins: Any) -> tuple[bool, int]:
    """`threshold_verify`, mended: the output has exactly the law p, and as many drafts are kept as that allows."""
    if coins.accept(p[token], q[token], node=0):
        return True, token
    excess = [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]
    return False, coins.draw(excess, node=0, purpose="recover")


# %% E03.softmax_q: softmax q beside an argmax draft
def softmax_q_round(p: Law, q: Law, coins: Any) -> tuple[bool, int]:
    """Broken, and given: drafts the token with the largest q, and judges it as if it had been drawn from q.

    Returns (whether the draft was accepted, the token that comes out).
    """
    token = max(range(len(q)), key=lambda x: q[x])
    if coins.accept(p[token], q[token], node=0):
        return True, token
    excess = [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]
    return False, coins.draw(excess, node=0, purpose="recover")


# The smallest (p, q) of Fractions for which the output of `softmax_q_round` has not the law p: as few tokens as
# possible, then the largest denominator as small as possible.
SOFTMAX_INPUT = ([Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 2), Fraction(1, 2)])


def mended_softmax_q(p: Law, q: Law, coins: Any) -> tuple[bool, int]:
    """`softmax_q_round`, mended: the same draft, judged as what it is. The output has exactly the law p."""
    token = max(range(len(q)), key=lambda x: q[x])
    if coins.accept(p[token], 1, node=0):
        return True, token
    rest = [0 if x == token else p_x for x, p_x in enumerate(p)]
    return False, coins.draw(rest, node=0, purpose="recover")
