"""Pairs of laws for exercise E01: fixed public ones, and fresh ones from a seed.

p is the target's law, q the draft's. Exact pairs hold Fractions, float pairs hold floats.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
import random

from specdec_labs.grade.exact import Number, Reading, number_text, read_law, read_number, token_table
from specdec_labs.grade.task import Seen

WORDS = ("cat", "dog", "owl", "fox", "bee", "ant", "cow", "elk", "hen")
Mass = Fraction | float


@dataclass(frozen=True, slots=True)
class Pair:
    """Two laws over the same tokens, with the exact quantities every property is stated in."""

    p: tuple[Mass, ...]
    q: tuple[Mass, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        """A word for each token."""
        return WORDS[: len(self.p)]

    @property
    def exact(self) -> bool:
        """Whether the laws are Fractions."""
        return type(self.p[0]) is Fraction

    @property
    def equal(self) -> bool:
        """Whether p = q."""
        return self.p == self.q

    @property
    def excess(self) -> tuple[Fraction, ...]:
        """max(p - q, 0) a token, exactly (a float is read as the fraction it is)."""
        return tuple(max(Fraction(p) - Fraction(q), Fraction(0)) for p, q in zip(self.p, self.q, strict=True))

    @property
    def kept(self) -> tuple[Fraction, ...]:
        """min(p, q) a token: the mass that a draft from q keeps."""
        return tuple(min(Fraction(p), Fraction(q)) for p, q in zip(self.p, self.q, strict=True))

    @property
    def beta(self) -> Fraction:
        """The probability that the draft is refused, which is the total of the excess."""
        return sum(self.excess, Fraction(0))

    @property
    def key(self) -> tuple[int, int, int]:
        """Orders pairs by size: tokens, then largest denominator, then the sum of all denominators."""
        denominators = [Fraction(mass).denominator for mass in self.p + self.q]
        return len(self.p), max(denominators), sum(denominators)

    def arguments(self) -> list[list[Mass]]:
        """p and q as the learner's function gets them."""
        return [list(self.p), list(self.q)]

    def changed(self, seen: Seen) -> str:
        """The name of the argument that no longer holds this pair's numbers, empty when both do."""
        for name, after, before in zip("pq", seen.after, (self.p, self.q), strict=True):
            exact = [read_number(entry, f"an entry of {name} after the call") for entry in after]
            if exact != [Fraction(mass) for mass in before]:
                return name
        return ""

    def law(self, seen: Seen) -> Reading:
        """The returned law. Raises Malformed when it is not a list of numbers."""
        return read_law(seen.value, self.tokens)

    def table(self, **columns: Sequence[Number]) -> str:
        """p and q token by token, then the given columns."""
        return token_table(self.tokens, {"p": self.p, "q": self.q, **columns})


def equal(pair: Pair) -> bool:
    """p = q, Fractions or floats."""
    return pair.equal


def different(pair: Pair) -> bool:
    """p and q not equal, Fractions or floats."""
    return not pair.equal


def exact_different(pair: Pair) -> bool:
    """Fractions, p and q not equal."""
    return pair.exact and not pair.equal


def exact_several(pair: Pair) -> bool:
    """Fractions, at least two tokens with p > q."""
    return pair.exact and sum(mass > 0 for mass in pair.excess) >= 2


def float_different(pair: Pair) -> bool:
    """Floats, p and q not equal."""
    return not pair.exact and not pair.equal


