"""The lossy rules are not the target's law, and by exactly how much: total variation, as Fractions."""

from fractions import Fraction

import pytest

from specdec_core.exact_instances import exact_instances
from specdec_core.laws import deterministic_draft, output_law, sampled_draft, target_law
from specdec_core.random_laws import random_law
from specdec_core.rules import RULES

F = Fraction
P, Q = [F(1, 2), F(3, 10), F(1, 5)], [F(1, 5), F(3, 10), F(1, 2)]


def distance(name: str, target, draft, prefix=(), horizon: int = 2) -> Fraction:
    """Total variation between the law of `horizon` tokens under the rule and under plain decoding."""
    found = output_law(RULES[name].verify, target, draft, prefix, horizon)
    expected = target_law(target, prefix, horizon)
    assert sum(found.values()) == 1
    return sum((abs(found.get(text, F(0)) - expected.get(text, F(0))) for text in found | expected), F(0)) / 2


def test_typical_acceptance_writes_the_drafts_own_law():
    """All three tokens are typical (each above .09 exp(-H) = .032), so every draft stays: TV(p, q) = .3."""
    draft = sampled_draft(lambda prefix: Q, 1)
    assert distance("typical", lambda prefix: P, draft) == sum(abs(a - b) for a, b in zip(P, Q)) / 2 == F(3, 10)


def test_relaxed_acceptance_at_one_half():
    """Kept: all of tokens 0 and 1, and min(1, .2 / .25) = .8 of token 2; the refused .1 becomes token 0.

    So the first token has the law (.3, .3, .4) instead of (.5, .3, .2).
    """
    draft = sampled_draft(lambda prefix: Q, 1)
    law = output_law(RULES["relaxed"].verify, lambda prefix: P, draft, (), 2)
    first = [sum(weight for text, weight in law.items() if text[0] == token) for token in range(3)]
    assert first == [F(3, 10), F(3, 10), F(2, 5)]
    assert distance("relaxed", lambda prefix: P, draft) == F(1, 5)


def test_a_deterministic_draft_of_a_typical_token_is_always_believed():
    """The draft says 2, the target gives it .2: 1 - .2 is lost under typical; relaxed keeps it with .4: .2 is lost."""
    draft = deterministic_draft(lambda prefix: 2, 1)
    assert distance("typical", lambda prefix: P, draft) == F(4, 5)
    assert distance("relaxed", lambda prefix: P, draft) == F(1, 5)


# (rule, case) -> distance over gamma + 2 tokens with memory, gamma = 2
PINNED: dict[tuple[str, int], Fraction] = {
    ("typical", 0): F(73, 216),
    ("typical", 1): F(2231, 9009),
    ("typical", 2): F(4787, 12870),
    ("relaxed", 0): F(297, 1400),
    ("relaxed", 1): F(193, 819),
    ("relaxed", 2): F(175793, 720720),
}


@pytest.mark.parametrize(("name", "case"), PINNED)
def test_worked_examples_with_memory(name, case):
    target = random_law(f"lossy p {case}", 3, zeros=False)
    draft = sampled_draft(random_law(f"lossy q {case}", 3, zeros=False), 2)
    assert distance(name, target, draft, (0,), 4) == PINNED[name, case] > 0


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if not rule.lossless])
def test_the_loss_on_the_instances_of_the_proofs(name):
    """Never more than everything, sometimes nothing (p = q), mostly something."""
    rule = RULES[name]
    chains = [i for i in exact_instances()["chain"] if i.vocab < 4 and len(i.parents) < 3]
    lost = [distance(name, i.target, i.drafter(rule), i.prefix, i.horizon) for i in chains]
    assert max(lost) <= 1
    assert sum(value > 0 for value in lost) > len(lost) / 2
    same = [i for i in exact_instances()["p = q"] if i.proposal == "chain"]
    if rule.needs_draft_probs:
        assert all(distance(name, i.target, i.drafter(rule), i.prefix, i.horizon) == 0 for i in same)


def test_relaxed_at_threshold_one_is_exact():
    target, draft = random_law("threshold p", 3), sampled_draft(random_law("threshold q", 3), 2)

    def exact(tokens, q, p, coins):
        return RULES["relaxed"].verify(tokens, q, p, coins, threshold=F(1))

    assert output_law(exact, target, draft, (), 5) == target_law(target, (), 5)
