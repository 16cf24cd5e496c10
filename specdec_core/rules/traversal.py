"""Traversal verification: paths of a draft tree are judged as a whole, from the leaves up."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from specdec_core.coins.protocol import Coins
from specdec_core.draft import DraftTree
from specdec_core.residual import Law, divided, mass, one_hot, scaled_excess, without
from specdec_core.rules.checks import check_tree
from specdec_core.rules.ratio import capped_ratio
from specdec_core.rules.verdict import Kind, Verdict


@dataclass(slots=True)
class _Node:
    """What is left at a node: its target law, its weight, the law of its next children, and those children."""

    p: Law
    weight: float | Fraction
    q: Law | None
    children: list[int]
    kind: Kind = "bonus"


def verify_traversal(
    tree: DraftTree, draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """Accepts the first path, leftmost leaf first, that passes as a whole; same law as the target.

    A child's weight is min(1, w p(x) / q(x)) with the weight w of its parent (root: 1). The leftmost leaf is accepted
    with its weight, and with it its whole path. Refused, it is deleted; at its parent the excess max(w p - q, 0) with
    sum Z becomes the target's law and w becomes Z / (Z + 1 - w). A node without children is a leaf itself. The next
    token comes from the law left at the accepted node. On a chain this is block verification.

    Siblings are drawn independently, or are deterministic (q one-hot).

    Source: Weng et al. 2505.12398, algorithm 1, in a form derived anew.
    """
    return _traverse(tree, draft_probs, target_probs, coins, replace=True)


def verify_traversal_without_replacement(
    tree: DraftTree, draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """`verify_traversal` for siblings drawn without replacement: a refused token leaves q too."""
    return _traverse(tree, draft_probs, target_probs, coins, replace=False)


def _traverse(
    tree: DraftTree, draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins, *, replace: bool
) -> Verdict:
    check_tree(tree, draft_probs, target_probs)
    nodes = {-1: _Node(target_probs[0], 1, None, tree.children(-1))}
    path = [-1]
    while True:
        node = nodes[path[-1]]
        while node.children:
            child = node.children[0]
            node.q = _child_law(node, tree.tokens[child], None if draft_probs is None else draft_probs[child])
            token = tree.tokens[child]
            weight = capped_ratio(node.weight * mass(node.p, token), mass(node.q, token))
            nodes[child] = node = _Node(target_probs[child + 1], weight, None, tree.children(child))
            path.append(child)
        leaf = path[-1]
        # the root always passes: its weight is 1
        if leaf < 0 or coins.accept(node.weight, 1, node=leaf):
            purpose = "bonus" if node.kind == "bonus" else "recover"
            accepted = tuple(path[1:])
            return Verdict(len(accepted), accepted, coins.draw(node.p, node=leaf + 1, purpose=purpose), node.kind)
        path.pop()
        _refuse(nodes[path[-1]], tree.tokens[leaf], replace=replace or draft_probs is None)


def _child_law(node: _Node, token: int, draft_law: Law | None) -> Law:
    """The law the next child was drawn from: one-hot, or what the parent's q has become."""
    if draft_law is None:
        return one_hot(node.p, token)
    return draft_law if node.q is None else node.q


def _refuse(parent: _Node, token: int, *, replace: bool) -> None:
    """Takes the first child away and what it stood for out of the parent's law."""
    assert parent.q is not None
    excess, total = scaled_excess(parent.p, parent.q, parent.weight)
    # 1 - w first: a total below 2^-53 would vanish beside 1 and leave 0 / 0 at w = 1
    parent.weight = total / (total + (1 - parent.weight)) if total > 0 or parent.weight < 1 else 1
    if total > 0:
        parent.p = divided(excess, total)
    parent.kind = "recovered"
    parent.children = parent.children[1:]
    if not replace:
        parent.q = without(parent.q, token)
        if parent.q is None:
            parent.children = []
