"""Tree shapes of equal size on the same drafter: tokens a round they were expected to give, and gave.

Everything is at temperature 0 and read off the ranks of `specdec_labs.acceptance.ranks`. Shapes are chosen on the
tuning prompts and measured on the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.medusa_tree import medusa_spec, medusa_tree
from specdec_core.sequoia import sequoia_tree
from specdec_core.speed_formulas import expected_tokens_of_tree
from specdec_core.tree_shapes import Parents, chain_shape, shape_of, sibling_ranks
from specdec_labs.acceptance.counts import Counts
from specdec_labs.acceptance.ranks import NO_TOKEN, Ranks

CHILDREN = 10
"""Ranks that are told apart; a node never gets more children."""


@dataclass(frozen=True, slots=True)
class TextRanks:
    """The ranks on one text; `stops` is whether the text ended itself, so that its last rounds count."""

    ranks: Ranks
    stops: bool


def acceptance_vector(texts: Sequence[TextRanks]) -> list[float]:
    """How often exactly the b-th child of the pending token is the next token, over every place of the texts.

    This is what Sequoia's dynamic program asks for: it takes the same vector at every node.
    """
    first = torch.cat([text.ranks[:, 0] for text in texts])
    first = first[first != NO_TOKEN]
    return [float((first == rank).float().mean()) for rank in range(CHILDREN)]


def vectors_by_depth(texts: Sequence[TextRanks]) -> Float[Tensor, "depth ranks"]:
    """The same at depth 1, 2, ..., over the starts whose tokens before it all stood among the first `CHILDREN`.

    Rows that differ break the assumption of one vector for all nodes.
    """
    ranks = torch.cat([text.ranks for text in texts])
    passed = torch.ones(len(ranks), dtype=torch.bool)
    rows = []
    for depth in range(ranks.shape[1]):
        known = passed & (ranks[:, depth] != NO_TOKEN)
        own = ranks[known, depth]
        rows.append(torch.stack([(own == rank).double().mean() for rank in range(CHILDREN)]))
        passed = known & (ranks[:, depth] < CHILDREN)
    return torch.stack(rows)


def marginal_accuracies(texts: Sequence[TextRanks]) -> Float[Tensor, "depth ranks"]:
    """How often the b-th guess for each position ahead is right, whatever came before: Medusa's trees come from it."""
    ranks = torch.cat([text.ranks for text in texts])
    rows = []
    for depth in range(ranks.shape[1]):
        own = ranks[ranks[:, depth] != NO_TOKEN, depth]
        rows.append(torch.stack([(own == rank).double().mean() for rank in range(CHILDREN)]))
    return torch.stack(rows)


def shapes(texts: Sequence[TextRanks], nodes: int) -> dict[str, Parents]:
    """Chain, binary tree level by level, Medusa's and Sequoia's tree of at most `nodes`, chosen on these texts."""
    depth = texts[0].ranks.shape[1]
    return {
        "chain": chain_shape(min(nodes, depth)),
        "full": tuple((node - 2) // 2 if node > 1 else -1 for node in range(nodes)),
        "medusa": medusa_shape(texts, nodes),
        "sequoia": sequoia_tree(acceptance_vector(texts), nodes, depth),
    }


def medusa_shape(texts: Sequence[TextRanks], nodes: int) -> Parents:
    """Medusa's sparse tree from the accuracies of every position, siblings in the order of their ranks."""
    spec = medusa_spec(marginal_accuracies(texts), nodes)
    return ordered(medusa_tree(spec).parents, [path[-1] for path in spec])


def ordered(parents: Parents, ranks: Sequence[int]) -> Parents:
    """The parents of the same tree with siblings in the order of their ranks, parents before children.

    Raises:
        ValueError: ranks of siblings that are not 0, 1, 2, ...: such a tree has no shape.
    """
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        children.setdefault(parent, []).append(node)
    number, found, waiting = {-1: -1}, [], [-1]
    for node in waiting:
        own = sorted(children.get(node, []), key=lambda child: ranks[child])
        if [ranks[child] for child in own] != list(range(len(own))):
            raise ValueError(f"the children of node {node} have ranks {[ranks[c] for c in own]}; expected 0, 1, 2, ...")
        for child in own:
            number[child] = len(found)
            found.append(number[node])
            waiting.append(child)
    return tuple(found)


def expected_tokens(parents: Parents, vector: Sequence[float]) -> float:
    """Tokens a round if the same acceptance vector holds at every node."""
    return float(expected_tokens_of_tree(parents, [vector[rank] for rank in sibling_ranks(parents)]))


def expected_tokens_by_depth(parents: Parents, vectors: Float[Tensor, "depth ranks"]) -> float:
    """Tokens a round with a vector for each depth."""
    places = zip(sibling_ranks(parents), shape_of(parents).depths)
    return float(expected_tokens_of_tree(parents, [float(vectors[depth - 1, rank]) for rank, depth in places]))


def rounds_of_shape(parents: Parents, text: TextRanks) -> Counts:
    """The rounds of a text with this tree of most probable children, as the replay counts them."""
    walk = _Walk(parents, text)
    total, start = Counts(), 0
    while start < walk.starts and (text.stops or start + walk.depth < walk.starts):
        accepted, tested = walk.from_start(start)
        positions = tuple((1, int(tested >= place), int(accepted >= place)) for place in range(1, walk.depth + 1))
        emitted = min(accepted + 1, walk.starts - start)
        total += Counts(1, emitted, len(parents), accepted, tested, positions)
        start += emitted
    return total


def tokens_from_every_place(parents: Parents, texts: Sequence[TextRanks]) -> float:
    """Tokens a round would emit, on average over all places of the texts.

    More than rounds do emit where drafts that fail come in clusters: a round starts behind the failure of the last one.
    """
    emitted = places = 0
    for text in texts:
        walk = _Walk(parents, text)
        for start in range(walk.starts - walk.depth):
            emitted += walk.from_start(start)[0] + 1
            places += 1
    return emitted / places


class _Walk:
    """Walks of one tree along one text."""

    def __init__(self, parents: Parents, text: TextRanks) -> None:
        nodes = range(-1, len(parents))
        self._children = [[child for child, parent in enumerate(parents) if parent == node] for node in nodes]
        self._ranks = text.ranks.tolist()
        self.starts = len(self._ranks)
        self.depth = max(shape_of(parents).depths, default=0)

    def from_start(self, start: int) -> tuple[int, int]:
        """Accepted and tested drafts of a round that starts there."""
        node, accepted, tested = -1, 0, 0
        while self._children[node + 1] and start + accepted < self.starts:
            tested += 1
            rank = self._ranks[start][accepted]
            if rank >= len(self._children[node + 1]):
                break
            node = self._children[node + 1][rank]
            accepted += 1
        return accepted, tested
