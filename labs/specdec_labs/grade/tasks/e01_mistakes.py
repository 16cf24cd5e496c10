"""How the typical wrong answers to E01 look from outside.

Each is recognised by its outputs alone, over all cases of a kind.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
import math

from specdec_labs.grade.exact import Malformed, Reading
from specdec_labs.grade.task import Fits, Seen
from specdec_labs.grade.tasks.e01_cases import Pair, equal, exact_different, exact_several, float_different

Law = tuple[Fraction, ...]
Kind = Callable[[Pair], bool]

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

    def fits(seen: Sequence[Seen], cases: Sequence[Pair]) -> bool:
        try:
            return all(
                sight.failure is None and test(pair, pair.law(sight))
                for sight, pair in zip(seen, cases, strict=True)
                if kind(pair)
            )
        except Malformed:
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


def clamped(seen: Sequence[Seen], cases: Sequence[Pair]) -> bool:
    """Nearly right everywhere, and not right where several tokens share the residual."""
    return every(exact_different, nearly_right)(seen, cases) and not every(exact_several, is_right)(seen, cases)


def zero_over_zero(seen: Sequence[Seen], cases: Sequence[Pair]) -> bool:
    """ZeroDivisionError or NaN wherever p = q."""

    def breaks(sight: Seen) -> bool:
        if sight.failure is not None:
            return sight.failure.kind == "ZeroDivisionError"
        return isinstance(sight.value, list | tuple) and any(_is_nan(entry) for entry in sight.value)

    return all(breaks(sight) for sight, pair in zip(seen, cases, strict=True) if equal(pair))


def changes_arguments(seen: Sequence[Seen], cases: Sequence[Pair]) -> bool:
    """Some call leaves other numbers in its argument lists."""
    try:
        return any(sight.failure is None and pair.changed(sight) for sight, pair in zip(seen, cases, strict=True))
    except Malformed:
        return False


def cancels(seen: Sequence[Seen], cases: Sequence[Pair]) -> bool:
    """Right in Fractions; in floats the right proportions with a wrong total, or 0/0."""
    if not every(exact_different, is_right)(seen, cases):
        return False
    floats = [(sight, pair) for sight, pair in zip(seen, cases, strict=True) if float_different(pair)]
    failed = [sight.failure.kind for sight, _ in floats if sight.failure is not None]
    if failed:
        return failed[0] == "ZeroDivisionError"
    try:
        laws = [(pair, pair.law(sight)) for sight, pair in floats]
    except Malformed:
        return False
    wrong = [(pair, law) for pair, law in laws if not is_right(pair, law)]
    return bool(wrong) and all(_right_once_scaled(pair, law) for pair, law in wrong)


def _times(masses: Law | None, factor: Fraction) -> Law | None:
    return None if masses is None else tuple(mass * factor for mass in masses)


def _softmax(scores: list[float]) -> list[float]:
    weights = [math.exp(score) for score in scores]
    return [weight / sum(weights) for weight in weights]


def _is_nan(entry: object) -> bool:
    return isinstance(entry, float) and math.isnan(entry)


def _right_once_scaled(pair: Pair, law: Reading) -> bool:
    masses = scaled(law.values)
    return masses is not None and is_right(pair, Reading(masses, True))


RECOGNISERS: dict[str, Fits] = {
    "draws_from_p": shaped_like(lambda p, q: p),
    "unnormalised": every(exact_different, unnormalised),
    "absolute_difference": shaped_like(lambda p, q: abs(p - q)),
    "swaps_p_and_q": shaped_like(lambda p, q: max(q - p, Fraction(0))),
    "masks_p": shaped_like(lambda p, q: p if p > q else Fraction(0)),
    "clamps_q": clamped,
    "epsilon_everywhere": every(exact_different, leaks),
    "epsilon_in_the_denominator": every(exact_different, sums_short),
    "softmax_of_the_difference": every(exact_different, softmaxed),
    "divides_zero_by_zero": zero_over_zero,
    "changes_its_arguments": changes_arguments,
    "rounds_to_floats": every(exact_different, lambda pair, law: law.has_floats and is_right(pair, law)),
    "divides_by_one_minus_the_overlap": cancels,
}
