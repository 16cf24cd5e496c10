"""E01: how often a draft is refused, and the law a refused token is redrawn from.

p is the target's law, q the draft's: lists of the same length, one probability a token, all Fractions or all
floats. Write plain Python that serves both: 0 and 1 rather than 0.0 and 1.0.

My answer to "predict it" in the README:
"""

from collections.abc import Sequence
from fractions import Fraction

Mass = Fraction | float


# %% E01.residual: how often a draft is refused, and what is drawn then
def rejection_probability(p: Sequence[Mass], q: Sequence[Mass]) -> Mass:
    """beta: the probability that a token drawn from q is refused, when x is kept with min(1, p(x)/q(x)).

    Shapes: p and q have V entries. Returns one number in [0, 1]; a Fraction (or 0, 1) for Fractions.

    >>> rejection_probability([Fraction(1, 4), Fraction(3, 4)], [Fraction(1, 2), Fraction(1, 2)])
    Fraction(1, 4)
    """
    raise NotImplementedError("E01.residual: rejection_probability(p, q)")


def residual(p: Sequence[Mass], q: Sequence[Mass]) -> list[Mass]:
    """The law to redraw from after a refusal: max(p - q, 0), normalised.

    With p = q nothing is left over; the answer is then p. The arguments are not changed.

    Shapes: p and q have V entries. Returns a list of V numbers >= 0 that sum to 1; Fractions for Fractions.

    >>> residual([Fraction(1, 4), Fraction(3, 4)], [Fraction(1, 2), Fraction(1, 2)])
    [Fraction(0, 1), Fraction(1, 1)]
    """
    raise NotImplementedError("E01.residual: residual(p, q)")
