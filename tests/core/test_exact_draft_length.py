"""How many drafts are verified may depend on what is known before each of them, and on nothing behind it.

DSpark's appendix A: p = (.7, .3), q = (.5, .5). A search over the whole throughput curve sees, through the survival
of the second draft, what the first draft is, verifies only when that looks good, and emits (.85, .15).
"""

from collections.abc import Callable
from fractions import Fraction

import pytest

from specdec_core.exact_drafts import sampled_draft
from specdec_core.laws import output_law, target_law
from specdec_core.prefix_scheduler import prefix_lengths
from specdec_core.random_laws import random_law
from specdec_core.residual import acceptance
from specdec_core.rules import RULES

F = Fraction
P, Q = [F(7, 10), F(3, 10)], [F(1, 2), F(1, 2)]
SAMPLING = [name for name, rule in RULES.items() if rule.lossless and not rule.greedy_only and not rule.takes_tree]


def target(prefix):
    return P


def second_chance(first: int) -> Fraction:
    """An estimate for the second draft, made after seeing the first: sure behind token 0, hopeless behind token 1."""
    return F(1) if first == 0 else F(0)


def retrospective(conditional, steps_per_second) -> tuple[int, ...]:
    """The length of largest throughput of all: the wrong search (one request)."""
    tokens, survival, rates = F(1), F(1), [F(1) * steps_per_second(1)]
    for admitted, chance in enumerate(conditional[0], start=1):
        survival *= chance
        tokens += survival
        rates.append(tokens * steps_per_second(1 + admitted))
    return (rates.index(max(rates)),)


def scheduled_draft(lengths: Callable, steps_per_second: Callable, draft=lambda prefix: Q, chance=None):
    """Two drafts are drawn, then `lengths` decides how many are verified."""
    whole = sampled_draft(draft, 2)

    def propose(prefix, budget, coins):
        tokens, laws = whole(prefix, budget, coins)
        chances = [acceptance(P, Q), second_chance(tokens[0])][:budget] if tokens else []
        if chance is not None:
            chances = [chance(prefix + tokens[:place]) for place in range(len(tokens))]
        kept = lengths([chances], steps_per_second)[0]
        return tokens[:kept], laws[:kept]

    return propose


def first_token(law) -> list[Fraction]:
    return [sum(weight for text, weight in law.items() if text[0] == token) for token in range(2)]


# one draft does not pay (1.8 tokens in 2 s), two do when both are sure to be kept (2.6 in 2.2 s)
SECONDS = {1: F(1), 2: F(2), 3: F(22, 10)}


def steps_per_second(rows: int) -> Fraction:
    return 1 / SECONDS[rows]


@pytest.mark.parametrize("name", ["chain", "block"])
def test_looking_back_from_the_best_length_emits_85_percent(name):
    draft = scheduled_draft(retrospective, steps_per_second)
    law = output_law(RULES[name].verify, target, draft, (), 3)
    assert first_token(law) == [F(17, 20), F(3, 20)]
    assert first_token(target_law(target, (), 3)) == P


def test_the_mechanism_token_by_token():
    """Token 0 (half the time) is verified and kept; token 1 is dropped, and the target draws anew: .5 + .5 * .7."""
    assert F(1, 2) * 1 + F(1, 2) * F(7, 10) == F(17, 20)
    assert retrospective([[F(4, 5), F(1)]], steps_per_second) == (2,)
    assert retrospective([[F(4, 5), F(0)]], steps_per_second) == (0,)
    assert prefix_lengths([[F(4, 5), F(1)]], steps_per_second) == (0,)


def a_first_draft_pays(rows: int) -> Fraction:
    return 1 / {1: F(1), 2: F(11, 10), 3: F(14, 10)}[rows]


@pytest.mark.parametrize("name", SAMPLING)
@pytest.mark.parametrize("curve", [steps_per_second, a_first_draft_pays])
def test_stopping_at_the_first_loss_is_exact(name, curve):
    """The same estimates and the same curve, or one on which a first draft pays: the lengths vary, the law does not."""
    draft = scheduled_draft(prefix_lengths, curve)
    assert output_law(RULES[name].verify, target, draft, (), 4) == target_law(target, (), 4)


def test_the_scheduler_really_varies_the_length():
    kept = [prefix_lengths([[F(4, 5), second_chance(first)]], a_first_draft_pays) for first in (0, 1)]
    assert kept == [(2,), (1,)]


@pytest.mark.parametrize("name", SAMPLING)
@pytest.mark.parametrize("case", range(8))
def test_estimates_from_earlier_tokens_are_exact_with_memory(name, case):
    """Models with memory; the estimate for a draft is any function of the text before it."""
    goal, draft_law = random_law(f"scheduled p {case}", 3), random_law(f"scheduled q {case}", 3)

    def chance(text):
        return acceptance(goal(text), draft_law(text))

    draft = scheduled_draft(prefix_lengths, lambda rows: F(2, 3 + rows), draft_law, chance)
    assert output_law(RULES[name].verify, goal, draft, (1,), 5) == target_law(goal, (1,), 5)


def test_equality_match_is_immune_to_looking_back():
    """Only the target's own draws are emitted, whichever drafts they are compared with."""
    draft = scheduled_draft(retrospective, steps_per_second)
    assert output_law(RULES["match"].verify, target, draft, (), 4) == target_law(target, (), 4)
