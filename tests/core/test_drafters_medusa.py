"""Medusa: which state the heads read, the sparse tree of ranks, its construction from measured accuracies."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from specdec_core.coins import PhiloxCoins
from specdec_core.drafters import Context, MedusaDrafter
from specdec_core.engine import Engine
from specdec_core.medusa_tree import medusa_spec, medusa_tree
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.medusa import MedusaHeads
from specdec_core.toy import toy_pair
from specdec_core.warp import SamplingParams

GREEDY = SamplingParams(temperature=0)
SPEC = ((0,), (0, 0), (1,), (0, 1), (0, 0, 0), (1, 0))


def always(drafted: int, law: Any) -> bool:
    return True


def proposed(
    micro, tokens: list[int], spec: Any, budget: int, params: SamplingParams = GREEDY, room: int | None = None
):
    drafter = MedusaDrafter(micro.target, micro.medusa, micro.vocabulary, spec)
    hidden = micro.target.forward(torch.tensor(tokens[:-1]), cache=micro.target.new_cache(64)).hidden
    context = Context(tokens, len(tokens), params, hidden, None, room)
    return drafter.propose(context, budget, PhiloxCoins(0).at(request=0, length=len(tokens)), always), hidden


def test_the_tree_holds_the_ranked_guesses_of_the_last_state(micro) -> None:
    draft, hidden = proposed(micro, [3, 11, 7, 1, 5], SPEC, 6)
    guessed = micro.medusa(hidden[-1])
    cut = micro.target.weights.head.weight[micro.vocabulary.index]
    order = [torch.argsort(cut @ state, descending=True).tolist() for state in guessed]
    expected = tuple(micro.vocabulary.ids[order[len(path) - 1][path[-1]]] for path in SPEC)
    assert draft.tokens == expected
    assert draft.tree.parents == (-1, 0, -1, 0, 1, 2)
    assert (draft.proposal, draft.draft_probs) == ("deterministic", None)


@pytest.mark.parametrize(("budget", "room", "kept"), [(3, 9, 3), (6, 1, 2), (6, 2, 5), (1, 1, 1)])
def test_a_small_budget_keeps_the_first_nodes_and_a_short_room_the_first_levels(micro, budget, room, kept) -> None:
    whole, _ = proposed(micro, [3, 11, 7, 1], SPEC, 6)
    draft, _ = proposed(micro, [3, 11, 7, 1], SPEC, budget, room=room)
    assert len(draft.tree) == kept
    assert max(draft.tree.depths) <= room
    wanted = [node for node, depth in enumerate(whole.tree.depths) if depth <= room][:budget]
    assert draft.tokens == tuple(whole.tokens[node] for node in wanted)


def test_without_a_spec_the_best_products_are_taken(micro) -> None:
    draft, hidden = proposed(micro, [3, 11, 7, 1, 5], None, 7)
    cut = micro.target.weights.head.weight[micro.vocabulary.index]
    laws = [(cut @ state).softmax(dim=-1) for state in micro.medusa(hidden[-1])]
    values = sorted(
        (float(torch.stack([law[token] for law, token in zip(laws, path)]).prod()) for depth in (1, 2, 3)
         for path in product(range(len(cut)), repeat=depth)), reverse=True,
    )  # fmt: skip
    inverse = micro.vocabulary.inverse
    own = [
        float(torch.stack([law[inverse[draft.tokens[n]]] for law, n in zip(laws, path)]).prod())
        for path in draft.tree.paths()
    ]
    assert sorted(own, reverse=True) == pytest.approx(values[:7], rel=1e-4)


def test_banned_tokens_are_no_guesses(micro) -> None:
    allowed = (0, 5, 13)
    draft, _ = proposed(micro, [3, 11, 7, 1], SPEC, 6, SamplingParams(temperature=0, allowed_ids=allowed))
    assert set(draft.tokens) <= set(allowed) and len(draft.tree) == 6
    unknown = SamplingParams(temperature=0, allowed_ids=(2, 9))
    draft, _ = proposed(micro, [3, 11, 7, 1], SPEC, 6, unknown)
    assert len(draft.tree) == 0, "both are outside the cut vocabulary"
    target = micro.target
    drafter = MedusaDrafter(target, micro.medusa, micro.vocabulary, SPEC)
    plain = Engine(target).generate(micro.prompt, unknown, 12).tokens
    assert Engine(target, drafter, "recursive", 6).generate(micro.prompt, unknown, 12).tokens == plain


def test_a_spec_is_a_tree_of_ranks() -> None:
    tree = medusa_tree(SPEC)
    assert (tree.tokens, tree.parents) == ((0, 0, 1, 1, 0, 0), (-1, 0, -1, 0, 1, 2))
    for spec, found in [([(0,), ()], "()"), ([(0, 1)], r"\(0, 1\) before \(0,\)"), ([(0,), (0,)], r"\(0,\)")]:
        with pytest.raises(ValueError, match=f"spec holds {found}"):
            medusa_tree(spec)
    with pytest.raises(ValueError, match=r"spec holds \(-1,\)"):
        medusa_tree([(-1,)])


def test_the_spec_from_accuracies_is_the_best_of_its_size() -> None:
    table = torch.tensor([[0.5, 0.2, 0.1], [0.6, 0.15, 0.05]])
    every = [path for depth in (1, 2) for path in product(range(3), repeat=depth)]
    worth = {path: float(torch.stack([table[k, rank] for k, rank in enumerate(path)]).prod()) for path in every}
    for nodes in range(1, len(every) + 1):
        spec = medusa_spec(table, nodes)
        best = sorted(worth.values(), reverse=True)[:nodes]
        assert sorted((worth[path] for path in spec), reverse=True) == pytest.approx(best)
        medusa_tree(spec)
    assert medusa_spec(table, 4) == ((0,), (0, 0), (1,), (1, 0))


@pytest.mark.parametrize("table", [torch.tensor([[0.7, 0.5]]), torch.tensor([[-0.1]]), torch.tensor([0.3])])
def test_tables_that_are_none(table: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="chances that exclude each other"):
        medusa_spec(table, 3)


def test_what_does_not_fit_is_named(micro) -> None:
    with pytest.raises(ValueError, match="head has width 16, the target's states 32"):
        MedusaDrafter(micro.target, MedusaHeads(2, 16), micro.vocabulary)
    with pytest.raises(ValueError, match="is of 30 ids, the target has 24"):
        MedusaDrafter(micro.target, micro.medusa, CutVocabulary((1,), 30))
    with pytest.raises(ValueError, match="paths of 4 ranks; there are 3 heads"):
        MedusaDrafter(micro.target, micro.medusa, micro.vocabulary, [(0,), (0, 0), (0, 0, 0), (0, 0, 0, 0)])
    with pytest.raises(ValueError, match="PrefixModel, which has no embedding and head to share"):
        MedusaDrafter(toy_pair()[0], micro.medusa, micro.vocabulary)
    drafter = MedusaDrafter(micro.target, micro.medusa, micro.vocabulary)
    context = Context([1, 2, 3], 2, GREEDY, torch.zeros(2, 8))
    coins = PhiloxCoins(0).at(request=0, length=3)
    with pytest.raises(ValueError, match="states have width 8"):
        drafter.propose(context, 2, coins, always)
    with pytest.raises(ValueError, match="gave no hidden states"):
        drafter.propose(replace(context, hidden=None), 2, coins, always)
