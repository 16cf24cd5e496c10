"""Verification of draft trees: a walk down from the pending token, one child accepted at each level."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from specdec_core.coins.protocol import Coins
from specdec_core.draft import DraftTree
from specdec_core.residual import Law, mass, residual, residual_of_one_hot, without
from specdec_core.rules.checks import check_tree
from specdec_core.rules.kseq import verify_kseq
from specdec_core.rules.traversal import verify_traversal, verify_traversal_without_replacement
from specdec_core.rules.verdict import Verdict

TreeMethod = Literal[
    "recursive",
    "recursive_without_replacement",
    "kseq",
    "target_only",
    "traversal",
    "traversal_without_replacement",
]


def verify_tree(
    tree: DraftTree,
    draft_probs: Sequence[Law] | None,
    target_probs: Sequence[Law],
    coins: Coins,
    *,
    method: TreeMethod,
) -> Verdict:
    """The verdict of `method` on a draft tree; every method has exactly the target's law.

    Row 0 of `target_probs` belongs to the pending token, row n + 1 to node n. `draft_probs[n]` is the law that the
    children of n's parent were drawn from (the same for all siblings; drawing without replacement removes earlier
    siblings from it), None for deterministic children.

    Raises:
        ValueError: an unknown method, counts that do not fit, a token outside the vocabulary, or a draft the method
            cannot judge.
    """
    if method not in _METHODS:
        raise ValueError(f"method is {method!r}; expected one of {', '.join(get_args(TreeMethod))}")
    return _METHODS[method](tree, draft_probs, target_probs, coins)


def verify_recursive(
    tree: DraftTree, draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """Recursive rejection with replacement: siblings drawn independently from q, each judged against what is left.

    At a node p starts as the target's law; child x is kept when u * q(x) < p(x), and a refusal turns p into the
    residual max(p - q, 0), normalised. Deterministic children have q one-hot: kept with probability p(x), else x is
    taken out of p. Refused by all children, the next token comes from p.

    Source: SpecInfer 2305.09781, section 4.3 (multi-step speculative sampling); EAGLE 2401.15077 for one-hot q.
    """
    return _walk(tree, draft_probs, target_probs, coins, replace=True)


def verify_recursive_without_replacement(
    tree: DraftTree, draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """Recursive rejection for siblings drawn without replacement: a refused token leaves q too.

    Source: RSD 2402.14160, algorithm 1; Sequoia 2402.12374, algorithm 2.
    """
    return _walk(tree, draft_probs, target_probs, coins, replace=False)


def verify_target_only(
    tree: DraftTree, draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins
) -> Verdict:
    """One draw from p at each node of the walk; a child with that token is entered, otherwise the draw is the end.

    Draft laws are not read; a level is passed with probability p(children). One draw a node, never one a candidate.

    Source: SpecInfer 2305.09781, section 4.3 (naive sampling); the tree sampler of SGLang at thresholds 1.
    """
    check_tree(tree, None, target_probs)
    path: list[int] = []
    while True:
        row = path[-1] + 1 if path else 0
        own = coins.draw(target_probs[row], node=len(path), purpose="sample")
        child = next((child for child in tree.children(row - 1) if tree.tokens[child] == own), None)
        if child is None:
            kind = "recovered" if tree.children(row - 1) else "bonus"
            return Verdict(len(path), tuple(path), own, kind)
        path.append(child)


def _walk(
    tree: DraftTree, draft_probs: Sequence[Law] | None, target_probs: Sequence[Law], coins: Coins, *, replace: bool
) -> Verdict:
    check_tree(tree, draft_probs, target_probs)
    path: list[int] = []
    while True:
        row = path[-1] + 1 if path else 0
        children = tree.children(row - 1)
        p: Law = target_probs[row]
        q = draft_probs[children[0]] if children and draft_probs is not None else None
        accepted = None
        for child in children:
            token = tree.tokens[child]
            if coins.accept(mass(p, token), 1 if q is None else mass(q, token), node=child):
                accepted = child
                break
            p = residual_of_one_hot(p, token) if q is None else residual(p, q)
            if q is not None and not replace:
                q = without(q, token)
                if q is None:
                    break
        if accepted is None:
            purpose, kind = ("recover", "recovered") if children else ("bonus", "bonus")
            return Verdict(len(path), tuple(path), coins.draw(p, node=row, purpose=purpose), kind)
        path.append(accepted)


_METHODS: dict[str, Callable[[DraftTree, Sequence[Law] | None, Sequence[Law], Coins], Verdict]] = {
    "recursive": verify_recursive,
    "recursive_without_replacement": verify_recursive_without_replacement,
    "kseq": verify_kseq,
    "target_only": verify_target_only,
    "traversal": verify_traversal,
    "traversal_without_replacement": verify_traversal_without_replacement,
}
