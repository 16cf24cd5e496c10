"""What a drafter hands to a rule: drafted tokens and the law each was drawn from."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Bool, Float, Int
import torch
from torch import Tensor

from specdec_core.arguments import check_whole

Proposal = Literal["chain", "coupled", "iid", "without_replacement", "deterministic"]
PROPOSALS: tuple[Proposal, ...] = ("chain", "coupled", "iid", "without_replacement", "deterministic")


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Drafted nodes in topological order; `parents[n]` is a node index, or -1 for the pending token.

    The pending token (already emitted, not yet fed to the target) is the root and is not a node. Duplicate
    siblings are kept apart. A chain is the tree with parents -1, 0, 1, ...
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents):
            raise ValueError(
                f"parents has {len(self.parents)} entries for {len(self.tokens)} tokens; give one parent a token"
            )
        for node, (token, parent) in enumerate(zip(self.tokens, self.parents)):
            check_whole(f"tokens[{node}]", token)
            if not -1 <= check_whole(f"parents[{node}]", parent) < node:
                raise ValueError(
                    f"parents[{node}] is {parent}; a parent comes before its child and is -1 (the pending token) "
                    f"or one of 0..{node - 1}"
                )

    @classmethod
    def chain(cls, tokens: tuple[int, ...] | list[int]) -> "DraftTree":
        """The tree in which each token continues the one before it."""
        whole = tuple(check_whole(f"tokens[{node}]", token) for node, token in enumerate(tokens))
        return cls(whole, tuple(range(-1, len(whole) - 1)))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Whether every node continues the node before it."""
        return self.parents == tuple(range(-1, len(self.tokens) - 1))

    @property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the pending token, counted from 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    def paths(self) -> tuple[tuple[int, ...], ...]:
        """For each node the nodes from the root down to it, itself included."""
        paths: list[tuple[int, ...]] = []
        for node, parent in enumerate(self.parents):
            paths.append((() if parent < 0 else paths[parent]) + (node,))
        return tuple(paths)

    def children(self, node: int) -> list[int]:
        """The nodes whose parent is `node` (-1: the pending token), in order."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def position_ids(self, offset: int) -> Int[Tensor, " rows"]:
        """Positions of the pending token (`offset`) and of every node (`offset` + depth): rows = nodes + 1."""
        return torch.tensor([offset, *(offset + depth for depth in self.depths)], dtype=torch.long)

    def attention_mask(self, prefix_len: int) -> Bool[Tensor, "rows total"]:
        """True where row i may look at column j; rows = nodes + 1, total = prefix_len + rows.

        Row and column order is: the cached prefix, the pending token, the nodes. A row sees the prefix, the
        pending token, its ancestors and itself.
        """
        rows = len(self.tokens) + 1
        mask = torch.zeros(rows, prefix_len + rows, dtype=torch.bool)
        mask[:, : prefix_len + 1] = True
        for node, path in enumerate(self.paths()):
            for ancestor in path:
                mask[node + 1, prefix_len + 1 + ancestor] = True
        return mask


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafted tokens as a tree, the laws they were drawn from, and how.

    `draft_probs[n]` is the very tensor node n was sampled from; a deterministic proposal has none (its law
    is one-hot). The engine refuses a rule that does not accept the `proposal`.
    """

    tree: DraftTree
    draft_probs: Float[Tensor, "nodes vocab"] | None
    proposal: Proposal

    def __post_init__(self) -> None:
        if self.proposal not in PROPOSALS:
            raise ValueError(f"proposal is {self.proposal!r}; expected one of {', '.join(PROPOSALS)}")
        if self.proposal == "deterministic" and self.draft_probs is not None:
            raise ValueError("a deterministic draft has draft_probs None: its law is one-hot, not the model's softmax")
        if self.proposal != "deterministic" and self.draft_probs is None and len(self.tree) > 0:
            raise ValueError(f"a {self.proposal} draft needs draft_probs, the laws its tokens were drawn from")
        if self.draft_probs is not None and self.draft_probs.shape[0] != len(self.tree):
            raise ValueError(f"draft_probs has {self.draft_probs.shape[0]} rows for {len(self.tree)} drafted tokens")

    @property
    def tokens(self) -> tuple[int, ...]:
        """The drafted tokens in node order."""
        return self.tree.tokens

    @classmethod
    def empty(cls) -> "Draft":
        """No draft: the round becomes one plain step."""
        return cls(DraftTree((), ()), None, "deterministic")
