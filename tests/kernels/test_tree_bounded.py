"""Few passes keep the law: proved by enumeration, for every method and bound, on models with memory."""

from fractions import Fraction

import pytest

from specdec_core.coins import ScriptedCoins
from specdec_core.draft import DraftTree
from specdec_core.laws import deterministic_tree, output_law, round_law, target_law, tree_draft
from specdec_core.random_laws import random_children, random_law
from specdec_kernels.tree_bounded import verify_tree_bounded

SHAPES = ((-1, -1, 0, 2), (-1, -1, -1, 0))
METHODS = {
    "recursive": "iid",
    "recursive_without_replacement": "without_replacement",
    "target_only": "iid",
    "traversal": "iid",
    "traversal_without_replacement": "without_replacement",
}


def bounded(method, max_passes):
    def rule(tree, draft_probs, target_probs, coins):
        return verify_tree_bounded(tree, draft_probs, target_probs, coins, method=method, max_passes=max_passes)

    return rule


@pytest.mark.parametrize("max_passes", [0, 1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_the_law_is_the_targets_whatever_the_bound(method, max_passes):
    vocab, horizon = 2, 3
    for seed, shape in enumerate(SHAPES):
        target, draft = random_law(f"target {seed}", vocab), random_law(f"draft {seed}", vocab)
        drafter = tree_draft(draft, shape, METHODS[method])
        assert output_law(bounded(method, max_passes), target, drafter, (0,), horizon) == target_law(
            target, (0,), horizon
        )


@pytest.mark.parametrize("method", METHODS)
def test_a_bound_costs_acceptance_and_enough_passes_do_not(method):
    target, draft = random_law("target", 3, zeros=False), random_law("draft", 3, zeros=False)
    drafter = tree_draft(draft, SHAPES[0], METHODS[method])

    def accepted(max_passes):
        law = round_law(bounded(method, max_passes), target, drafter, (0,), 4)
        return sum((len(text) * chance for text, chance in law.items()), Fraction(0)) - 1

    means = [accepted(max_passes) for max_passes in (0, 1, 2, 4)]
    assert means == sorted(means)
    assert means[0] < means[-1]
    # as many as there are nodes is as many as it takes
    assert means[-1] == accepted(None)


def test_deterministic_children_need_no_pass():
    target, children = random_law("target", 3), random_children("children", 3, duplicates=False)
    drafter = deterministic_tree(children, SHAPES[0])
    for method in ("recursive", "traversal"):
        laws = [round_law(bounded(method, bound), target, drafter, (0,), 4) for bound in (0, None)]
        assert laws[0] == laws[1]


def test_a_negative_bound_is_refused():
    with pytest.raises(ValueError, match="max_passes is -2; expected at least 0"):
        verify_tree_bounded(DraftTree((), ()), None, [[1]], ScriptedCoins([]), method="recursive", max_passes=-2)
