"""The ratio that every rejection rule is built on."""

from fractions import Fraction


def capped_ratio(p: float | Fraction, q: float | Fraction) -> float | Fraction:
    """min(1, p / q); with q = 0 it is 1 when p > 0 and 0 otherwise, the limit of the rule u * q < p."""
    if p >= q:
        return 1 if p > 0 else 0
    return p / q
