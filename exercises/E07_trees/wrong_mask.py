"""Typical wrong answers to E07.mask."""

from collections.abc import Sequence

from specdec_labs.grade.zoo import wrong


def right(parents: Sequence[int], prefix_len: int) -> list[list[bool]]:
    """As in the solution."""
    rows = [[True] * (prefix_len + 1) + [False] * len(parents)]
    for node, parent in enumerate(parents):
        row = list(rows[parent + 1])
        row[prefix_len + 1 + node] = True
        rows.append(row)
    return rows


@wrong(
    "E07.mask",
    "tree_mask",
    "not_at_other_branches",
    "your mask is the causal one: every row looks at all rows before it, other branches included.",
)
def causal(parents: Sequence[int], prefix_len: int) -> list[list[bool]]:
    size = len(parents) + 1
    return [[column <= prefix_len + row for column in range(prefix_len + size)] for row in range(size)]


@wrong(
    "E07.mask",
    "tree_mask",
    "sees_what_is_before_the_tree",
    "your mask lets the nodes look at the tree alone; the cached prefix is their text too.",
)
def forgets_the_prefix(parents: Sequence[int], prefix_len: int) -> list[list[bool]]:
    return [[cell and column >= prefix_len for column, cell in enumerate(row)] for row in right(parents, prefix_len)]


@wrong(
    "E07.mask",
    "tree_mask",
    "sees_itself",
    "in your mask a node does not look at itself.",
)
def blind_to_itself(parents: Sequence[int], prefix_len: int) -> list[list[bool]]:
    rows = right(parents, prefix_len)
    return [[cell and column != prefix_len + row for column, cell in enumerate(rows[row])] for row in range(len(rows))]


@wrong(
    "E07.mask",
    "tree_mask",
    "sees_its_ancestors",
    "in your mask a node looks at its parent, and not at what the parent looks at: its text has a hole.",
)
def parent_only(parents: Sequence[int], prefix_len: int) -> list[list[bool]]:
    rows = right(parents, prefix_len)
    for node, parent in enumerate(parents):
        allowed = {node, parent}
        rows[node + 1] = [True] * (prefix_len + 1) + [other in allowed for other in range(len(parents))]
    return rows


@wrong(
    "E07.mask",
    "tree_mask",
    "not_at_what_follows",
    "rows and columns of your tree part are swapped: ancestors look at their descendants.",
)
def transposed(parents: Sequence[int], prefix_len: int) -> list[list[bool]]:
    rows, size = right(parents, prefix_len), len(parents) + 1
    tree = [row[prefix_len:] for row in rows]
    return [[True] * (prefix_len + 1) + [tree[column][row] for column in range(1, size)] for row in range(size)]


@wrong(
    "E07.mask",
    "tree_mask",
    "has_a_row_for_the_pending_token",
    "your mask has no row and no column for the pending token. It is fed in this pass, and its law judges the "
    "first level.",
)
def forgets_the_pending_token(parents: Sequence[int], prefix_len: int) -> list[list[bool]]:
    return [row[:prefix_len] + row[prefix_len + 1 :] for row in right(parents, prefix_len)[1:]]


@wrong(
    "E07.mask",
    "tree_mask",
    "has_a_row_for_the_pending_token",
    "your mask holds numbers to be added (0 and -inf). Which number means 'no' belongs to the backend; give booleans.",
)
def additive(parents: Sequence[int], prefix_len: int) -> list[list[float]]:
    return [[0.0 if cell else float("-inf") for cell in row] for row in right(parents, prefix_len)]
