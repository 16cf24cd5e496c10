"""Typical wrong answers to E07.positions."""

from collections.abc import Sequence

from specdec_labs.grade.zoo import wrong


def depths(parents: Sequence[int]) -> list[int]:
    """Depth of each node, from 1."""
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent < 0 else found[parent] + 1)
    return found


@wrong(
    "E07.positions",
    "tree_positions",
    "siblings_stand_at_the_same_place",
    "your function numbers the rows one after another. Siblings are candidates for one place and share its number.",
)
def row_numbers(parents: Sequence[int], offset: int) -> list[int]:
    return list(range(offset, offset + len(parents) + 1))


@wrong(
    "E07.positions",
    "tree_positions",
    "depth_decides",
    "your function stands every node right behind the pending token, whatever its depth.",
)
def one_level_only(parents: Sequence[int], offset: int) -> list[int]:
    return [offset, *(offset + 1 for _ in parents)]


@wrong(
    "E07.positions",
    "tree_positions",
    "siblings_stand_at_the_same_place",
    "your first level stands at `offset`, where the pending token already stands; a child is one place behind.",
)
def one_place_too_early(parents: Sequence[int], offset: int) -> list[int]:
    return [offset, *(offset + depth - 1 for depth in depths(parents))]


@wrong(
    "E07.positions",
    "tree_positions",
    "the_pending_token_stands_at_the_offset",
    "your positions start at 0, as if nothing were cached. They go on where the cached prefix ends.",
)
def forgets_the_offset(parents: Sequence[int], offset: int) -> list[int]:
    return [0, *depths(parents)]


@wrong(
    "E07.positions",
    "tree_positions",
    "the_pending_token_stands_at_the_offset",
    "your function has no row for the pending token; it is fed in this pass.",
)
def forgets_the_pending_token(parents: Sequence[int], offset: int) -> list[int]:
    return [offset + depth for depth in depths(parents)]


@wrong(
    "E07.positions",
    "tree_positions",
    "depth_decides",
    "your function adds the number of the parent in place of its position; that holds only for a chain.",
)
def parents_number(parents: Sequence[int], offset: int) -> list[int]:
    return [offset, *(offset + parent + 2 for parent in parents)]
