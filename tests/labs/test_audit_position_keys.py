"""Noise keyed by position: harmless to chain verification, a bias under block verification, and which noise it is."""

from fractions import Fraction
import itertools

import numpy as np
import pytest
from scipy import stats

from specdec_core.laws import target_law
from specdec_core.rules import verify_block, verify_chain
from specdec_labs.audit.ablation import ablation
from specdec_labs.audit.keyed_law import keyed_law
from specdec_labs.audit.position_keys import Simulation, simulate
from specdec_labs.audit.tables import Tables, coin_example, memory_example, paper_example, random_tables

HORIZON = 5


def total_variation(law, other):
    return sum((abs(law.get(text, 0) - other.get(text, 0)) for text in {*law, *other}), Fraction(0)) / 2


def p_value(texts, law, vocab):
    """Chi-square of all texts of the horizon; every cell of these laws expects some."""
    numbers = texts @ vocab ** np.arange(HORIZON - 1, -1, -1)
    counts = np.bincount(numbers, minlength=vocab**HORIZON)
    expected = [float(law[text]) * len(texts) for text in itertools.product(range(vocab), repeat=HORIZON)]
    return stats.chisquare(counts, expected).pvalue


def share_of_zero(law, place):
    return sum(weight for text, weight in law.items() if text[place] == 0)


def test_the_worked_example_with_sampled_drafts():
    pair = paper_example()
    law = keyed_law(pair, verify_block, 2, HORIZON, ("draft",))
    assert (share_of_zero(law, 0), share_of_zero(law, 1)) == (Fraction(1, 3), Fraction(7, 18))
    assert total_variation(law, target_law(pair.target_after, (), HORIZON)) == Fraction(1, 12)


def test_the_worked_example_with_greedy_drafts():
    pair = coin_example().greedy()
    law = keyed_law(pair, verify_block, 2, HORIZON, ("accept",))
    assert (share_of_zero(law, 0), share_of_zero(law, 1)) == (Fraction(1, 2), Fraction(5, 12))
    assert total_variation(law, target_law(pair.target_after, (), HORIZON)) == Fraction(19, 108)


PAIRS = [paper_example(), coin_example(), coin_example().greedy(), random_tables(5, vocab=2, order=1).greedy()]
KINDS = [(), ("draft",), ("accept",), ("draft", "accept")]


@pytest.mark.parametrize("keyed", KINDS, ids="-".join)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.name}-{'greedy' * pair.has_deterministic_draft}")
def test_keyed_noise_leaves_chain_verification_and_single_drafts_exact(pair, keyed):
    law = target_law(pair.target_after, (), 4)
    assert keyed_law(pair, verify_chain, 2, 4, keyed) == law
    assert keyed_law(pair, verify_block, 1, 4, keyed) == law


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.name}-{'greedy' * pair.has_deterministic_draft}")
def test_block_verification_is_exact_with_fresh_noise_and_not_with_keyed(pair):
    law = target_law(pair.target_after, (), 4)
    assert keyed_law(pair, verify_block, 2, 4, ()) == law
    assert keyed_law(pair, verify_block, 2, 4) != law


@pytest.mark.parametrize("rule", ["chain", "block"])
@pytest.mark.parametrize("pair", [paper_example(), memory_example()], ids=lambda pair: pair.name)
def test_the_simulation_with_fresh_noise_has_the_targets_law(rule, pair):
    texts = simulate(Simulation(pair, rule, 2, HORIZON), 60_000, seed=4)
    assert p_value(texts, target_law(pair.target_after, (), HORIZON), pair.vocab) > 1e-4


@pytest.mark.parametrize("pair", [paper_example(), coin_example(), coin_example().greedy()], ids=["p", "c", "g"])
@pytest.mark.parametrize("keyed", KINDS[1:], ids="-".join)
def test_the_simulation_with_keyed_noise_has_the_law_that_is_computed_exactly(pair, keyed):
    texts = simulate(Simulation(pair, "block", 2, HORIZON, keyed), 60_000, seed=2)
    assert p_value(texts, keyed_law(pair, verify_block, 2, HORIZON, keyed), 2) > 1e-4


@pytest.mark.slow
def test_the_ablation_finds_what_is_biased():
    rows = ablation(30_000, 3)
    assert len(rows) == 24
    exact = {(row.pair, row.rule, row.keyed): row.exact_tv for row in rows if row.exact_tv is not None}
    assert {tv for (_, rule, keyed), tv in exact.items() if rule == "chain" or not keyed} == {0}
    assert exact["paper", "block", ("draft",)] == Fraction(1, 12)
    assert exact["coin, greedy", "block", ("accept",)] == Fraction(19, 108)
    biased = {(row.pair, row.keyed) for row in rows if row.rule == "block" and row.tv > 2 * row.noise_tv}
    assert biased == {
        ("paper", ("draft",)),
        ("paper", ("draft", "accept")),
        ("memory", ("draft",)),
        ("memory", ("draft", "accept")),
        ("coin, greedy", ("accept",)),
        ("memory, greedy", ("accept",)),
    }
    assert all(row.tv < 1.5 * row.noise_tv for row in rows if row.rule == "chain" or not row.keyed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "greedy"}, "rule is 'greedy'; expected block or chain"),
        ({"keyed": ("recover",)}, "keyed has .*recover.*; expected some of draft, accept"),
    ],
)
def test_settings_that_are_none(arguments, message):
    with pytest.raises(ValueError, match=message):
        Simulation(**{"tables": paper_example(), "rule": "block", "drafted": 2, "horizon": 5, **arguments})


def test_exact_laws_are_refused_for_models_with_memory():
    with pytest.raises(ValueError, match="look at 2 tokens; keyed drafts are followed exactly without memory"):
        keyed_law(memory_example(), verify_block, 2, 3)


def test_tables_are_checked():
    half = (Fraction(1, 2), Fraction(1, 2))
    with pytest.raises(ValueError, match="target has 1 rows; expected one per context, 2"):
        Tables("short", 2, 1, (0,), (half,), (half, half))
    with pytest.raises(ValueError, match="draft has a row that is not 2 probabilities with sum 1"):
        Tables("odd", 2, 0, (), (half,), ((Fraction(1, 2), Fraction(1, 3)),))
    with pytest.raises(ValueError, match="start has 0 tokens; expected as many as order, 1"):
        Tables("headless", 2, 1, (), (half, half), (half, half))
