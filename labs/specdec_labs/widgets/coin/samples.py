"""The exact law of the first token a round emits, and samples of it by the same code with production noise."""

from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import Any

from specdec_core.goodness import fit
from specdec_core.laws import output_law
from specdec_labs.museum.bulk_noise import BulkCoins
from specdec_labs.museum.decoding import Laws, fixed_law, play_round
from specdec_labs.widgets.coin.bugs import BUGS

Masses = tuple[Fraction, ...]
CHUNK = 100
MAX_ROUNDS = 4000
SEED = 0
LEAST_EXPECTED = 5
"""Chi-square needs about this many expected counts in a cell."""


@lru_cache(maxsize=256)
def first_token_law(p: Masses, q: Masses, bug: str) -> Masses:
    """The law of the next token when a round drafts one: enumerated, in fractions."""
    laws = Laws(fixed_law(*p), fixed_law(*q))
    method = BUGS[bug].make(laws)
    law = [Fraction(0)] * len(p)
    # two tokens are wanted, since a round drafts one fewer than that
    for tokens, weight in output_law(method.rule, laws.target, method.draft, (), 2).items():
        law[tokens[0]] += weight
    return tuple(law)


def sampled(p: Masses, q: Masses, bug: str, rounds: int) -> dict[str, Any]:
    """Counts of the first `rounds` rounds, and how the test against p went after every hundred.

    `history` has [n, TV of the frequencies from p, p-value or None] each; None where a cell expects fewer than 5.
    The noise is the engine's, seed 0, one request a round: more rounds go on where fewer stopped.
    """
    counts: Counter[int] = Counter()
    history: list[list[float | None]] = []
    for first in range(0, rounds, CHUNK):
        counts.update(_chunk(p, q, bug, first, min(CHUNK, rounds - first)))
        history.append([sum(counts.values()), *_against(p, counts)])
    tv, p_value = history[-1][1:] if history else (None, None)
    return {
        "n": rounds,
        "counts": [counts[token] for token in range(len(p))],
        "tv": tv,
        "p_value": p_value,
        "history": history,
    }


@lru_cache(maxsize=512)
def _chunk(p: Masses, q: Masses, bug: str, first: int, count: int) -> tuple[int, ...]:
    laws = Laws(fixed_law(*p), fixed_law(*q)).as_floats()
    method = BUGS[bug].make(laws)
    source = BulkCoins(SEED, first, count)
    return tuple(
        play_round(method, laws.target, (), 2, source.at(request=request, length=1))[0]
        for request in range(first, first + count)
    )


def _against(p: Masses, counts: Counter[int]) -> tuple[float, float | None]:
    n = sum(counts.values())
    masses = [float(mass) for mass in p]
    frequencies = [counts[token] / n for token in range(len(p))]
    tv = sum(abs(found - mass) for found, mass in zip(frequencies, masses)) / 2
    if any(counts[token] for token, mass in enumerate(p) if mass == 0):
        return tv, 0.0
    if sum(mass > 0 for mass in p) < 2:
        return tv, 1.0
    if min(n * mass for mass in masses if mass > 0) < LEAST_EXPECTED:
        return tv, None
    return tv, fit([counts[token] for token in range(len(p))], masses, 1e-3).p_value
