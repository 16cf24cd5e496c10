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
    return branching**depth


def count_nodes(branching: int, depth: int) -> int:
    """Drafted nodes of that tree, all levels together; the pending token is not counted.

    >>> count_nodes(2, 3)
    14
    """
    return sum(branching**level for level in range(1, depth + 1))


# The number of candidates for branching factor 3 and depth 4.
PATHS_3_4 = 81


# %% E07.mask: who looks at whom in a tree
def tree_mask(parents: Sequence[int], prefix_len: int) -> list[list[bool]]:
    """The attention mask of a tree: True where row i may look at column j.

    Rows: the pending token, then the nodes. Columns: the cached prefix, the pending token, the nodes. A row looks at
    the whole prefix, at the pending token, at the nodes on its path, and at itself. A boolean tensor is fine too.

    >>> tree_mask([-1, -1], 0)
    [[True, False, False], [True, True, False], [True, False, True]]
    """
    rows = [[True] * (prefix_len + 1) + [False] * len(parents)]
    for node, parent in enumerate(parents):
        row = list(rows[parent + 1])
        row[prefix_len + 1 + node] = True
        rows.append(row)
    return rows


# %% E07.positions: where the nodes of a tree stand
def tree_positions(parents: Sequence[int], offset: int) -> list[int]:
    """Position ids of the pending token, which stands at `offset`, and of every node.

    >>> tree_positions([-1, -1, 0], 7)
    [7, 8, 8, 9]
    """
    positions = [offset]
    for parent in parents:
        positions.append(positions[parent + 1] + 1)
    return positions


# %% E07.siblings: judge several drafts for one slot
def judge_siblings(p: Law, q: Law, children: Sequence[int], coins: Any) -> tuple[int | None, int]:
    """(index of the accepted child or None, the token that comes out), for children drawn independently from q.

    The children are tried in order. Child x is accepted with probability min(1, p(x)/q(x)); a refusal turns p into the
    residual max(p - q, 0), normalised, by which the next child is judged. Refused by all, the token comes from what p
    is then. The token that comes out has exactly the law p.

        coins.accept(p, q, node=i)                        True with probability min(1, p/q)
        coins.draw(weights, node=0, purpose="recover")    an index with probability proportional to its weight
    """
    left = list(p)
    for index, token in enumerate(children):
        if coins.accept(left[token], q[token], node=index):
            return index, token
        excess = [max(p_x - q_x, 0) for p_x, q_x in zip(left, q, strict=True)]
        left = [mass / sum(excess) for mass in excess]
    return None, coins.draw(left, node=0, purpose="recover")


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
DUPLICATE_INPUT = ([Fraction(1, 2), Fraction(1, 2)], [0, 0])


def mended_duplicates(p: Law, children: Sequence[int], coins: Any) -> tuple[int | None, int]:
    """`judges_twins_again`, mended: the output has exactly the law p, and every distinct child keeps its chance."""
    left = list(p)
    for index, token in enumerate(children):
        if coins.accept(left[token], sum(left), node=index):
            return index, token
        left[token] = Fraction(0)
    return None, coins.draw(left, node=0, purpose="recover")


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
REPLACEMENT_INPUT = (
    [Fraction(0), Fraction(1, 3), Fraction(2, 3)],
    [Fraction(1, 2), Fraction(0), Fraction(1, 2)],
)


def mended_replacement(p: Law, q: Law, children: Sequence[int], coins: Any) -> tuple[int | None, int]:
    """`judges_as_if_replaced`, mended: each child is judged by the law it was drawn from."""
    left, drawn_from = list(p), list(q)
    for index, token in enumerate(children):
        if coins.accept(left[token], drawn_from[token], node=index):
            return index, token
        excess = [max(p_x - q_x, 0) for p_x, q_x in zip(left, drawn_from, strict=True)]
        left = [mass / sum(excess) for mass in excess] if any(excess) else left
        drawn_from[token] = Fraction(0)
        rest = sum(drawn_from)
        drawn_from = [mass / rest for mass in drawn_from] if rest else drawn_from
    return None, coins.draw(left, node=0, purpose="recover")
