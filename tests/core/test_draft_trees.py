"""EAGLE-2's dynamic tree and the best-first tree, against every path there is."""

from fractions import Fraction
import heapq
from itertools import product
from math import prod

from hypothesis import given
from hypothesis import strategies as st
import pytest
import torch

from specdec_core.draft import DraftTree
from specdec_core.draft_trees import best_first_tree, dynamic_tree, most_probable, rerank
from specdec_core.random_laws import random_law

F = Fraction


def texts_of(tree: DraftTree) -> list[tuple[int, ...]]:
    return [tuple(tree.tokens[node] for node in path) for path in tree.paths()]


def value_of(law, text: tuple[int, ...]) -> Fraction:
    return prod((law(text[:place])[token] for place, token in enumerate(text)), start=F(1))


def laws_of(law):
    return lambda paths: [law(path) for path in paths]


def by_rank(law, path: tuple[int, ...]) -> list[int]:
    """Tokens with mass after `path`, best first, the lower id on a tie: written out again."""
    masses = law(path)
    return sorted((token for token in range(len(masses)) if masses[token]), key=lambda token: (-masses[token], token))


@given(st.integers(0, 60), st.integers(1, 3), st.integers(1, 4), st.integers(1, 14))
def test_the_dynamic_tree_follows_its_definition(seed, top_k, depth, nodes):
    law = random_law(f"eagle {seed}", 4)
    levels: list[list[tuple[int, ...]]] = []
    frontier: list[tuple[int, ...]] = [()]
    for _ in range(depth):
        levels.append([(*path, token) for path in frontier for token in by_rank(law, path)[:top_k]])
        # a stable sort: the earlier node on a tie
        frontier = sorted(levels[-1], key=lambda path: -value_of(law, path))[:top_k]
    grown = [path for level in levels for path in level]
    expected = sorted(grown, key=lambda path: (-value_of(law, path), len(path)))[:nodes]
    found = texts_of(dynamic_tree(laws_of(law), top_k=top_k, depth=depth, nodes=nodes))
    assert sorted(found) == sorted(expected)
    # every ancestor is there, and siblings stand by falling probability
    assert {path[:-1] for path in found} <= {(), *found}
    for parent in {path[:-1] for path in found}:
        siblings = [path[-1] for path in found if path[:-1] == parent]
        assert siblings == by_rank(law, parent)[: len(siblings)]


def test_a_wide_dynamic_tree_holds_the_best_paths_of_all():
    """With nothing cut on the way, the rerank is the optimum over all trees of that size."""
    law = random_law("wide", 3, zeros=False)
    every = [text for length in (1, 2, 3) for text in product(range(3), repeat=length)]
    for nodes in (1, 4, 9, 20):
        found = texts_of(dynamic_tree(laws_of(law), top_k=27, depth=3, nodes=nodes))
        best = heapq.nlargest(nodes, (value_of(law, text) for text in every))
        assert sorted((value_of(law, text) for text in found), reverse=True) == best


def test_one_draft_pass_a_level():
    law = random_law("passes", 4, zeros=False)
    asked: list[list[tuple[int, ...]]] = []

    def laws(paths):
        asked.append(list(paths))
        return [law(path) for path in paths]

    dynamic_tree(laws, top_k=2, depth=3, nodes=6)
    assert [len(paths) for paths in asked] == [1, 2, 2]
    assert [len(paths[0]) for paths in asked] == [0, 1, 2]


def test_the_same_tree_from_float_rows():
    law = random_law("float", 5, zeros=False)
    exact = dynamic_tree(laws_of(law), top_k=3, depth=3, nodes=9)

    def rows(paths):
        return torch.tensor([[float(value) for value in law(path)] for path in paths], dtype=torch.float64)

    assert dynamic_tree(rows, top_k=3, depth=3, nodes=9) == exact


def test_a_draft_that_is_sure_gives_its_chain():
    sure = dynamic_tree(lambda paths: [[F(0), F(1), F(0)]] * len(paths), top_k=3, depth=4, nodes=10)
    assert sure == DraftTree.chain([1, 1, 1, 1])
    assert best_first_tree([[F(0), F(1), F(0)]] * 3, 10) == DraftTree.chain([1, 1, 1])