def smallest_first(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs by size, so that the first failure is the smallest one."""
    return sorted(pairs, key=lambda pair: pair.key)


def public_cases() -> list[Pair]:
    """The fixed pairs, most of them from real bug reports (their numbers in the field's list of cases)."""
    return smallest_first(
        [
            _fractions("1/4 3/4", "1/2 1/2"),  # P07: half the drafts of the first token must go
            _fractions("1 0", "0 1"),  # disjoint: everything is refused
            _fractions("1/2 1/2", "1 0"),  # a deterministic draft, q is one-hot
            _fractions("3/5 2/5 0", "1/5 3/10 1/2"),  # P02: the target forbids a token
            _fractions("1/2 3/10 1/5", "1 0 0"),  # P05: one-hot q, two tokens in excess
            _fractions("1/2 3/8 1/8", "1/4 1/4 1/2"),
            _fractions("1/2 1/2 0 0", "4/7 3/7 0 0"),  # P04: the draft was cut to its top 2
            _fractions("2/5 1/5 1/5 1/5", "1/5 0 2/5 2/5"),
            _fractions("1/2 1/2 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0"),  # P15: a long tail of zeros
            _fractions("1/2 1/2", "1/2 1/2"),
            _fractions("0 1 0", "0 1 0"),  # P01
            _fractions("1/5 3/10 1/2", "1/5 3/10 1/2"),  # P01
            Pair((0.6, 0.4, 0.0), (0.2, 0.3, 0.5)),
            Pair((0.1, 0.2, 0.7), (0.1, 0.2, 0.7)),
            Pair((0.2 + 1e-12, 0.3 + 2e-12, 0.5 - 3e-12), (0.2, 0.3, 0.5)),  # nearly equal, as at low temperature
        ]
    )


def hidden_cases(seed: int) -> list[Pair]:
    """Fresh random pairs of every kind; the same seed gives the same pairs."""
    rng = random.Random(seed)
    different = _until(rng, 16, lambda pair: not pair.equal)
    several = _until(rng, 8, lambda pair: exact_several(pair) and _no_draft_mass_somewhere(pair))
    laws = [_random_law(rng, size) for size in (2, 3, 4)]
    floats = [Pair(tuple(map(float, pair.p)), tuple(map(float, pair.q))) for pair in different[:4]]
    near = [_nudged(pair.q, rng) for pair in several[:2]]
    return smallest_first([*different, *several, *(Pair(law, law) for law in laws), *floats, *near])


def read_pair(*, p: list[Mass], q: list[Mass]) -> Pair:
    """A pair of an instructor's file. ValueError when these are no laws of one length."""
    laws = [[Fraction(mass) for mass in law] for law in (p, q)]
    if len(p) != len(q) or not 1 <= len(p) <= len(WORDS) or any(min(law) < 0 or sum(law) != 1 for law in laws):
        raise ValueError(f"p is {p} and q is {q}; expected two laws over the same 1 to {len(WORDS)} tokens")
    return Pair(tuple(laws[0]), tuple(laws[1]))


def _fractions(p: str, q: str) -> Pair:
    return Pair(tuple(map(Fraction, p.split())), tuple(map(Fraction, q.split())))


def _random_law(rng: random.Random, size: int) -> tuple[Fraction, ...]:
    weights = [rng.choice((0, 1, 2, 3, 5, 8)) for _ in range(size)]
    weights[rng.randrange(size)] += 1
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def _until(rng: random.Random, count: int, wanted: Callable[[Pair], bool]) -> list[Pair]:
    found: list[Pair] = []
    while len(found) < count:
        size = rng.randrange(2, 6)
        pair = Pair(_random_law(rng, size), _random_law(rng, size))
        if wanted(pair):
            found.append(pair)
    return found


def _no_draft_mass_somewhere(pair: Pair) -> bool:
    ratios = [p / q if q else None for p, q, over in zip(pair.p, pair.q, pair.excess, strict=True) if over]
    return None in ratios and any(left != right for left, right in pairwise(ratios))


def _nudged(q: tuple[Mass, ...], rng: random.Random) -> Pair:
    # Two tokens gain about 1e-12, the largest gives it up: p and q nearly equal, with two tokens in excess.
    base = [float(mass) for mass in (*q, 0.0, 0.0)][: max(len(q), 3)]
    largest = base.index(max(base))
    others = [index for index in range(len(base)) if index != largest][:2]
    p = list(base)
    for index in others:
        gain = rng.uniform(1e-12, 3e-12)
        p[index] += gain
        p[largest] -= gain
    return Pair(tuple(p), tuple(base))


def describe(pair: Pair, claim: str, **columns: Sequence[Number]) -> str:
    """A failing example: the claim, beta, and the table."""
    return f"{claim}\nbeta = {number_text(pair.beta)}\n{pair.table(**columns)}"
