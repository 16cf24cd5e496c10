"""Which keyed noise does the harm: every rule with every kind of noise keyed by position or fresh."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
import itertools
from typing import Any

import numpy as np

from specdec_core.laws import target_law
from specdec_core.rules import verify_block, verify_chain
from specdec_labs.audit.keyed_law import KEYED, keyed_law
from specdec_labs.audit.position_keys import Simulation, simulate
from specdec_labs.audit.tables import Tables, coin_example, memory_example, paper_example

HORIZON = 5
DRAFTED = 2
RULES = {"chain": verify_chain, "block": verify_block}


@dataclass(frozen=True, slots=True)
class Distance:
    """How far the texts are from the target's law.

    Attributes:
        keyed: kinds of noise keyed by position; all other noise is fresh in every round.
        tv: total variation distance over all texts of `HORIZON` tokens, as sampled.
        noise_tv: what a perfect sampler shows on average with as many samples, sum of sqrt(p (1 - p) / (2 pi n)).
        exact_tv: the distance itself, where the models have no memory.
        second_token_zero: share of texts whose second token is 0.
    """

    pair: str
    rule: str
    keyed: tuple[str, ...]
    tv: float
    noise_tv: float
    exact_tv: Fraction | None
    second_token_zero: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "exact_tv": None if self.exact_tv is None else str(self.exact_tv)}


def ablation(samples: int, seed: int, pairs: Sequence[Tables] | None = None) -> list[Distance]:
    """Both rules under nothing, either and both kinds of keyed noise, with drafts that are sampled and greedy ones.

    Greedy drafts have no noise to key.
    """
    settings = [keyed for count in range(len(KEYED) + 1) for keyed in itertools.combinations(KEYED, count)]
    return [
        distance(Simulation(pair, rule, DRAFTED, HORIZON, keyed), samples, seed)
        for pair in (pairs or (paper_example(), memory_example(), coin_example().greedy(), memory_example().greedy()))
        for rule in RULES
        for keyed in settings
        if not (pair.has_deterministic_draft and "draft" in keyed)
    ]


def distance(how: Simulation, samples: int, seed: int) -> Distance:
    """The distance of one setting."""
    texts = simulate(how, samples, seed)
    vocab, law = how.tables.vocab, target_law(how.tables.target_after, (), how.horizon)
    numbers = texts @ vocab ** np.arange(how.horizon - 1, -1, -1)
    shares = np.bincount(numbers, minlength=vocab**how.horizon) / samples
    p = np.array([float(law.get(text, 0)) for text in itertools.product(range(vocab), repeat=how.horizon)])
    exact = None
    if how.tables.order == 0:
        keyed = keyed_law(how.tables, RULES[how.rule], how.drafted, how.horizon, how.keyed)
        exact = sum((abs(keyed.get(text, Fraction(0)) - chance) for text, chance in law.items()), Fraction(0)) / 2
    return Distance(
        pair=how.tables.name + (", greedy" if how.tables.has_deterministic_draft else ""),
        rule=how.rule,
        keyed=tuple(how.keyed),
        tv=float(abs(shares - p).sum() / 2),
        noise_tv=float(np.sqrt(p * (1 - p) / (2 * np.pi * samples)).sum()),
        exact_tv=exact,
        second_token_zero=float((texts[:, 1] == 0).mean()),
    )
