"""Sequoia's dynamic program against every tree there is, and its hardware step."""

import random

import numpy as np
import pytest

from specdec_core.sequoia import sequoia_size, sequoia_tree
from specdec_core.speed_formulas import expected_tokens, expected_tokens_of_tree
from specdec_core.tree_shapes import Parents, chain_shape, ordered_shapes, shape_of, sibling_ranks


def tokens(parents: Parents, acceptance_vector) -> float:
    return expected_tokens_of_tree(parents, [acceptance_vector[rank] for rank in sibling_ranks(parents)])


def random_vector(generator: random.Random, length: int) -> list[float]:
    """Chances of exclusive events, in no order."""
    weights = [generator.random() for _ in range(length + 1)]
    return [weight / sum(weights) for weight in weights[:-1]]


def every_tree(nodes: int, depth: int, children: int):
    for size in range(nodes + 1):
        for parents in ordered_shapes(size):
            if max(shape_of(parents).depths, default=0) <= depth and max(sibling_ranks(parents), default=-1) < children:
                yield parents


@pytest.mark.parametrize("case", range(12))
def test_no_tree_of_up_to_six_nodes_is_worth_more(case):
    generator = random.Random(case)
    vector = random_vector(generator, 1 + case % 4)
    if case == 5:
        vector[0] = 0.0
    for nodes in range(7):
        for depth in range(5):
            found = sequoia_tree(vector, nodes, depth)
            trees = list(every_tree(nodes, depth, len(vector)))
            assert found in trees
            best = max(tokens(parents, vector) for parents in trees)
            assert tokens(found, vector) == pytest.approx(best, abs=1e-12)
            smallest = min(len(parents) for parents in trees if tokens(parents, vector) > best - 1e-12)
            assert len(found) == smallest


def test_a_vector_of_one_entry_gives_a_chain():
    assert sequoia_tree([0.7], 5, 9) == chain_shape(5)
    assert sequoia_tree([0.7], 5, 3) == chain_shape(3)
    assert tokens(chain_shape(3), [0.7]) == pytest.approx(expected_tokens(0.7, 3))


def test_trees_of_published_size_are_made_and_are_worth_more_than_plain_shapes():
    vector = [0.55, 0.15, 0.08, 0.05, 0.03, 0.02, 0.01, 0.01]
    tree = sequoia_tree(vector, 128, 10)
    assert len(tree) == 128
    assert max(shape_of(tree).depths) <= 10
    assert tree == tuple(sorted(tree)), "level by level"
    assert tokens(tree, vector) > tokens(chain_shape(10), vector)
    full = tuple(node // 4 - 1 for node in range(84))  # four children a node, three levels
    assert tokens(sequoia_tree(vector, 84, 10), vector) > tokens(full, vector)


def test_nothing_is_drafted_where_nothing_is_accepted():
    assert sequoia_tree([0.0, 0.0], 6, 3) == ()
    assert sequoia_tree([], 6, 3) == ()
    assert sequoia_tree([0.5], 0, 3) == sequoia_tree([0.5], 3, 0) == ()


@pytest.mark.parametrize("case", range(6))
def test_the_hardware_step_takes_the_least_time_a_token(case):
    generator = random.Random(50 + case)
    vector = random_vector(generator, 3)
    draft_seconds = generator.choice([0.0, 0.02, 0.3, 2.0])

    def verify_seconds(nodes: int) -> float:
        return 1 + 0.01 * nodes + (0.2 * (nodes - 3) if nodes > 3 else 0)

    size, levels = sequoia_size(vector, nodes=6, depth=4, draft_seconds=draft_seconds, verify_seconds=verify_seconds)
    least = min(
        (depth * draft_seconds + verify_seconds(len(parents))) / tokens(parents, vector)
        for depth in range(5)
        for parents in every_tree(6, depth, 3)
    )
    found = sequoia_tree(vector, size, levels)
    assert len(found) == size
    assert (levels * draft_seconds + verify_seconds(size)) / tokens(found, vector) == pytest.approx(least, abs=1e-12)


def test_a_slow_draft_or_a_steep_verify_pass_means_plain_decoding():
    size = {"nodes": 8, "depth": 4}
    assert sequoia_size([0.6, 0.2], draft_seconds=5.0, verify_seconds=lambda nodes: 1.0, **size) == (0, 0)
    assert sequoia_size([0.6, 0.2], draft_seconds=0.0, verify_seconds=lambda nodes: 1.0 + nodes, **size) == (0, 0)
    assert sequoia_size([0.6, 0.2], draft_seconds=0.0, verify_seconds=lambda nodes: 1.0, **size) == (8, 4)


@pytest.mark.parametrize("vector", [[-0.1, 0.2], [0.7, 0.6], [float("nan")]])
def test_a_vector_that_is_no_sub_law_is_refused(vector):
    with pytest.raises(ValueError, match="acceptance_vector is"):
        sequoia_tree(vector, 3, 3)


def test_bad_sizes_and_times_are_refused():
    with pytest.raises(ValueError, match="nodes is -1"):
        sequoia_tree([0.5], -1, 3)
    with pytest.raises(ValueError, match="draft_seconds is -1"):
        sequoia_size([0.5], nodes=2, depth=2, draft_seconds=-1, verify_seconds=lambda nodes: 1.0)
    with pytest.raises(ValueError, match=r"verify_seconds\(2\) is 0"):
        sequoia_size([0.5], nodes=2, depth=2, draft_seconds=1, verify_seconds=lambda nodes: float(2 - nodes))


def test_the_walk_of_a_tree_counts_its_tokens():
    """Monte Carlo of the model behind the formula: at each node exactly one child, or none, is accepted."""
    vector = [0.5, 0.2, 0.1]
    tree = shape_of(sequoia_tree(vector, 12, 4))
    generator = np.random.default_rng(0)
    rounds, emitted = 20_000, 0
    for _ in range(rounds):
        node = -1
        while node is not None:
            emitted += 1
            rank = int(generator.choice(4, p=[*vector, 0.2]))
            children = tree.children(node)
            node = children[rank] if rank < len(children) else None
    expected = tokens(tree.parents, vector)
    # tokens a round lie in 1..5, so their deviation is below 2: 4 standard errors
    assert abs(emitted / rounds - expected) < 4 * 2 / rounds**0.5
