"""Closed forms against the published figures, and against the rules themselves by enumeration."""

from fractions import Fraction
import math
import random

import pytest
import torch

from specdec_core.acceptance_formulas import (
    coupled_match_acceptance,
    hits_iid,
    hits_without_replacement,
    kseq_acceptance,
    match_acceptance,
    optimal_multidraft_acceptance,
    recursive_acceptance,
    set_acceptance,
)
from specdec_core.coins import branches
from specdec_core.exact_drafts import deterministic_tree, tree_draft
from specdec_core.goodness import fit
from specdec_core.laws import acceptance, mean_length, round_law
from specdec_core.roofline import hbm_bytes_per_token, hbm_savings
from specdec_core.rules import RULES
from specdec_core.rules.kseq import smallest_rho
from specdec_core.rules.lossy import entropy
from specdec_core.rules.tree import verify_tree
from specdec_core.sequoia import sequoia_size
from specdec_core.speed_formulas import (
    best_gamma,
    expected_accepted,
    expected_tokens,
    expected_tokens_of_chain,
    expected_tokens_of_tree,
    implied_alpha,
    speedup,
)
from specdec_core.step_costs import StepCosts, formula_costs


def random_law(generator: random.Random, vocab: int, *, zeros: bool = True) -> tuple[Fraction, ...]:
    weights = [generator.randint(0 if zeros else 1, 6) for _ in range(vocab)]
    weights = weights if any(weights) else [1] * vocab
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def kept_at_depth_one(rule, p, propose) -> Fraction:
    """The chance that a rule passes one level, by enumeration."""

    def run(coins):
        tree, laws = propose((), 1, coins)
        return rule(tree, laws, [p] * (len(tree) + 1), coins).num_accepted

    return sum((weight * kept for weight, kept in branches(run)), Fraction(0))


def test_tokens_and_speedup_of_the_literature():
    assert expected_tokens(0.8, 5) == pytest.approx(3.689, abs=5e-4)
    assert speedup(0.8, 5, 0.05) == pytest.approx(2.951, abs=5e-4)
    assert [round(expected_accepted(0.7, k), 4) for k in (4, 8, 16)] == [1.7731, 2.1988, 2.3256]
    assert best_gamma(0.9, 1 / 20) == 13
    assert [round(speedup(0.9, k, 1 / 20), 4) for k in (12, 13, 14)] == [4.6613, 4.6741, 4.6712]


def test_p61_the_rate_falls_when_gamma_rises():
    assert [expected_accepted(Fraction(4, 5), k) for k in (1, 4)] == [Fraction(4, 5), Fraction(23616, 10000)]
    assert expected_accepted(0.8, 8) == pytest.approx(3.328911, abs=1e-6)
    assert expected_accepted(0.6, 4) == pytest.approx(1.3056)


def test_p62_slower_than_plain():
    assert speedup(0.6, 4, 0.3) == pytest.approx(1.048, abs=5e-4)
    assert speedup(0.6, 4, 0.3, 1.5) == pytest.approx(0.8539, abs=5e-5)
    assert best_gamma(0.6, 0.3) == 1
    assert speedup(0.6, 1, 0.3) == pytest.approx(1.2308, abs=5e-5)
    assert best_gamma(0.6, 0.3, 1.5, largest=8) == 0


def test_a_chain_with_equal_chances_is_the_geometric_case():
    assert expected_tokens_of_chain([Fraction(2, 3)] * 4) == expected_tokens(Fraction(2, 3), 4)
    assert expected_tokens(1, 4) == 5
    assert expected_tokens(0, 4) == 1


@pytest.mark.parametrize(("alpha", "gamma"), [(-0.1, 1), (1.1, 1), (math.nan, 1), (0.5, -1)])
def test_impossible_arguments(alpha, gamma):
    with pytest.raises(ValueError, match="expected"):
        expected_tokens(alpha, gamma)


@pytest.mark.parametrize("case", range(12))
def test_acceptance_of_every_rule_is_what_enumeration_counts(case):
    generator = random.Random(case)
    p, q = random_law(generator, 3), random_law(generator, 3)
    iid = tree_draft(lambda prefix: q, (-1, -1), "iid")
    apart = tree_draft(lambda prefix: q, (-1, -1), "without_replacement")
    by = {
        method: (lambda tree, laws, target, coins, m=method: verify_tree(tree, laws, target, coins, method=m))
        for method in ("recursive", "recursive_without_replacement", "kseq", "target_only")
    }
    recursive = kept_at_depth_one(by["recursive"], p, iid)
    assert recursive == recursive_acceptance(p, q, 2, replace=True)
    without = kept_at_depth_one(by["recursive_without_replacement"], p, apart)
    assert without == recursive_acceptance(p, q, 2, replace=False)
    kseq = kept_at_depth_one(by["kseq"], p, iid)
    assert kseq == kseq_acceptance(p, q, 2, smallest_rho(p, q, 2))
    fixed = deterministic_tree(lambda text: (0, 2), (-1, -1))
    assert kept_at_depth_one(by["recursive"], p, fixed) == set_acceptance(p, (0, 2))
    best_iid = optimal_multidraft_acceptance(p, hits_iid(q, 2))
    best_apart = optimal_multidraft_acceptance(p, hits_without_replacement(q, 2))
    assert recursive <= best_iid and kseq <= best_iid
    assert without <= best_apart
    assert kept_at_depth_one(by["target_only"], p, iid) <= best_iid
    assert optimal_multidraft_acceptance(p, hits_iid(q, 1)) == acceptance(p, q)


