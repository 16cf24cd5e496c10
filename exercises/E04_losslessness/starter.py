"""E04: losslessness, proved and certified.

p is the target's law, q the draft's: lists of Fractions, one probability a token.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

Law = Sequence[Fraction]


# %% E04.enumerate: enumerate the output law of one draft
def law_of_one_draft(
    p: Law, q: Law, keep: Callable[[Law, Law, int], Fraction], redraw: Callable[[Law, Law, int], Law]
) -> list[Fraction]:
    """The exact law of the token that comes out of a round with one draft, token by token.

    A draft x comes from q. It is kept with probability keep(p, q, x), and comes out then. If it is refused, the token
    comes from the law redraw(p, q, x) instead. Both functions are given; any rule can be put in.
    """
    raise NotImplementedError("E04.enumerate: law_of_one_draft(p, q, keep, redraw)")


# %% E04.power: how many samples a certificate needs
def samples_for_power(degrees: int, bias: float, level: float, power: float) -> int:
    """The smallest number of samples with which a chi-square test catches a given bias.

    The test has `degrees` degrees of freedom and rejects above the value that a right sampler passes with probability
    `level`. A law at total variation distance `bias` moves the statistic to a noncentral chi-square whose noncentrality
    is at least 4 n bias^2; it is to be rejected with probability of at least `power`. Two per cent too many are fine.

    `scipy.stats.chi2` and `scipy.stats.ncx2` have what is needed; so have `chdtri(degrees, level)` and
    `chndtr(value, degrees, noncentrality)` of `scipy.special`, which imports faster.
    """
    raise NotImplementedError("E04.power: samples_for_power(degrees, bias, level, power)")


# %% E04.length: the window is chosen after looking at the draft
def cut_after_looking(p: Law, q: Law, least: Fraction, coins: Any) -> tuple[bool, int]:
    """Broken, and given: draws a draft from q, and verifies it only when this token is promising.

    Returns (whether a draft was accepted, the token that comes out).
    """
    token = coins.draw(q, node=0, purpose="draft")
    if min(1, p[token] / q[token]) < least:
        return False, coins.draw(p, node=0, purpose="sample")
    if coins.accept(p[token], q[token], node=0):
        return True, token
    excess = [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]
    return False, coins.draw(excess, node=0, purpose="recover")


# The smallest (p, q, least) of Fractions for which the output of `cut_after_looking` has not the law p: as few tokens
# as possible, then the largest denominator, that of `least` included, as small as possible.
LENGTH_INPUT = None


def mended_length(p: Law, q: Law, least: Fraction, coins: Any) -> tuple[bool, int]:
    """`cut_after_looking`, mended: a slot is drafted and verified exactly when the laws promise at least `least`.

    The promise is the probability that a draft from q is accepted. A slot that is not drafted comes from p.
    """
    raise NotImplementedError("E04.length: mended_length(p, q, least, coins)")


# %% E04.block_residual: block verification with the chain's residual
def block_with_the_chains_residual(
    draft_tokens: Sequence[int], draft_probs: Sequence[Law], target_probs: Sequence[Law], coins: Any
) -> list[int]:
    """Broken, and given: block verification that redraws from max(p - q, 0). Returns the emitted tokens.

    The weight w_i = min(1, w_(i-1) p_i / q_i) is the chance that at least i drafts are kept. From the longest prefix
    down, prefix i passes with probability Z / (Z + 1 - w_i), where Z is the sum of max(w_i p - q, 0) at the next row;
    the whole block passes with w_K. The first prefix that passes is kept, and one more token follows.
    """
    drafted, weights = len(draft_tokens), [Fraction(1)]
    for i, token in enumerate(draft_tokens):
        weights.append(min(Fraction(1), weights[-1] * target_probs[i][token] / draft_probs[i][token]))
    if not drafted or coins.accept(weights[drafted], 1, node=drafted - 1):
        return [*draft_tokens, coins.draw(target_probs[drafted], node=drafted, purpose="bonus")]
    for kept in range(drafted - 1, -1, -1):
        p, q, w = target_probs[kept], draft_probs[kept], weights[kept]
        total = sum(max(w * p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True))
        if kept == 0 or coins.accept(total, total + 1 - w, node=kept - 1):
            excess = [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]
            return [*draft_tokens[:kept], coins.draw(excess, node=kept, purpose="recover")]
    raise AssertionError("the empty prefix always passes")


# The smallest (target laws, draft laws) of Fractions, K + 1 and K rows by place, for which the next K + 1 tokens do not
# have the target's law: as few tokens as possible, then drafts, then the largest denominator as small as possible.
BLOCK_INPUT = None


def mended_block(
    draft_tokens: Sequence[int], draft_probs: Sequence[Law], target_probs: Sequence[Law], coins: Any
) -> list[int]:
    """`block_with_the_chains_residual`, mended: the next K + 1 tokens have the target's law, and as many are kept."""
    raise NotImplementedError("E04.block_residual: mended_block(draft_tokens, draft_probs, target_probs, coins)")
