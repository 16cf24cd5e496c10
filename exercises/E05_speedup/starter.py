"""E05: what speculation gains, on paper.

alpha is the chance that a draft which is judged is kept, gamma (K in some texts) the number of drafts a round, c the
time of a draft step in target steps.
"""

from fractions import Fraction

Number = Fraction | float


# %% E05.expected: how many drafts a round keeps
def expected_accepted_drafts(alpha: Number, gamma: int) -> Number:
    """The mean number of drafts that are kept of gamma, when each is kept independently with probability alpha.

    The first refusal drops the rest. Exact for a Fraction alpha, 0 <= alpha <= 1, both ends included.

    >>> expected_accepted_drafts(Fraction(1, 2), 2)
    Fraction(3, 4)
    """
    raise NotImplementedError("E05.expected: expected_accepted_drafts(alpha, gamma)")


# alpha = 0.7 and K = 4, 8, 16, to four decimals. Say first which of the two you count, "accepted" or "tokens":
# ("accepted", number for K = 4, number for K = 8, number for K = 16)
EXPECTED = None


# %% E05.best_gamma: the window that gains most
def best_window(alpha: Number, c: Number, largest: int) -> int:
    """The number of drafts in 0..largest with the largest speed-up over plain decoding; the smallest one on a tie.

    A round with gamma drafts emits (1 + alpha + ... + alpha^gamma) tokens on average and takes gamma c + 1 target
    steps; gamma = 0 is plain decoding, with speed-up 1.

    >>> best_window(Fraction(1, 2), Fraction(3, 4), 8)
    0
    """

    raise NotImplementedError("E05.best_gamma: best_window(alpha, c, largest)")


# The best number of drafts for alpha = 0.9 and a draft 20 times faster than the target, no limit on its length.
BEST_K = None


# %% E05.break_even: the acceptance at which speculation pays
def break_even_alpha(gamma: int, c: float) -> float | None:
    """The alpha at which gamma drafts of cost c neither gain nor lose, to 1e-9; None when no alpha breaks even.

    gamma is at least 1 and c at least 0. The speed-up is (1 + alpha + ... + alpha^gamma) / (gamma c + 1).
    """
    raise NotImplementedError("E05.break_even: break_even_alpha(gamma, c)")
