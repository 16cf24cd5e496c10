"""What rules share, exactly; match verification and couplings in the engine. The proofs: test_exact_proofs.py."""

from functools import partial

import pytest
import torch

from specdec_core.acceptance_formulas import coupled_match_acceptance, match_acceptance
from specdec_core.coins import EnumeratingCoins, ScriptedCoins
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.laws import output_law, sampled_draft, tree_draft
from specdec_core.rules import RULES
from specdec_core.rules.block import verify_block
from specdec_core.rules.tree import verify_tree
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams


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
