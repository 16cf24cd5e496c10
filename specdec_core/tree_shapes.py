"""Shapes of draft trees, as the parents of their nodes: chains, every ordered tree, renumbering."""

from collections.abc import Iterator

from specdec_core.draft import DraftTree

Parents = tuple[int, ...]


def shape_of(parents: Parents) -> DraftTree:
    """The tree of this shape, its tokens all 0."""
    return DraftTree((0,) * len(parents), parents)


def chain_shape(nodes: int) -> Parents:
    """The parents of a chain."""
    return tuple(range(-1, nodes - 1))


def ordered_shapes(nodes: int) -> Iterator[Parents]:
    """Every ordered tree of `nodes` drafted nodes once, level by level: 1, 2, 5, 14, 42, ... (Catalan numbers)."""

    def extend(parents: Parents) -> Iterator[Parents]:
        if len(parents) == nodes:
            yield parents
            return
        for parent in range(parents[-1] if parents else -1, len(parents)):
            yield from extend((*parents, parent))

    yield from extend(())


def depth_first(parents: Parents) -> Parents:
    """The same ordered tree with its nodes numbered depth first, as a drafter that follows branches numbers them."""
    shape = shape_of(parents)
    order: list[int] = []
    waiting = shape.children(-1)[::-1]
    while waiting:
        order.append(waiting.pop())
        waiting += shape.children(order[-1])[::-1]
    number = {-1: -1, **{node: place for place, node in enumerate(order)}}
    return tuple(number[parents[node]] for node in order)


def sibling_ranks(parents: Parents) -> tuple[int, ...]:
    """For each node how many children of its parent come before it."""
    seen: dict[int, int] = {}
    ranks: list[int] = []
    for parent in parents:
        ranks.append(seen.get(parent, 0))
        seen[parent] = ranks[-1] + 1
    return tuple(ranks)
