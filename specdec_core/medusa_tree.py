"""Sparse trees for heads that guess several positions at once: which ranks of which head are worth a node.

Source: Medusa, Cai et al. 2401.10774, section 2.3.3 (greedy construction from measured accuracies).
"""

from collections.abc import Sequence
from numbers import Integral

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.draft import DraftTree
from specdec_core.draft_trees import best_first_tree

Ranks = tuple[int, ...]
"""A node by the ranks of the guesses on its path: (0, 2) is the third guess of head 1 after the best of head 0."""


def medusa_tree(spec: Sequence[Sequence[int]]) -> DraftTree:
    """The tree of these paths of ranks; a node's token is its rank. Nodes come in the order given, parents first.

    Raises:
        ValueError: an empty path, a negative rank, a path twice, or one whose parent does not come before it.
    """
    number: dict[Ranks, int] = {(): -1}
    if not isinstance(spec, Sequence) or not all(_is_path(path) for path in spec):
        raise ValueError(f"spec is {spec!r}; expected paths of ranks, such as ((0,), (1,), (0, 0))")
    for path in map(tuple, spec):
        if not path or path in number or min(path) < 0:
            raise ValueError(f"spec holds {path}; expected paths of ranks, at least 0, not empty and each once")
        if path[:-1] not in number:
            raise ValueError(f"spec holds {path} before {path[:-1]}; list the parent first")
        number[path] = len(number) - 1
    paths = list(number)[1:]
    return DraftTree(tuple(path[-1] for path in paths), tuple(number[path[:-1]] for path in paths))


def _is_path(path: object) -> bool:
    return isinstance(path, Sequence) and all(isinstance(rank, Integral) for rank in path)


def medusa_spec(accuracies: Float[Tensor, "heads ranks"], nodes: int) -> tuple[Ranks, ...]:
    """The `nodes` paths of ranks that are right most often, best first, taking the heads as independent.

    `accuracies[k, i]` is how often the i-th guess of head k (both from 0) is the token; a row sums to at most 1. The
    expected tokens per round are 1 + the sum over nodes of the product along the path.

    Raises:
        ValueError: rows that are no sub-laws, or fewer than one node.
    """
    table = torch.as_tensor(accuracies, dtype=torch.float64)
    if table.ndim != 2 or bool((table < 0).any()) or bool((table.sum(dim=-1) > 1 + 1e-6).any()):
        raise ValueError(
            "accuracies: expected [heads, ranks] of chances that exclude each other, a row sums to at most 1"
        )
    if nodes < 1:
        raise ValueError(f"nodes is {nodes}; expected at least 1")
    tree = best_first_tree(list(table), nodes)
    return tuple(tuple(tree.tokens[node] for node in path) for path in tree.paths())
