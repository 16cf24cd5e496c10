"""What `max_passes` means for trees, as scalar rules: with few passes fewer drafts are looked at, and the law stays.

A walk may stop looking at further drafts whenever that depends on nothing but what it has seen: the tree might as well
have ended there. So a bound costs acceptance, never exactness. The kernels make the same decisions launch by launch.
"""

from collections.abc import Sequence

from specdec_core.coins.protocol import Coins
from specdec_core.draft import DraftTree
from specdec_core.residual import Law, divided, mass, residual, scaled_excess, without
from specdec_core.rules import Verdict
from specdec_core.rules import verify_tree as tree_rule
from specdec_core.rules.checks import check_tree
from specdec_core.rules.ratio import capped_ratio


def check_passes(max_passes: int | None) -> None:
    """ValueError for a negative bound."""
    if max_passes is not None and max_passes < 0:
        raise ValueError(f"max_passes is {max_passes}; expected at least 0, or None for as many as there are nodes")


def verify_tree_bounded(
    tree: DraftTree,
    draft_probs: Sequence[Law] | None,
    target_probs: Sequence[Law],
    coins: Coins,
    *,
    method: str,
    max_passes: int | None,
) -> Verdict:
    """The verdict of `specdec_core.rules.verify_tree` with at most `max_passes` passes; None: as many as it takes.

    A pass sums a law over the vocabulary. Recursive rejection needs one after a refusal with a further sibling; with
    none left it draws from what that refusal left. Traversal needs one after every refusal, and enters a child at depth
    d + 1 only while d passes are left, so that it can always go back up. Target-only enters a child only while a level
    is left. Deterministic children of the first two need no pass, so nothing bounds them.

    Raises:
        ValueError: a negative `max_passes`, or whatever the rule finds.
    """
    check_passes(max_passes)
    if max_passes is None or (draft_probs is None and method != "target_only"):
        return tree_rule(tree, draft_probs, target_probs, coins, method=method)  # pyright: ignore[reportArgumentType]
    check_tree(tree, None if method == "target_only" else draft_probs, target_probs)
    if draft_probs is None or method == "target_only":
        return _target_only(tree, target_probs, coins, max_passes)
    bounded = _recursive if method.startswith("recursive") else _traversal
    return bounded(tree, draft_probs, target_probs, coins, max_passes, not method.endswith("without_replacement"))


def _target_only(tree: DraftTree, target_probs: Sequence[Law], coins: Coins, levels: int) -> Verdict:
    path: list[int] = []
    while True:
        row = path[-1] + 1 if path else 0
        own = coins.draw(target_probs[row], node=len(path), purpose="sample")
        children = tree.children(row - 1) if len(path) < levels else []
        child = next((child for child in children if tree.tokens[child] == own), None)
        if child is None:
            return Verdict(len(path), tuple(path), own, "recovered" if children else "bonus")
        path.append(child)


def _recursive(
    tree: DraftTree,
    draft_probs: Sequence[Law],
    target_probs: Sequence[Law],
    coins: Coins,
    passes: int,
    replace: bool,
) -> Verdict:
    path: list[int] = []
    while True:
        row = path[-1] + 1 if path else 0
        children, p = tree.children(row - 1), target_probs[row]
        q: Law | None = draft_probs[children[0]] if children else None
        accepted = None
        for child in children:
            if q is None:
                break
            token = tree.tokens[child]
            if coins.accept(mass(p, token), mass(q, token), node=child):
                accepted = child
                break
            p = residual(p, q)
            if child != children[-1]:
                passes -= 1
            if passes < 0:
                break
            q = q if replace else without(q, token)
        if accepted is None:
            purpose, kind = ("recover", "recovered") if children else ("bonus", "bonus")
            return Verdict(len(path), tuple(path), coins.draw(p, node=row, purpose=purpose), kind)
        path.append(accepted)


def _traversal(
    tree: DraftTree,
    draft_probs: Sequence[Law],
    target_probs: Sequence[Law],
    coins: Coins,
    passes: int,
    replace: bool,
) -> Verdict:
    # of each node on the path: what is left of its law, its weight, the law of its next children, and those children
    laws, weights, proposals = {-1: target_probs[0]}, {-1: capped_ratio(1, 1)}, dict[int, Law | None]()
    children, refused, path = {-1: tree.children(-1)}, set[int](), [-1]
    while True:
        node = path[-1]
        while children[node] and len(path) - 1 <= passes:
            child = children[node][0]
            q, token = proposals.setdefault(node, draft_probs[child]), tree.tokens[child]
            assert q is not None
            weights[child] = capped_ratio(weights[node] * mass(laws[node], token), mass(q, token))
            laws[child], children[child] = target_probs[child + 1], tree.children(child)
            path.append(child)
            node = child
        if node < 0 or coins.accept(weights[node], 1, node=node):
            kind, purpose = ("recovered", "recover") if node in refused else ("bonus", "bonus")
            token = coins.draw(laws[node], node=node + 1, purpose=purpose)
            return Verdict(len(path) - 1, tuple(path[1:]), token, kind)
        path.pop()
        parent, weight = path[-1], weights[path[-1]]
        q = proposals[parent]
        assert q is not None
        passes -= weight > 0
        excess, total = scaled_excess(laws[parent], q, weight)
        weights[parent] = total / (total + (1 - weight)) if total > 0 or weight < 1 else 1
        laws[parent] = divided(excess, total) if total > 0 else laws[parent]
        refused.add(parent)
        proposals[parent] = q if replace else without(q, tree.tokens[node])
        children[parent] = children[parent][1:] if proposals[parent] is not None else []