def test_coupling_lies_between_its_bounds_and_above_independence():
    generator = random.Random(3)
    for _ in range(50):
        p, q = random_law(generator, 4, zeros=False), random_law(generator, 4, zeros=False)
        kept = acceptance(p, q)
        distance = 1 - kept
        coupled = coupled_match_acceptance(p, q)
        assert (1 - distance) / (1 + distance) <= coupled <= 1 - distance
        assert match_acceptance(p, q) <= coupled


def test_a_tree_emits_one_token_and_every_path_by_its_chances():
    """Two children with 1/2 and 1/4, and a child of the first with 1/3: 1 + 1/2 + 1/4 + 1/6."""
    chances = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 3)]
    assert expected_tokens_of_tree((-1, -1, 0), chances) == Fraction(23, 12)
    assert expected_tokens_of_tree((), []) == 1
    chain = [Fraction(2, 3), Fraction(1, 2), Fraction(3, 4)]
    assert expected_tokens_of_tree((-1, 0, 1), chain) == expected_tokens_of_chain(chain)


@pytest.mark.parametrize("case", range(8))
def test_a_tree_with_the_chances_of_a_rule_emits_what_enumeration_counts(case):
    """Laws that depend on the position alone, so that the chance of a child depends on nothing but where it stands."""
    generator = random.Random(200 + case)
    p, q = ([random_law(generator, 3) for _ in range(3)] for _ in range(2))
    parents = (-1, -1, 0, 0, 1, 1)
    verify = RULES["recursive"].verify
    law = round_law(verify, lambda text: p[len(text)], tree_draft(lambda text: q[len(text)], parents, "iid"), (), 3)
    chances = [Fraction(0)] * 6
    for level in (0, 1):
        first = recursive_acceptance(p[level], q[level], 1, replace=True)
        second = recursive_acceptance(p[level], q[level], 2, replace=True) - first
        for node in ((0, 1), (2, 3, 4, 5))[level]:
            chances[node] = (first, second)[node % 2]
    assert mean_length(law) == expected_tokens_of_tree(parents, chances)


@pytest.mark.parametrize(
    ("parents", "chances", "message"),
    [
        ((-1, 0), [0.5], "chances has 1 entries for 2 nodes"),
        ((-1, 1), [0.5, 0.5], r"parents\[1\] is 1"),
        ((-1,), [1.5], "alpha is 1.5"),
    ],
)
def test_a_tree_that_is_none_is_refused(parents, chances, message):
    with pytest.raises(ValueError, match=message):
        expected_tokens_of_tree(parents, chances)


NAN = math.nan


@pytest.mark.parametrize(
    "call",
    [
        lambda: speedup(0.8, 4, NAN),
        lambda: speedup(0.8, 4, 0.1, NAN),
        lambda: speedup(NAN, 4, 0.1),
        lambda: best_gamma(0.8, NAN),
        lambda: best_gamma(NAN, 0.1),
        lambda: best_gamma(0.8, NAN, largest=0),
        lambda: implied_alpha(NAN, 3),
        lambda: sequoia_size([0.5], nodes=3, depth=3, draft_seconds=NAN, verify_seconds=lambda size: 1.0),
        lambda: sequoia_size(
            [0.5], nodes=6, depth=2, draft_seconds=0.1, verify_seconds=lambda m: NAN if m == 2 else 1.0
        ),
        lambda: StepCosts((0.0, NAN), (1.0, 1.0), (0.0, 0.0), "x"),
        lambda: StepCosts((0.0, 1.0), (1.0, NAN), (0.0, 0.0), "x"),
        lambda: formula_costs(NAN),
        lambda: hbm_bytes_per_token(NAN, 2),
        lambda: hbm_bytes_per_token(1, NAN),
        lambda: hbm_savings(NAN, 1),
        lambda: hbm_savings(1, NAN),
        lambda: fit([90, 5, 5], [NAN, 0.05, 0.05], 1e-3),
        lambda: fit([90, NAN, 5], [0.9, 0.05, 0.05], 1e-3),
        lambda: fit([90, 5, 5], [0.9, 0.05, 0.05], NAN),
        lambda: entropy(torch.tensor([0.5, NAN])),
        lambda: speedup(torch.tensor([0.5, 0.6]), 4, 0.1),
        lambda: speedup(0.5, 4, torch.tensor([0.5, 0.6])),
    ],
)
def test_what_is_no_number_passes_no_guard(call) -> None:
    with pytest.raises(ValueError, match="is (nan|tensor|NaN)|alpha is"):
        call()