def test_ties_go_to_the_shallower_node_then_to_the_lower_index():
    even = [F(1, 2), F(1, 2)]
    # first level 1/2, 1/2; second level four of 1/4: the first of them by index
    assert dynamic_tree(lambda paths: [even] * len(paths), top_k=2, depth=2, nodes=3) == DraftTree(
        (0, 1, 0), (-1, -1, 0)
    )
    chain = DraftTree((4, 5, 6), (-1, 0, -1))
    assert rerank(chain, [F(1, 2), F(1, 2), F(1, 2)], 2) == DraftTree((4, 6), (-1, -1))
    assert rerank(chain, [F(1, 2), F(1, 2), F(1, 3)], 2) == DraftTree((4, 5), (-1, 0))


@given(
    st.integers(1, 8).flatmap(lambda size: st.tuples(*(st.integers(-1, node - 1) for node in range(size)))),
    st.lists(st.sampled_from([F(1), F(1, 2), F(1, 3)]), min_size=8, max_size=8),
    st.integers(0, 9),
)
def test_a_rerank_keeps_whole_paths(parents, chances, nodes):
    tree = DraftTree(tuple(range(len(parents))), parents)
    values: list[Fraction] = []
    for parent, chance in zip(parents, chances):
        values.append(chance if parent < 0 else values[parent] * chance)
    kept = rerank(tree, values, nodes)
    assert len(kept) == min(nodes, len(tree))
    # tokens are the old numbers: each kept node hangs where it hung
    for token, parent in zip(kept.tokens, kept.parents):
        assert (kept.tokens[parent] if parent >= 0 else -1) == tree.parents[token]
    dropped = [values[node] for node in range(len(tree)) if node not in kept.tokens]
    assert not dropped or not kept.tokens or min(values[token] for token in kept.tokens) >= max(dropped)


@given(st.integers(0, 60), st.integers(0, 4), st.integers(0, 16))
def test_best_first_takes_the_best_paths_of_all(seed, positions, budget):
    law = random_law(f"heap {seed}", 3)
    marginals = [law((place,)) for place in range(positions)]
    every = [
        (prod((marginals[place][token] for place, token in enumerate(text)), start=F(1)), text)
        for length in range(1, positions + 1)
        for text in product(range(3), repeat=length)
    ]
    ranks = [by_rank(law, (place,)) for place in range(positions)]
    order = sorted(
        (item for item in every if item[0]),
        key=lambda item: (-item[0], len(item[1]), [ranks[place].index(token) for place, token in enumerate(item[1])]),
    )
    assert texts_of(best_first_tree(marginals, budget)) == [text for _, text in order[:budget]]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(0, 9))
def test_the_most_probable_tokens_of_a_tensor_and_of_a_list_agree(weights, count):
    as_list = most_probable([F(weight, 24) for weight in weights], count)
    as_tensor = most_probable(torch.tensor(weights, dtype=torch.float64) / 24, count)
    assert [token for token, _ in as_list] == [token for token, _ in as_tensor]
    assert [float(value) for _, value in as_list] == [value for _, value in as_tensor]


def test_rows_of_no_law_are_refused():
    with pytest.raises(ValueError, match="laws gave 2 rows for 1 paths"):
        dynamic_tree(lambda paths: [[F(1)]] * 2, top_k=1, depth=1, nodes=1)
    with pytest.raises(ValueError, match="law holds NaN"):
        best_first_tree([torch.tensor([float("nan"), 0.5])], 2)


@pytest.mark.parametrize("name", ["top_k", "depth", "nodes"])
def test_sizes_below_one_are_refused(name):
    sizes = {"top_k": 2, "depth": 2, "nodes": 2, name: 0}
    with pytest.raises(ValueError, match=f"{name} is 0"):
        dynamic_tree(lambda paths: [[F(1)]] * len(paths), **sizes)


def test_a_rerank_needs_values_that_fall_along_paths():
    with pytest.raises(ValueError, match=r"values\[1\] is 1/2, more than its parent's 1/3"):
        rerank(DraftTree.chain([0, 1]), [F(1, 3), F(1, 2)], 2)
    with pytest.raises(ValueError, match="values has 1 entries for 2 nodes"):
        rerank(DraftTree.chain([0, 1]), [F(1, 3)], 2)
    with pytest.raises(ValueError, match="budget is -1"):
        best_first_tree([[F(1)]], -1)
