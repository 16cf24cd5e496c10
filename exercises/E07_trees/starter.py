"""E07: trees of drafts.

Nodes are numbered so that a parent comes before its children; parent -1 is the pending token, which was emitted
already, has not been fed yet, and is no node.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

Law = Sequence[Fraction]


# %% E07.paths: how many candidates a tree holds
def count_paths(branching: int, depth: int) -> int:
    """Candidate texts (paths from the pending token to a leaf) when every node above the last level has `branching`.

    >>> count_paths(2, 3)
    8
    """
    raise NotImplementedError("E07.paths: count_paths(branching, depth)")


def count_nodes(branching: int, depth: int) -> int:
    """Drafted nodes of that tree, all levels together; the pending token is not counted.

    >>> count_nodes(2, 3)
    14
    """
    raise NotImplementedError("E07.paths: count_nodes(branching, depth)")


# The number of candidates for branching factor 3 and depth 4.
PATHS_3_4 = None


# %% E07.mask: who looks at whom in a tree
def tree_mask(parents: Sequence[int], prefix_len: int) -> list[list[bool]]:
    """The attention mask of a tree: True where row i may look at column j.

    Rows: the pending token, then the nodes. Columns: the cached prefix, the pending token, the nodes. A row looks at
    the whole prefix, at the pending token, at the nodes on its path, and at itself. A boolean tensor is fine too.

    >>> tree_mask([-1, -1], 0)
    [[True, False, False], [True, True, False], [True, False, True]]
    """
    raise NotImplementedError("E07.mask: tree_mask(parents, prefix_len)")


# %% E07.positions: where the nodes of a tree stand
def tree_positions(parents: Sequence[int], offset: int) -> list[int]:
    """Position ids of the pending token, which stands at `offset`, and of every node.

    >>> tree_positions([-1, -1, 0], 7)
    [7, 8, 8, 9]
    """
    raise NotImplementedError("E07.positions: tree_positions(parents, offset)")


# %% E07.siblings: judge several drafts for one slot
def judge_siblings(p: Law, q: Law, children: Sequence[int], coins: Any) -> tuple[int | None, int]:
    """(index of the accepted child or None, the token that comes out), for children drawn independently from q.

    The children are tried in order. Child x is accepted with probability min(1, p(x)/q(x)); a refusal turns p into the
    residual max(p - q, 0), normalised, by which the next child is judged. Refused by all, the token comes from what p
    is then. The token that comes out has exactly the law p.

        coins.accept(p, q, node=i)                        True with probability min(1, p/q)
        coins.draw(weights, node=0, purpose="recover")    an index with probability proportional to its weight
    """
    raise NotImplementedError("E07.siblings: judge_siblings(p, q, children, coins)")


# %% E07.duplicates: a duplicate sibling judged twice
def judges_twins_again(p: Law, children: Sequence[int], coins: Any) -> tuple[int | None, int]:
    """Broken, and given: judges children that are certain (q is one-hot), for example from two lookups.

    Child x is kept with p(x) over what the other refused tokens left. Returns (index of the accepted child or None, the
    token that comes out).
    """
    refused: set[int] = set()
    for index, token in enumerate(children):
        left = 1 - sum(p[other] for other in refused - {token})
        if coins.accept(p[token], left, node=index):
            return index, token
        refused.add(token)
    rest = [0 if token in refused else mass for token, mass in enumerate(p)]
    return None, coins.draw(rest, node=0, purpose="recover")


# The smallest (p, children), p in Fractions, for which the output of `judges_twins_again` has not the law p: as few
# tokens as possible, then the largest denominator as small as possible, then as few children as possible.
DUPLICATE_INPUT = None


def mended_duplicates(p: Law, children: Sequence[int], coins: Any) -> tuple[int | None, int]:
    """`judges_twins_again`, mended: the output has exactly the law p, and every distinct child keeps its chance."""
    raise NotImplementedError("E07.duplicates: mended_duplicates(p, children, coins)")


# %% E07.replacement: siblings drawn without replacement, judged as if with
def judges_as_if_replaced(p: Law, q: Law, children: Sequence[int], coins: Any) -> tuple[int | None, int]:
    """Broken, and given: the children were drawn from q without replacement; each is judged by the whole of q.

    Returns (index of the accepted child or None, the token that comes out).
    """
    left = list(p)
    for index, token in enumerate(children):
        if coins.accept(left[token], q[token], node=index):
            return index, token
        excess = [max(p_x - q_x, 0) for p_x, q_x in zip(left, q, strict=True)]
        left = [mass / sum(excess) for mass in excess] if any(excess) else left
    return None, coins.draw(left, node=0, purpose="recover")


# The smallest (p, q) of Fractions for which the output has not the law p, with two children drawn without replacement:
# as few tokens as possible, then the largest denominator as small as possible.
REPLACEMENT_INPUT = None


def mended_replacement(p: Law, q: Law, children: Sequence[int], coins: Any) -> tuple[int | None, int]:
    """`judges_as_if_replaced`, mended: each child is judged by the law it was drawn from."""
    raise NotImplementedError("E07.replacement: mended_replacement(p, q, children, coins)")
