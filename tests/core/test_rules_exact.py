"""Every lossless rule has exactly the target's law: random rational instances, compared with `==`."""

from collections.abc import Callable
from functools import partial

import pytest
import torch

from specdec_core.acceptance_formulas import coupled_match_acceptance, match_acceptance
from specdec_core.coins import EnumeratingCoins, ScriptedCoins
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.laws import deterministic_draft, deterministic_tree, output_law, sampled_draft, target_law, tree_draft
from specdec_core.rules import RULES
from specdec_core.rules.block import verify_block
from specdec_core.rules.lossy import verify_relaxed, verify_typical
from specdec_core.rules.match import verify_match
from specdec_core.rules.tree import verify_tree
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams

CHAIN_RULES = {"block": verify_block, "match": verify_match}
LOSSY_RULES = {"typical": verify_typical, "relaxed": verify_relaxed}
SHAPES = [(-1, -1), (-1, -1, -1), (-1, 0, 1), (-1, -1, 0, 0), (-1, -1, 0, 1), (-1, 0, 0, 1), (-1, -1, 0, 0, 1)]
TREE_RULES: dict[str, tuple[Callable, str]] = {
    "recursive": (partial(verify_tree, method="recursive"), "iid"),
    "recursive without replacement": (
        partial(verify_tree, method="recursive_without_replacement"),
        "without_replacement",
    ),
    "target only, iid": (partial(verify_tree, method="target_only"), "iid"),
    "target only, without replacement": (partial(verify_tree, method="target_only"), "without_replacement"),
    "traversal, iid": (partial(verify_tree, method="traversal"), "iid"),
    "traversal, without replacement": (
        partial(verify_tree, method="traversal_without_replacement"),
        "without_replacement",
    ),
}


@pytest.mark.parametrize("rule", CHAIN_RULES)
@pytest.mark.parametrize("case", range(40))
def test_chain_rules(random_law, rule, case):
    vocab, gamma = 2 + case % 3, 1 + case // 3 % 3
    target, draft = random_law(f"p {case}", vocab), random_law(f"q {case}", vocab)
    horizon = gamma + 2 if vocab < 4 else gamma + 1
    found = output_law(CHAIN_RULES[rule], target, sampled_draft(draft, gamma), (0,), horizon)
    assert found == target_law(target, (0,), horizon)


