"""Many draft trees at once: who is whose child, and how deep."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Bool, Float, Int, Int64
import torch
from torch import Tensor

from specdec_core.rules.batched.checks import check_batch, check_parents
from specdec_core.rules.batched.coins import BatchCoins
from specdec_core.rules.batched.laws import groups
from specdec_core.rules.batched.ragged import Ragged
from specdec_core.rules.batched.verdict import BatchVerdict, tree_verdict


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """The drafts of a batch as trees; nodes are slots, the places where children hang are rows of the target.

    Attributes:
        batch: where each request's slots and rows lie.
        first_child: for each row the slot of its first child, -1 where it has none.
        next_sibling: for each slot the next child of the same parent, -1 after the last.
        row: for each slot its own row.
        deepest: the most nodes on a path.
    """

    batch: Ragged
    first_child: Int64[Tensor, " rows"]
    next_sibling: Int64[Tensor, " slots"]
    row: Int64[Tensor, " slots"]
    deepest: int

    @classmethod
    def of(
        cls, draft_tokens: Int[Tensor, " slots"], cu_num_draft: Int[Tensor, " batch+1"], parents: Int[Tensor, " slots"]
    ) -> "Forest":
        """The trees that `parents`, numbered within each request and -1 for the pending token, describe."""
        batch = Ragged.of(draft_tokens, cu_num_draft)
        first_row = batch.first_row[batch.request_of_slot]
        row, parent_row = first_row + batch.node_of_slot + 1, first_row + parents.to(torch.int64) + 1
        order = torch.argsort(parent_row, stable=True)
        together = parent_row[order[1:]] == parent_row[order[:-1]]
        next_sibling = torch.full_like(order, -1)
        next_sibling[order[:-1][together]] = order[1:][together]
        is_first = torch.ones_like(order, dtype=torch.bool)
        is_first[1:] = ~together
        first_child = torch.full((len(order) + len(batch),), -1, dtype=torch.int64, device=order.device)
        first_child[parent_row[order[is_first]]] = order[is_first]
        return cls(batch, first_child, next_sibling, row, _deepest(batch, row, parent_row))

    def __len__(self) -> int:
        return len(self.batch)

    def node(self, slots: Int64[Tensor, " some"]) -> Int64[Tensor, " some"]:
        """The number of each slot within its request."""
        return self.batch.node_of_slot[slots]


def checked_forest(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    parents: Int[Tensor, " slots"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "rows vocab"],
    coins: BatchCoins,
    *,
    validate: bool,
) -> Forest:
    """The trees of a batch, after all checks when asked for."""
    if validate:
        check_batch(draft_tokens, cu_num_draft, draft_probs, target_probs, coins)
        check_parents(parents, cu_num_draft, draft_probs)
    return Forest.of(draft_tokens, cu_num_draft, parents)


class Judged(Protocol):
    """A group of requests whose trees are judged together; the verdicts stand once `run` is through."""

    @property
    def path(self) -> Int64[Tensor, "group deepest"]: ...
    @property
    def num_accepted(self) -> Int64[Tensor, " group"]: ...
    @property
    def next_token(self) -> Int64[Tensor, " group"]: ...
    @property
    def is_bonus(self) -> Bool[Tensor, " group"]: ...

    def run(self, coins: BatchCoins) -> None:
        """Asks `coins` all there is to ask."""
        ...


def judge_in_groups(
    forest: Forest, vocab: int, coins: BatchCoins, group: Callable[[Int64[Tensor, " group"]], Judged]
) -> BatchVerdict:
    """The verdicts of all trees, a group of requests at a time, so that worn laws never fill the memory."""
    path = torch.full((len(forest), forest.deepest), -1, dtype=torch.int64, device=forest.row.device)
    num_accepted, next_token = torch.zeros_like(forest.batch.counts), torch.zeros_like(forest.batch.counts)
    is_bonus = torch.zeros_like(num_accepted, dtype=torch.bool)
    for part in groups(len(forest), vocab):
        judged = group(torch.arange(part.start, part.stop, device=forest.row.device))
        judged.run(coins)
        path[part], num_accepted[part] = judged.path, judged.num_accepted
        next_token[part], is_bonus[part] = judged.next_token, judged.is_bonus
    return tree_verdict(forest.batch, num_accepted, path, next_token, is_bonus)


def _deepest(batch: Ragged, row: Tensor, parent_row: Tensor) -> int:
    parent_of_row = torch.full((len(row) + len(batch),), -1, dtype=torch.int64, device=row.device)
    parent_of_row[row] = parent_row
    depth, at = 0, row
    while len(at := at[parent_of_row[at] >= 0]):
        depth, at = depth + 1, parent_of_row[at]
    return depth
