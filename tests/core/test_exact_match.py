"""Match verification emits the target's own draws, whatever the drafts are: so any coupling is lossless.

A coupled drafter draws x with the very noise the target draws y with, which enumeration by answers cannot express.
It does not have to: for *every* text y the target may draw and *every* draft x, what is emitted is the beginning of y.
So whatever x is as a function of the noise, the emitted text is y, and y has the target's law.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
import math

import pytest
from scipy.integrate import quad

from specdec_core.acceptance_formulas import coupled_match_acceptance
from specdec_core.exact_instances import exact_instances
from specdec_core.laws import deterministic_draft, output_law, target_law
from specdec_core.random_laws import random_law
from specdec_core.rules import RULES

COUPLED = [name for name, rule in RULES.items() if "coupled" in rule.proposals]
CHAINS = exact_instances()["chain"]


class AnswersOf:
    """Coins whose draw for place `node` of the round is `text[node]`; any other question is one too many."""

    events: Sequence = ()

    def __init__(self, text: tuple[int, ...]) -> None:
        self.text = text

    def draw(self, weights, *, node: int, purpose: str) -> int:
        assert purpose == "sample" and weights[self.text[node]] > 0
        return self.text[node]

    def accept(self, p, q, *, node: int) -> bool:
        raise AssertionError("a coin that is not a draw of the target's own")


def test_match_is_the_rule_that_takes_coupled_drafts():
    assert COUPLED == ["match"]


@pytest.mark.parametrize("name", COUPLED)
def test_every_draft_leaves_the_targets_own_text(name):
    checked = 0
    for instance in CHAINS[::3]:
        gamma, vocab = len(instance.parents), instance.vocab
        for text, draft in product(target_law(instance.target, (), gamma + 1), product(range(vocab), repeat=gamma)):
            laws = [instance.target(draft[:place]) for place in range(gamma + 1)]
            agreed = agreeing(text, draft)
            verdict = RULES[name].verify(draft, None, laws, AnswersOf(agreed))
            assert (*draft[: verdict.num_accepted], verdict.next_token) == agreed
            checked += 1
    assert checked > 10_000


def agreeing(text: tuple[int, ...], draft: tuple[int, ...]) -> tuple[int, ...]:
    """`text`, cut behind its first token that is not `draft`'s: the rows behind it belong to another text."""
    kept = next((place for place, token in enumerate(draft) if token != text[place]), len(draft))
    return text[: kept + 1]


@pytest.mark.parametrize("gamma", [1, 2])
def test_every_constant_draft_has_the_targets_law(gamma):
    target = random_law("coupled", 3)
    for guess in product(range(3), repeat=gamma):
        draft = deterministic_draft(lambda prefix, guess=guess: guess[len(prefix) % len(guess)], gamma)
        assert output_law(RULES["match"].verify, target, draft, (), gamma + 3) == target_law(target, (), gamma + 3)


@pytest.mark.parametrize("case", range(10))
def test_the_coupled_acceptance_is_the_integral_over_the_race(case):
    """Both races name i when E_j > E_i max(p_j / p_i, q_j / q_i) for all other j: integrate over E_i."""
    p, q = (random_law(f"{name} race {case}", 4)(()) for name in "pq")

    def both_name(i: int) -> float:
        rates = [float(max(p[j] / p[i], q[j] / q[i])) for j in range(4) if j != i]
        return quad(lambda t: math.exp(-t * (1 + sum(rates))), 0, float("inf"))[0]

    expected = sum(both_name(i) for i in range(4) if p[i] and q[i])
    exact = coupled_match_acceptance(p, q)
    assert isinstance(exact, Fraction | int)
    assert float(exact) == pytest.approx(expected, abs=1e-9)
