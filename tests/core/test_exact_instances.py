"""The instances are what their categories say, and the shapes are all there."""

from itertools import product
from math import comb

from hypothesis import given
from hypothesis import strategies as st
import pytest

from specdec_core.draft import DraftTree
from specdec_core.exact_instances import LARGE, exact_instances
from specdec_core.tree_shapes import chain_shape, depth_first, ordered_shapes, shape_of, sibling_ranks

INSTANCES = exact_instances()


def texts(vocab: int, longest: int):
    return [text for length in range(longest + 1) for text in product(range(vocab), repeat=length)]


def nested(parents: tuple[int, ...]) -> tuple:
    """An ordered tree without its numbering."""
    tree = shape_of(parents)

    def below(node: int) -> tuple:
        return tuple(below(child) for child in tree.children(node))

    return below(-1)


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5, 6])
def test_every_ordered_tree_occurs_once(nodes):
    shapes = [nested(parents) for parents in ordered_shapes(nodes)]
    assert len(shapes) == len(set(shapes)) == comb(2 * nodes, nodes) // (nodes + 1)
    assert set(shapes) == {nested(parents) for parents in product(*(range(-1, node) for node in range(nodes)))}


@given(st.integers(0, 9).flatmap(lambda size: st.tuples(*(st.integers(-1, node - 1) for node in range(size)))))
def test_depth_first_is_the_same_tree_in_another_order(parents):
    renumbered = depth_first(parents)
    assert nested(renumbered) == nested(parents)
    # a subtree is a run of numbers
    tree = DraftTree((0,) * len(parents), renumbered)
    for node in range(len(parents)):
        below = [other for other, path in enumerate(tree.paths()) if node in path]
        assert below == list(range(node, node + len(below)))


def test_sibling_ranks_number_the_children_of_each_parent():
    assert sibling_ranks((-1, 0, -1, 0, 2, -1)) == (0, 0, 1, 1, 0, 2)
    assert sibling_ranks(()) == ()


@pytest.mark.parametrize("category", ["iid tree", "tree without replacement", "deterministic tree"])
def test_every_ordered_shape_of_up_to_five_nodes_is_a_tree_instance(category):
    shapes = {nested(instance.parents) for instance in INSTANCES[category]}
    assert shapes == {nested(parents) for nodes in (2, 3, 4, 5) for parents in ordered_shapes(nodes)}
    assert {instance.vocab for instance in INSTANCES[category]} == {3}
    assert any(depth_first(i.parents) == i.parents != tuple(sorted(i.parents)) for i in INSTANCES[category])


def test_chains_of_every_size():
    for category in ("chain", "deterministic chain", "temperature 0"):
        sizes = {(instance.vocab, instance.parents) for instance in INSTANCES[category]}
        assert sizes == {(vocab, chain_shape(gamma)) for vocab in (2, 3, 4) for gamma in (1, 2, 3)}


def test_the_large_ones_are_large():
    assert len(set(map(nested, LARGE))) == len(LARGE)
    assert {len(instance.parents) for instance in INSTANCES["6 and 7 nodes"]} == {6, 7}


def test_horizons_reach_past_a_round():
    for instances in INSTANCES.values():
        for instance in instances:
            assert instance.horizon >= instance.depth + 1
            assert instance.horizon >= instance.depth + 2 or instance.depth >= 3 or len(instance.parents) >= 5


def test_names_and_so_seeds_are_single():
    names = [instance.name for instances in INSTANCES.values() for instance in instances]
    assert len(names) == len(set(names))


def test_laws_have_memory():
    """The law after a text is not decided by its last token, nor by its length."""
    for instance in INSTANCES["chain"] + INSTANCES["iid tree"]:
        for law in (instance.target, instance.draft):
            laws = {text: tuple(law(text)) for text in texts(instance.vocab, 3)}
            assert len({laws[text] for text in laws if text[-1:] == (0,)}) > 2
            assert len({laws[text] for text in laws if len(text) == 2}) > 1


def test_degenerate_pairs_are_degenerate():
    def pairs(category):
        for instance in INSTANCES[category]:
            for text in texts(instance.vocab, 2):
                yield instance.target(text), instance.draft(text)

    assert all(p == q for p, q in pairs("p = q"))
    assert all(not any(map(min, p, q)) for p, q in pairs("disjoint supports"))
    assert all(max(q) == 1 for _, q in pairs("one-hot q"))
    assert all(0 in p and 0 in q for p, q in pairs("zeros"))
    assert all(max(p) == 1 for p, _ in pairs("temperature 0"))
    assert all(instance.greedy for instance in INSTANCES["temperature 0"])


def test_duplicate_siblings_occur():
    fixed = [instance for instance in INSTANCES["duplicate siblings"] if instance.proposal == "deterministic"]
    twins = [i for i in fixed if len(set(i.children(i.prefix)[:2])) < 2]
    assert len(twins) >= 4
    drawn = [instance for instance in INSTANCES["duplicate siblings"] if instance.proposal == "iid"]
    assert all(
        max(instance.draft(text)) >= 1 / 2 or sum(map(bool, instance.draft(text))) < 3
        for instance in drawn
        for text in texts(3, 2)
    )
