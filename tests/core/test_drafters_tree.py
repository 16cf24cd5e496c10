"""The tree-drafting model: shapes, laws, siblings, one pass a level, the cache; models over a cut vocabulary."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch

from specdec_core.coins import PhiloxCoins
from specdec_core.draft import Draft
from specdec_core.drafters import Context, ModelDrafter, TreeDrafter
from specdec_core.drafters.branch_rows import BranchRows
from specdec_core.engine import Engine
from specdec_core.models.cut_head import CutHead, MappedVocabulary, spread_logits
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.residual import without
from specdec_core.rules import Verdict
from specdec_core.sequoia import sequoia_tree
from specdec_core.tree_shapes import chain_shape
from specdec_core.warp import SamplingParams

SHAPE = (-1, -1, 0, 0, 1, 2, 2)
GREEDY = SamplingParams(temperature=0)
VOCAB = 6


def always(drafted: int, law: Any) -> bool:
    return True


def propose(
    drafter: TreeDrafter,
    tokens: Sequence[int],
    budget: int,
    params: SamplingParams,
    seed: int = 0,
    room: int | None = None,
) -> Draft:
    context = Context(tokens, len(tokens), params, None, None, room)
    return drafter.propose(context, budget, PhiloxCoins(seed).at(request=0, length=len(tokens)), always)


@pytest.fixture
def model(model_of, random_law):
    return model_of(random_law("tree draft", VOCAB, zeros=False), VOCAB)


@pytest.fixture
def law(random_law):
    return random_law("tree draft", VOCAB, zeros=False)


@pytest.mark.parametrize("proposal", ["iid", "without_replacement", "deterministic"])
def test_every_node_has_the_law_of_its_parent_and_a_level_costs_one_pass(model, law, proposal: str) -> None:
    drafter = TreeDrafter(model, SHAPE, proposal)
    drafter.start(40)
    for seed in range(5):
        tokens = [1, 2, seed]
        model.fed.clear()
        draft = propose(drafter, tokens, 9, SamplingParams(), seed)
        assert draft.tree.parents == SHAPE
        assert len(model.fed) == 3, "the pending token, two nodes with children, one"
        assert [len(fed) for _, fed in model.fed][1:] == [2, 1]
        for node, path in enumerate(draft.tree.paths()):
            text = (*tokens, *(draft.tokens[step] for step in path[:-1]))
            exact = law(text)
            assert exact[draft.tokens[node]] > 0
            if draft.draft_probs is not None:
                assert draft.draft_probs[node].tolist() == pytest.approx([float(chance) for chance in exact], abs=1e-6)
        for parent in (-1, 0, 2):
            siblings = [draft.tokens[child] for child in draft.tree.children(parent)]
            if proposal != "iid":
                assert len(set(siblings)) == len(siblings)
            if proposal == "deterministic":
                text = (*tokens, *(draft.tokens[step] for step in ((), *draft.tree.paths())[parent + 1]))
                exact = law(text)
                assert siblings == sorted(range(VOCAB), key=lambda token: (-exact[token], token))[: len(siblings)]
        drafter.observe(Verdict(1, (0,), 3, "recovered"), None)
        assert drafter.cache_rows == 3
        drafter.start(40)


@pytest.mark.parametrize("proposal", ["iid", "without_replacement"])
def test_siblings_have_their_joint_law(model, law, chi_square, proposal: str) -> None:
    drafter = TreeDrafter(model, (-1, -1), proposal)
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(800):
        drafter.start(8)
        tokens = propose(drafter, [1, 2], 2, SamplingParams(), seed).tokens
        counts[tokens] = counts.get(tokens, 0) + 1
    first, exact = law((1, 2)), {}
    for one in range(VOCAB):
        rest = first if proposal == "iid" else without(first, one)
        exact |= {(one, two): first[one] * rest[two] for two in range(VOCAB) if rest[two]}
    assert sum(exact.values()) == Fraction(1)
    assert chi_square(counts, exact) > 1e-3


def test_budget_keeps_the_first_nodes_and_room_the_first_levels(model) -> None:
    drafter = TreeDrafter(model, SHAPE, "iid")
    for budget, room, parents in [(4, None, SHAPE[:4]), (9, 1, (-1, -1)), (5, 2, SHAPE[:5]), (1, 3, (-1,))]:
        drafter.start(40)
        assert propose(drafter, [1, 2], budget, SamplingParams(), room=room).tree.parents == parents


def test_without_replacement_stops_where_nothing_is_left(model) -> None:
    drafter = TreeDrafter(model, (-1, -1, -1, 1, 2), "without_replacement")
    drafter.start(40)
    draft = propose(drafter, [1, 2], 9, SamplingParams(top_k=2))
    assert draft.tree.parents == (-1, -1, 1), "no third token, and nothing behind it"
    drafter.start(40)
    assert len(propose(drafter, [1, 2], 9, GREEDY).tree) == 1, "at temperature 0 there is one token"


def test_a_stop_before_the_first_level_is_a_plain_step(model) -> None:
    drafter = TreeDrafter(model, SHAPE, "iid")
    drafter.start(40)
    coins = PhiloxCoins(0).at(request=0, length=2)
    draft = drafter.propose(Context([1, 2], 2, SamplingParams()), 5, coins, lambda drafted, law: False)
    assert len(draft.tree) == 0
    assert drafter.cache_rows == 2


def test_a_sequoia_shape_is_filled(model) -> None:
    shape = sequoia_tree([0.5, 0.2, 0.1], 10, 4)
    drafter = TreeDrafter(model, shape)
    drafter.start(40)
    assert propose(drafter, [1, 2], 10, SamplingParams()).tree.parents == shape


def test_shapes_and_proposals_that_are_none(model) -> None:
    for arguments, message in [
        (((),), "shape is empty"),
        (((0,),), r"parents\[0\] is 0"),
        ((SHAPE, "chain"), "proposal is 'chain'"),
    ]:
        with pytest.raises(ValueError, match=message):
            TreeDrafter(model, *arguments)
    with pytest.raises(ValueError, match="temperature is -1"):
        TreeDrafter(model, SHAPE, temperature=-1.0)
    drafter = TreeDrafter(model, SHAPE)
    with pytest.raises(ValueError, match=r"call start\(capacity\)"):
        propose(drafter, [1], 2, SamplingParams())
    drafter.start(40)
    propose(drafter, [1, 2, 3], 2, SamplingParams())
    with pytest.raises(ValueError, match="serves another request"):
        propose(drafter, [1, 2], 2, SamplingParams())


def test_rows_see_their_ancestors_alone() -> None:
    rows = BranchRows(3)
    positions, mask = rows.feed([(5,), (7,)])
    assert positions.tolist() == [3, 3]
    assert mask.int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 0, 1]]
    positions, mask = rows.feed([(7, 2), (5, 5)])
    assert positions.tolist() == [4, 4]
    assert mask.int().tolist() == [[1, 1, 1, 0, 1, 1, 0], [1, 1, 1, 1, 0, 0, 1]]
    with pytest.raises(ValueError, match="was fed before its ancestor"):
        rows.feed([(9, 9)])


CUT = CutVocabulary((0, 3, 4), VOCAB)


def test_a_cut_head_gives_the_renormalised_law_and_zero_elsewhere(micro) -> None:
    cut = CutHead(micro.draft, micro.vocabulary)
    tokens = torch.tensor([3, 9, 2, 20])
    whole = micro.draft.forward(tokens, cache=micro.draft.new_cache(8)).logits.softmax(dim=-1)
    found = SamplingParams().probs(cut.forward(tokens, cache=cut.new_cache(8)).logits)
    kept = whole[:, micro.vocabulary.index]
    assert torch.allclose(found[:, micro.vocabulary.index], kept / kept.sum(dim=-1, keepdim=True), atol=1e-6)
    outside = [token for token in range(24) if token not in micro.vocabulary.ids]
    assert float(found[:, outside].max()) == 0.0


def test_a_model_with_ids_of_its_own_is_mapped_both_ways(model_of, random_law) -> None:
    law = random_law("own ids", 3, zeros=False)
    mapped = MappedVocabulary(model_of(law, 3), CUT, unknown=2)
    output = mapped.forward(torch.tensor([3, 5, 0]), cache=mapped.new_cache(8))
    # 3 is its id 1, 5 is unknown and fed as 2, 0 is its id 0
    expected = law((1, 2, 0))
    assert output.logits[-1].softmax(dim=-1).tolist() == pytest.approx(
        [float(expected[0]), 0, 0, float(expected[1]), float(expected[2]), 0], abs=1e-6
    )
    with pytest.raises(ValueError, match="outside the vocabulary"):
        mapped.forward(torch.tensor([6]), cache=mapped.new_cache(8))


def test_vocabularies_that_do_not_fit(micro, model) -> None:
    with pytest.raises(ValueError, match="model has 6 ids, the cut vocabulary maps 3"):
        MappedVocabulary(model, CUT)
    with pytest.raises(ValueError, match="unknown is 9"):
        MappedVocabulary(model, CutVocabulary(tuple(range(6)), 8), unknown=9)
    with pytest.raises(ValueError, match="model has 24 ids, the cut is of 6"):
        CutHead(micro.draft, CUT)
    with pytest.raises(ValueError, match="logits has 4 columns, the cut vocabulary 3 ids"):
        spread_logits(torch.zeros(1, 4), CUT)


@pytest.mark.parametrize("shape", [None, chain_shape(2), SHAPE])
def test_bans_that_leave_the_draft_nothing_make_a_plain_step(micro, shape: Any) -> None:
    """The target may say 2 and 9, which the cut draft does not know."""
    params = SamplingParams(temperature=0, allowed_ids=(2, 9))
    model = CutHead(micro.draft, micro.vocabulary)
    drafter = ModelDrafter(model) if shape is None else TreeDrafter(model, shape, "deterministic")
    rule = "chain" if shape is None else "recursive"
    generation = Engine(micro.target, drafter, rule, 4).generate(micro.prompt, params, 10)
    assert generation.tokens == Engine(micro.target).generate(micro.prompt, params, 10).tokens
    assert all(record.draft_tokens == () for record in generation.trace.rounds)
