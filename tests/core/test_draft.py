"""Draft trees: depths, paths, positions, masks against a slow definition; what a draft must carry."""

from hypothesis import given
from hypothesis import strategies as st
import pytest
import torch

from specdec_core.draft import PROPOSALS, Draft, DraftTree


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    size = draw(st.integers(0, 10))
    parents = tuple(draw(st.integers(-1, node - 1)) for node in range(size))
    return DraftTree(tuple(draw(st.integers(0, 5)) for _ in range(size)), parents)


def ancestors(tree: DraftTree, node: int) -> list[int]:
    path = []
    while node >= 0:
        path.insert(0, node)
        node = tree.parents[node]
    return path


@given(trees(), st.integers(0, 6))
def test_paths_depths_positions_and_mask_follow_the_parents(tree: DraftTree, prefix_len: int) -> None:
    paths = [ancestors(tree, node) for node in range(len(tree))]
    assert [list(path) for path in tree.paths()] == paths
    assert list(tree.depths) == [len(path) for path in paths]
    assert tree.position_ids(40).tolist() == [40, *(40 + len(path) for path in paths)]
    mask = tree.attention_mask(prefix_len)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(tree) + 1, prefix_len + len(tree) + 1)
    for row, path in enumerate([[], *paths]):
        seen = {*range(prefix_len + 1), *(prefix_len + 1 + node for node in path)}
        assert set(mask[row].nonzero()[:, 0].tolist()) == seen


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 5))
def test_the_mask_of_a_chain_is_causal(tokens: list[int], prefix_len: int) -> None:
    tree = DraftTree.chain(tokens)
    assert tree.is_chain
    rows = len(tokens) + 1
    assert torch.equal(tree.attention_mask(prefix_len), torch.ones(rows, prefix_len + rows).tril(prefix_len).bool())
    assert tree.position_ids(prefix_len).tolist() == list(range(prefix_len, prefix_len + rows))


@given(trees())
def test_a_tree_is_a_chain_exactly_when_every_node_follows_the_one_before(tree: DraftTree) -> None:
    assert tree.is_chain == all(parent == node - 1 for node, parent in enumerate(tree.parents))


def test_duplicate_siblings_stay_apart() -> None:
    tree = DraftTree((4, 4), (-1, -1))
    assert tree.paths() == ((0,), (1,))
    assert not tree.is_chain


def test_parents_and_tokens_must_fit() -> None:
    with pytest.raises(ValueError, match="parents has 1 entries for 2 tokens"):
        DraftTree((1, 2), (-1,))


@pytest.mark.parametrize(("parents", "node"), [((0,), 0), ((-1, 1), 1), ((-1, 2, 0), 1), ((-2,), 0), ((-1, -2), 1)])
def test_a_parent_comes_before_its_child(parents: tuple[int, ...], node: int) -> None:
    with pytest.raises(ValueError, match=rf"parents\[{node}\] is {parents[node]}"):
        DraftTree((0,) * len(parents), parents)


LAWS = torch.full((2, 3), 1 / 3)
CHAIN = DraftTree.chain([1, 2])


def test_a_deterministic_draft_carries_no_law() -> None:
    assert Draft(CHAIN, None, "deterministic").draft_probs is None
    with pytest.raises(ValueError, match="deterministic draft has draft_probs None"):
        Draft(CHAIN, LAWS, "deterministic")


@pytest.mark.parametrize("proposal", [name for name in PROPOSALS if name != "deterministic"])
def test_a_sampled_draft_carries_a_law_for_each_node(proposal) -> None:
    assert Draft(CHAIN, LAWS, proposal).tokens == (1, 2)
    with pytest.raises(ValueError, match=f"a {proposal} draft needs draft_probs"):
        Draft(CHAIN, None, proposal)
    with pytest.raises(ValueError, match="draft_probs has 1 rows for 2 drafted tokens"):
        Draft(CHAIN, LAWS[:1], proposal)


def test_an_unknown_proposal_is_refused() -> None:
    with pytest.raises(ValueError, match="proposal is 'beam'; expected one of chain, coupled, iid"):
        Draft(CHAIN, LAWS, "beam")  # pyright: ignore[reportArgumentType]


def test_the_empty_draft() -> None:
    draft = Draft.empty()
    assert draft.tokens == ()
    assert len(draft.tree) == 0
    assert draft.tree.is_chain
    assert draft.tree.attention_mask(3).tolist() == [[True] * 4]