@pytest.mark.parametrize("rule", CHAIN_RULES)
def test_chain_rules_on_deterministic_drafts(random_law, rule):
    for case in range(10):
        target = random_law(f"one-hot {case}", 3)
        draft = deterministic_draft(lambda prefix: (sum(prefix) + len(prefix)) % 3, 2)
        assert output_law(CHAIN_RULES[rule], target, draft, (1,), 4) == target_law(target, (1,), 4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rule", TREE_RULES)
def test_tree_rules(random_law, rule, shape):
    verify, proposal = TREE_RULES[rule]
    for case in range(3):
        target, draft = random_law(f"tree p {case} {shape}", 3), random_law(f"tree q {case} {shape}", 3)
        found = output_law(verify, target, tree_draft(draft, shape, proposal), (0,), 3)
        assert found == target_law(target, (0,), 3)


@pytest.mark.parametrize("method", ["recursive", "target_only", "traversal"])
def test_tree_rules_on_deterministic_children(random_law, method):
    """Duplicate siblings included: the second of two equal children can never be accepted."""
    for case, children in enumerate(([0, 1], [2, 0], [1, 1])):
        target = random_law(f"children {case}", 3)
        draft = deterministic_tree(lambda text, c=children: [(token + len(text)) % 3 for token in c], (-1, -1, 0, 1))
        found = output_law(partial(verify_tree, method=method), target, draft, (0,), 4)
        assert found == target_law(target, (0,), 4)


@pytest.mark.parametrize("siblings", [1, 2, 3])
def test_kseq_has_the_law_of_the_target(random_law, siblings):
    for case in range(6):
        target, draft = random_law(f"kseq p {case}", 3), random_law(f"kseq q {case}", 3)
        rule = partial(verify_tree, method="kseq")
        found = output_law(rule, target, tree_draft(draft, (-1,) * siblings, "iid"), (0,), 3)
        assert found == target_law(target, (0,), 3)


@pytest.mark.parametrize("rule", LOSSY_RULES)
def test_lossy_rules_are_lossy(random_law, rule):
    target, draft = random_law("lossy p", 3, zeros=False), random_law("lossy q", 3, zeros=False)
    found = output_law(LOSSY_RULES[rule], target, sampled_draft(draft, 2), (0,), 3)
    expected = target_law(target, (0,), 3)
    distance = sum(abs(found.get(text, 0) - expected.get(text, 0)) for text in found.keys() | expected.keys()) / 2
    assert distance > 0
    assert sum(found.values()) == 1


def test_traversal_on_a_chain_is_block_verification(random_law):
    for case in range(6):
        target, draft = random_law(f"chain p {case}", 3), random_law(f"chain q {case}", 3)
        chain = (-1, 0, 1)
        tree = output_law(partial(verify_tree, method="traversal"), target, tree_draft(draft, chain, "iid"), (), 4)
        assert tree == output_law(verify_block, target, sampled_draft(draft, 3), (), 4)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_match_gives_the_same_text_with_and_without_speculation(random_law, model_of, temperature):
    """The text of a seed does not depend on gamma or drafter: every emitted token is the target's own draw."""
    target, draft = (model_of(random_law(name, 6, zeros=False), 6) for name in ("match p", "match q"))
    for seed in range(10):
        params = SamplingParams(temperature=temperature, seed=seed)
        plain = Engine(target, None, "match", 0).generate([1, 2], params, 40).tokens
        for gamma in (1, 3, 7):
            assert Engine(target, ModelDrafter(draft), "match", gamma).generate([1, 2], params, 40).tokens == plain
        assert Engine(target, NGramDrafter(), "match", 4).generate([1, 2], params, 40).tokens == plain


def test_coupled_drafts_are_kept_as_often_as_the_closed_form_says():
    """Gumbel coupling: same text as plain, acceptance sum_i 1 / sum_j max(p_j/p_i, q_j/q_i), far above sum p q."""
    p, q = (0.5, 0.3, 0.2), (0.2, 0.5, 0.3)
    target = PrefixModel(3, lambda prefix: torch.tensor(p).log())
    draft = PrefixModel(3, lambda prefix: torch.tensor(q).log())
    kept = tested = 0
    for seed in range(60):
        params = SamplingParams(seed=seed)
        plain = Engine(target, None, "match", 0).generate([0], params, 50).tokens
        coupled = Engine(target, ModelDrafter(draft, coupled=True), "match", 3).generate([0], params, 50)
        assert coupled.tokens == plain
        kept += sum(round_.num_accepted for round_ in coupled.trace.rounds)
        tested += sum(round_.num_tested for round_ in coupled.trace.rounds)
    expected = coupled_match_acceptance(p, q)
    # a binomial of `tested` trials, 4 standard deviations
    assert abs(kept / tested - expected) < 4 * (expected * (1 - expected) / tested) ** 0.5
    assert expected > 2 * match_acceptance(p, q) - 0.1


def test_coupled_drafts_are_refused_by_every_other_rule():
    model = PrefixModel(3, lambda prefix: torch.zeros(3))
    for name, rule in RULES.items():
        if name != "match" and not rule.greedy_only:
            with pytest.raises(ValueError, match="does not take 'coupled' drafts"):
                Engine(model, ModelDrafter(model, coupled=True), name, 2)


@pytest.mark.parametrize("coins", [ScriptedCoins([0.5]), EnumeratingCoins([])])
def test_coins_without_keys_cannot_be_coupled(coins):
    with pytest.raises(ValueError, match="coupled|keys"):
        coins.coupled()
