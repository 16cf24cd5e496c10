"""A branching draft through the engine at toy level: mask, positions, penalties and compaction along the path."""

from collections.abc import Sequence

import pytest
import torch

from specdec_core.coins import Coins
from specdec_core.draft import Draft, DraftTree
from specdec_core.engine import Engine
from specdec_core.rules import Rule, Verdict
from specdec_core.rules.greedy import argmax
from specdec_core.warp import SamplingParams


class _TreeRule(Rule):
    """Walks to the child that is the target's argmax; greedy, for tests of the engine alone."""

    def __call__(self, draft: Draft, target_probs: Sequence[torch.Tensor], coins: Coins) -> Verdict:
        path: list[int] = []
        while True:
            row = path[-1] + 1 if path else 0
            best = argmax(target_probs[row])
            here = path[-1] if path else -1
            child = next(
                (
                    n
                    for n, (token, parent) in enumerate(zip(draft.tree.tokens, draft.tree.parents))
                    if parent == here and token == best
                ),
                None,
            )
            if child is None:
                is_leaf = here not in draft.tree.parents
                return Verdict(len(path), tuple(path), best, "bonus" if is_leaf else "recovered")
            path.append(child)


TREE_RULE = _TreeRule(
    "tree", lambda *_: Verdict(0, (), 0, "bonus"), True, False, ("deterministic",), True, "test", greedy_only=True
)

# shapes of seven nodes at most; in the last two the right path lies apart from the first rows
SHAPES = [
    (-1, 0, 1),
    (-1, -1, -1),
    (-1, 0, 0, 1, 1, 2, 4),
    (-1, -1, 0, 1, 1, 4),
    (-1, -1, 1, -1, 3, 4),
]


def wrong_but_for(path: Sequence[int], parents: Sequence[int], right: Sequence[int], vocab: int) -> list[int]:
    """Tokens of the nodes: on `path` what the target will say, elsewhere something else."""
    tokens = []
    for node in range(len(parents)):
        depth = list(path).index(node) if node in path else None
        tokens.append(right[depth] if depth is not None else (right[0] + 1 + node) % vocab)
    return tokens


def path_to(parents: Sequence[int], node: int) -> list[int]:
    path = []
    while node >= 0:
        path.insert(0, node)
        node = parents[node]
    return path


@pytest.mark.parametrize("parents", SHAPES)
@pytest.mark.parametrize("penalty", [0.0, 0.8])
def test_tree_drafts_leave_the_greedy_text_and_the_cache_right(
    parents, penalty: float, model_of, random_law, fixed_drafter
) -> None:
    law, vocab = random_law("tree", 7, zeros=False), 7
    params = SamplingParams(temperature=0, frequency_penalty=penalty)
    plain = Engine(model_of(law, vocab), None, "greedy", 0).generate([1, 2], params, 40).tokens
    text = [1, 2, *plain]
    rounds = 0

    def draft_of(tokens: Sequence[int], budget: int) -> Draft:
        nonlocal rounds
        rounds += 1
        if budget < len(parents):
            return Draft.empty()
        path = path_to(parents, rounds % len(parents))
        right = text[len(tokens) : len(tokens) + len(path)]
        tree = DraftTree(tuple(wrong_but_for(path, parents, right, vocab)), tuple(parents))
        return Draft(tree, None, "deterministic")

    target = model_of(law, vocab)
    generation = Engine(target, fixed_drafter(draft_of), TREE_RULE, len(parents)).generate([1, 2], params, 40)
    assert generation.tokens == plain
    assert target.caches[0].tokens == text[:-1]
    assert any(r.num_accepted > 0 for r in generation.trace.rounds)
    moved = 0
    for r in generation.trace.rounds:
        assert r.emitted == (*(r.draft_tokens[node] for node in r.path), r.next_token)
        assert r.target_rows == r.length + len(r.emitted) - 1
        assert r.num_accepted <= r.num_tested
        moved += sum(node != slot for slot, node in enumerate(r.path))
    assert target.caches[0].rows_moved == moved, "exactly the accepted rows whose slot changes"


def test_a_stop_token_on_the_path_cuts_there(model_of, random_law, fixed_drafter, spoken_model) -> None:
    target = spoken_model(9, lambda prefix: len(prefix) % 9)
    parents = (-1, -1, 1, 2)

    def draft_of(tokens: Sequence[int], budget: int) -> Draft:
        n = len(tokens)
        return Draft(DraftTree((8, n % 9, (n + 1) % 9, (n + 2) % 9), parents), None, "deterministic")

    params = SamplingParams(temperature=0, stop=(3,))
    generation = Engine(target, fixed_drafter(draft_of), TREE_RULE, 4).generate([0], params, 20)
    last = generation.trace.rounds[-1]
    assert generation.tokens == (1, 2, 3)
    assert (last.kind, last.emitted, last.path, last.num_accepted, last.next_token) == (
        "stopped",
        (2, 3),
        (1, 2),
        2,
        None,
    )
    assert target.caches[0].tokens == [0, 1, 2]


def test_tops_and_probabilities_of_a_node_come_from_the_row_of_its_parent(model_of, random_law, fixed_drafter) -> None:
    law = random_law("tree tops", 5, zeros=False)
    parents = (-1, -1, 0, 1, 2)

    def draft_of(tokens: Sequence[int], budget: int) -> Draft:
        return Draft(DraftTree((0, 1, 2, 3, 4), parents), None, "deterministic")

    engine = Engine(model_of(law, 5), fixed_drafter(draft_of), TREE_RULE, 5, record_top=5)
    stream = engine.stream([1, 2], SamplingParams(temperature=0), 20)
    next(stream)
    first = next(stream).round
    assert first is not None
    assert first.top is not None
    text = stream.generation.trace.tokens[: first.length]
    for node, path in enumerate(DraftTree((0, 1, 2, 3, 4), parents).paths()):
        best = law(text + tuple(path[:-1]))
        one_hot = [float(token == best.index(max(best))) for token in range(5)]
        assert first.target_probs[node] == one_hot[node]
        assert dict(first.top[node].target) == {one_hot.index(1.0): 1.0}
