"""How the typical wrong answers to E01 look from outside.

Each is recognised by its outputs alone, over all cases of a kind.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
import math
from typing import cast

from specdec_labs.grade.checks.e01_cases import Pair, equal, exact_different, exact_several, float_different
from specdec_labs.grade.engine import LearnerError, LearnerFunction, Mistake
from specdec_labs.grade.exact import Malformed, Reading, read_number

Law = tuple[Fraction, ...]
Kind = Callable[[Pair], bool]
Fits = Callable[[LearnerFunction, Sequence[Pair]], bool]

# An epsilon that "does no harm" is small; a different law is not.
SMALL = Fraction(1, 100)


def scaled(masses: Law) -> Law | None:
    """The masses divided by their total; None when that is not positive."""
    total = sum(masses, Fraction(0))
    return tuple(mass / total for mass in masses) if total > 0 else None


def agree(law: Reading, masses: Law | None) -> bool:
    """Whether the returned law is this one."""
    return masses is not None and all(law.same(value, mass) for value, mass in zip(law.values, masses, strict=True))


def every(kind: Kind, test: Callable[[Pair, Reading], bool]) -> Fits:
    """Fits when `test` holds on every pair of a kind and the function returned a readable law on each."""

    def fits(function: LearnerFunction, cases: Sequence[Pair]) -> bool:
        try:
            return all(test(pair, pair.law(function)) for pair in cases if kind(pair))
        except (LearnerError, Malformed):
            return False

    return fits


def shaped_like(masses: Callable[[Fraction, Fraction], Fraction]) -> Fits:
    """Fits when the output is masses(p, q) token by token, rescaled to total 1 or not."""

    def test(pair: Pair, law: Reading) -> bool:
        raw = tuple(masses(Fraction(p), Fraction(q)) for p, q in zip(pair.p, pair.q, strict=True))
        return agree(law, raw) or agree(law, scaled(raw))

    return every(exact_different, test)


def is_right(pair: Pair, law: Reading) -> bool:
    """Whether this is the residual law of the pair."""
    return agree(law, scaled(pair.excess))


def is_close(pair: Pair, law: Reading) -> bool:
    """Whether every entry is within SMALL of the residual law."""
    wanted = scaled(pair.excess) or pair.excess
    return all(abs(value - mass) <= SMALL for value, mass in zip(law.values, wanted, strict=True))


def leaks(pair: Pair, law: Reading) -> bool:
    """Whether each token without excess still has a little mass."""
    return is_close(pair, law) and all(
        not law.same(value, Fraction(0)) for value, excess in zip(law.values, pair.excess, strict=True) if excess == 0
    )


def nearly_right(pair: Pair, law: Reading) -> bool:
    """Whether the law is close, sums to 1 and gives nothing to tokens without excess."""
    inside = all(
        law.same(value, Fraction(0)) for value, excess in zip(law.values, pair.excess, strict=True) if not excess
    )
    return inside and is_close(pair, law) and law.same(sum(law.values, Fraction(0)), Fraction(1))


def sums_short(pair: Pair, law: Reading) -> bool:
    """Whether the law is the residual times a factor a little below 1."""
    total = sum(law.values, Fraction(0))
    return (
        1 - SMALL <= total < 1 and not law.same(total, Fraction(1)) and agree(law, _times(scaled(pair.excess), total))
    )


def unnormalised(pair: Pair, law: Reading) -> bool:
    """Whether the law is the bare excess."""
    return agree(law, pair.excess)


def softmaxed(pair: Pair, law: Reading) -> bool:
    """Whether the law is a softmax of p - q, or of its positive part."""
    gaps = [float(p) - float(q) for p, q in zip(pair.p, pair.q, strict=True)]
    return any(
        all(abs(float(value) - weight) < 1e-9 for value, weight in zip(law.values, _softmax(scores), strict=True))
        for scores in (gaps, [max(gap, 0.0) for gap in gaps])
    )


def clamped(function: LearnerFunction, cases: Sequence[Pair]) -> bool:
    """Nearly right everywhere, and not right where several tokens share the residual."""
    return every(exact_different, nearly_right)(function, cases) and not every(exact_several, is_right)(function, cases)


def zero_over_zero(function: LearnerFunction, cases: Sequence[Pair]) -> bool:
    """ZeroDivisionError or NaN wherever p = q."""

    def breaks(pair: Pair) -> bool:
        try:
            value = function(*pair.arguments())
        except LearnerError as error:
            return isinstance(error.error, ZeroDivisionError)
        return type(value) in (list, tuple) and any(_is_nan(entry) for entry in value)

    return all(breaks(pair) for pair in cases if equal(pair))


def changes_arguments(function: LearnerFunction, cases: Sequence[Pair]) -> bool:
    """Some call leaves other numbers in its argument lists."""

    def changes(pair: Pair) -> bool:
        p, q = pair.arguments()
        try:
            function(p, q)
        except LearnerError:
            return False
        return bool(pair.changed(p, q))

    return any(changes(pair) for pair in cases)


def cancels(function: LearnerFunction, cases: Sequence[Pair]) -> bool:
    """Right in Fractions; in floats the right proportions with a wrong total, or 0/0."""
    if not every(exact_different, is_right)(function, cases):
        return False
    try:
        laws = [(pair, pair.law(function)) for pair in cases if float_different(pair)]
    except LearnerError as error:
        return isinstance(error.error, ZeroDivisionError)
    except Malformed:
        return False
    wrong = [(pair, law) for pair, law in laws if not is_right(pair, law)]
    return bool(wrong) and all(_right_once_scaled(pair, law) for pair, law in wrong)


def returns_number(number: Callable[[Pair], Fraction]) -> Fits:
    """Fits when the function returns this number on every pair of different exact laws."""

    def fits(function: LearnerFunction, cases: Sequence[Pair]) -> bool:
        try:
            gaps = [
                abs(read_number(function(*pair.arguments()), "") - number(pair))
                for pair in cases
                if exact_different(pair)
            ]
        except (LearnerError, Malformed):
            return False
        return all(gap < Fraction(1, 10**9) for gap in gaps)

    return fits


def _times(masses: Law | None, factor: Fraction) -> Law | None:
    return None if masses is None else tuple(mass * factor for mass in masses)


def _softmax(scores: list[float]) -> list[float]:
    weights = [math.exp(score) for score in scores]
    return [weight / sum(weights) for weight in weights]


def _is_nan(entry: object) -> bool:
    return issubclass(type(entry), float) and math.isnan(float.__float__(cast("float", entry)))


def _right_once_scaled(pair: Pair, law: Reading) -> bool:
    masses = scaled(law.values)
    return masses is not None and is_right(pair, Reading(masses, True))


MISTAKES = (
    Mistake(
        "draws_from_p",
        "residual",
        "your function returns p itself. That is 'draw again from the target after a refusal'. The accept step has "
        "already kept min(p, q), so likely drafts come out too often: the output law is min(p, q) + beta * p, not p.",
        shaped_like(lambda p, q: p),
    ),
    Mistake(
        "unnormalised",
        "residual",
        "your function returns max(p - q, 0) as it is. It sums to beta, the refusal probability; divide by that sum.",
        every(exact_different, unnormalised),
    ),
    Mistake(
        "absolute_difference",
        "residual",
        "your function spreads |p - q|. Tokens with p < q already come out often enough as accepted drafts and must "
        "get nothing: take max(p - q, 0) instead of abs(p - q).",
        shaped_like(lambda p, q: abs(p - q)),
    ),
    Mistake(
        "swaps_p_and_q",
        "residual",
        "your function tops up the tokens that the draft likes too much: it computes max(q - p, 0). p is the target, "
        "q the draft; the target's missing mass is max(p - q, 0).",
        shaped_like(lambda p, q: max(q - p, Fraction(0))),
    ),
    Mistake(
        "masks_p",
        "residual",
        "your function keeps p where p > q and rescales it. The support is right, the shares are not: each token needs "
        "its excess p - q, not its whole p.",
        shaped_like(lambda p, q: p if p > q else Fraction(0)),
    ),
    Mistake(
        "clamps_q",
        "residual",
        "your result is nearly right, off by a little where q is small or zero. That is an epsilon in q "
        "(max(q, eps) or q + eps). q is never divided by here, so it needs no guard.",
        clamped,
    ),
    Mistake(
        "epsilon_everywhere",
        "residual",
        "every token without excess gets a small mass. That is max(p - q, eps) in place of max(p - q, 0): with it a "
        "token the target forbids comes out now and then.",
        every(exact_different, leaks),
    ),
    Mistake(
        "epsilon_in_the_denominator",
        "residual",
        "the shares are right, but the total is a little below 1. That is excess / (total + eps). The only total that "
        "needs a guard is 0, which happens when p = q: branch on it and return p.",
        every(exact_different, sums_short),
    ),
    Mistake(
        "softmax_of_the_difference",
        "residual",
        "your function takes a softmax of p - q. These are probabilities already, not logits: cut at zero and divide "
        "by the sum.",
        every(exact_different, softmaxed),
    ),
    Mistake(
        "divides_zero_by_zero",
        "residual",
        "with p = q nothing is left over, and your function divides 0 by 0. Return p when the total is 0.",
        zero_over_zero,
    ),
    Mistake(
        "changes_its_arguments",
        "residual",
        "your function writes into the lists it was given. Build a new list.",
        changes_arguments,
    ),
    Mistake(
        "rounds_to_floats",
        "residual",
        "the law is right, but Fractions went in and floats came out. Look for 0.0, 1.0, float(...) or an epsilon such "
        "as 1e-10: with plain 0 and 1 the same code serves Fractions and floats.",
        every(exact_different, lambda pair, law: law.has_floats and is_right(pair, law)),
    ),
    Mistake(
        "divides_by_one_minus_the_overlap",
        "residual",
        "in Fractions you are right; in floats your law does not sum to 1 when p and q are nearly equal. "
        "1 - sum(min(p, q)) then subtracts two numbers that agree in all but the last digits. Divide by the sum of the "
        "very masses you return.",
        cancels,
    ),
    Mistake(
        "returns_the_overlap",
        "rejection_probability",
        "your function returns sum(min(p, q)), the probability that the draft is kept. It is refused with 1 - that.",
        returns_number(lambda pair: sum(pair.kept, Fraction(0))),
    ),
    Mistake(
        "counts_both_sides",
        "rejection_probability",
        "your function returns sum(|p - q|). What q has too much, p has too little: that counts the mass twice.",
        returns_number(lambda pair: 2 * pair.beta),
    ),
)
