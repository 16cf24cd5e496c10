"""Sequoia: the shape of a draft tree that is worth most, for a given chance that the 1st, 2nd, ... child is accepted.

Source: Chen et al., "Sequoia", 2402.12374, section 3.1 (the dynamic program) and 3.3 (the hardware step).
"""

from collections.abc import Callable, Sequence

from jaxtyping import Float64, Int64
import numpy as np
from numpy import ndarray

from specdec_core.arguments import check_number, check_whole
from specdec_core.tree_shapes import Parents

_SLACK = 1e-6


def sequoia_tree(acceptance_vector: Sequence[float], nodes: int, depth: int) -> Parents:
    """The parents, level by level, of a tree of at most `nodes` drafted nodes and `depth` levels with most tokens.

    `acceptance_vector[b]` is the chance that exactly the b-th child of a node is accepted, the children before it
    refused; it is measured for a pair of models and a temperature. A node gets at most as many children as the vector
    is long. The tokens a round are 1 + the sum over nodes of the product of chances on their path
    (`expected_tokens_of_tree`). Ties go to fewer nodes, then to fewer children, then to smaller later children.

    Raises:
        ValueError: negative sizes, or chances that are no sub-law.
    """
    table = _Table(acceptance_vector, nodes, depth)
    # most tokens, then fewest nodes: argmax takes the first
    size = int(np.argmax(table.best[-1]))
    parents: list[int] = []
    waiting = [(-1, depth, size)]
    for node, levels, below in waiting:
        for child_size in table.children(levels, below):
            parents.append(node)
            waiting.append((len(parents) - 1, levels - 1, child_size - 1))
    return tuple(parents)


def sequoia_size(
    acceptance_vector: Sequence[float],
    *,
    nodes: int,
    depth: int,
    draft_seconds: float,
    verify_seconds: Callable[[int], float],
) -> tuple[int, int]:
    """(nodes, depth) of the tree with the fewest seconds a token on this hardware; (0, 0) is plain decoding.

    A round with m drafted nodes on d levels takes d * `draft_seconds` + `verify_seconds(m)`. Sizes up to `nodes` and
    `depth` are compared; ties go to fewer levels, then to fewer nodes.
    """
    check_number("draft_seconds", draft_seconds)
    table = _Table(acceptance_vector, nodes, depth)
    seconds = [verify_seconds(size) for size in range(nodes + 1)]
    for size, found in enumerate(seconds):
        check_number(f"verify_seconds({size})", found, above=True)
    per_token = {
        (levels, size): (levels * draft_seconds + seconds[size]) / table.best[levels, size]
        for levels in range(depth + 1)
        for size in range(nodes + 1)
        if table.best[levels, size] > 0
    }
    levels, size = min(per_token, key=lambda at: (per_token[at], at))
    return size, levels


class _Table:
    """`best[l, m]`: most tokens of a tree of exactly m nodes below its root on at most l levels; -inf if there is none.

    Filled from T[l][b][m], the same for a root with b children: its b-th child has a subtree of some size y, so
    T[l][b][m] = max over y of T[l][b - 1][m - y] + v_b best[l - 1][y - 1].
    """

    def __init__(self, acceptance_vector: Sequence[float], nodes: int, depth: int) -> None:
        check_whole("nodes", nodes, 0)
        check_whole("depth", depth, 0)
        chances = [float(chance) for chance in acceptance_vector]
        if not all(chance >= 0 for chance in chances) or sum(chances) > 1 + _SLACK:
            raise ValueError(
                f"acceptance_vector is {chances}; its entries are chances of exclusive events: not negative, sum at "
                "most 1 - give P(the b-th child is the one accepted), not P(accepted | refused before)"
            )
        children = min(len(chances), nodes)
        self.best: Float64[ndarray, "levels sizes"] = np.full((depth + 1, nodes + 1), -np.inf)
        self.best[0, 0] = 1
        self._fan_out = np.zeros((depth + 1, nodes + 1), dtype=np.int64)
        self._last: Int64[ndarray, "levels children sizes"] = np.zeros((depth + 1, children + 1, nodes + 1), np.int64)
        for levels in range(1, depth + 1):
            filled = self._fill(levels, chances[:children])
            self._fan_out[levels] = filled.argmax(axis=0)
            self.best[levels] = filled.max(axis=0)

    def _fill(self, levels: int, chances: Sequence[float]) -> Float64[ndarray, "children sizes"]:
        sizes = self.best.shape[1]
        filled = np.full((len(chances) + 1, sizes), -np.inf)
        filled[0, 0] = 1
        exists = self.best[levels - 1] > 0
        for child, chance in enumerate(chances, start=1):
            subtree = np.full(sizes, -np.inf)
            subtree[exists] = chance * self.best[levels - 1, exists]
            for size in range(1, sizes):
                value = filled[child - 1, size - 1 :: -1] + subtree[:size]
                self._last[levels, child, size] = value.argmax() + 1
                filled[child, size] = value.max()
        return filled

    def children(self, levels: int, size: int) -> list[int]:
        """Sizes of the subtrees below the root of the best tree, themselves included, first child first."""
        sizes: list[int] = []
        for child in range(int(self._fan_out[levels, size]), 0, -1):
            sizes.append(int(self._last[levels, child, size]))
            size -= sizes[-1]
        return sizes[::-1]
