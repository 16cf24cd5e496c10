"""Drafters in exact arithmetic, for proofs: what a drafter may propose, with the weight of each proposal.

An exact drafter is called with (prefix, budget, coins) and answers with its drafts - a tuple of tokens for a chain,
a `DraftTree` otherwise - and the laws they were drawn from (None: deterministic).
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from specdec_core.coins import Coins
from specdec_core.draft import DraftTree, Proposal
from specdec_core.residual import without

Prefix = tuple[int, ...]
ExactLaw = Sequence[Fraction]
NextLaw = Callable[[Prefix], ExactLaw]
ExactDraft = Callable[[Prefix, int, Coins], tuple[Prefix | DraftTree, Sequence[ExactLaw] | None]]


def sampled_draft(draft: NextLaw, gamma: int) -> ExactDraft:
    """A drafter that draws up to `gamma` tokens in a chain from `draft`."""

    def propose(prefix: Prefix, budget: int, coins: Coins) -> tuple[Prefix, Sequence[ExactLaw]]:
        tokens: Prefix = ()
        laws: list[ExactLaw] = []
        for node in range(min(gamma, budget)):
            laws.append(draft(prefix + tokens))
            tokens += (coins.draw(laws[-1], node=node, purpose="draft"),)
        return tokens, laws

    return propose


def deterministic_draft(draft: Callable[[Prefix], int], gamma: int) -> ExactDraft:
    """A drafter that always proposes the same up to `gamma` tokens after a prefix."""

    def propose(prefix: Prefix, budget: int, coins: Coins) -> tuple[Prefix, None]:
        tokens: Prefix = ()
        for _ in range(min(gamma, budget)):
            tokens += (draft(prefix + tokens),)
        return tokens, None

    return propose


def tree_draft(draft: NextLaw, parents: Sequence[int], proposal: Proposal) -> ExactDraft:
    """A drafter that fills the shape `parents` from `draft`, siblings "iid" or "without_replacement".

    A node deeper than the budget is left out, and so is a sibling for which nothing is left to draw.
    """
    if proposal not in ("iid", "without_replacement"):
        raise ValueError(f"proposal is {proposal!r}; a sampled tree is 'iid' or 'without_replacement'")
    depths = DraftTree((0,) * len(parents), tuple(parents)).depths

    def propose(prefix: Prefix, budget: int, coins: Coins) -> tuple[DraftTree, Sequence[ExactLaw]]:
        tokens: list[int] = []
        kept_parents: list[int] = []
        laws: list[ExactLaw] = []
        number: dict[int, int] = {-1: -1}
        text: dict[int, Prefix] = {-1: prefix}
        for node, (parent, depth) in enumerate(zip(parents, depths)):
            if depth > budget or parent not in number:
                continue
            law: ExactLaw | None = draft(text[parent])
            if proposal == "without_replacement":
                for sibling, token in enumerate(tokens):
                    if kept_parents[sibling] == number[parent] and law is not None:
                        law = without(law, token)
            if law is None:
                continue
            number[node] = len(tokens)
            tokens.append(coins.draw(law, node=number[node], purpose="draft"))
            kept_parents.append(number[parent])
            laws.append(draft(text[parent]))
            text[node] = text[parent] + (tokens[-1],)
        return DraftTree(tuple(tokens), tuple(kept_parents)), laws

    return propose


def deterministic_tree(children: Callable[[Prefix], Sequence[int]], parents: Sequence[int]) -> ExactDraft:
    """A drafter that fills the shape `parents`: the j-th child of a node is the j-th token of `children(text)`."""
    shape = DraftTree((0,) * len(parents), tuple(parents))

    def propose(prefix: Prefix, budget: int, coins: Coins) -> tuple[DraftTree, None]:
        tokens: list[int] = []
        text: dict[int, Prefix] = {-1: prefix}
        kept = [node for node, depth in enumerate(shape.depths) if depth <= budget]
        number = {-1: -1, **{node: place for place, node in enumerate(kept)}}
        for node in kept:
            parent = shape.parents[node]
            tokens.append(children(text[parent])[shape.children(parent).index(node)])
            text[node] = text[parent] + (tokens[-1],)
        return DraftTree(tuple(tokens), tuple(number[shape.parents[node]] for node in kept)), None

    return propose
