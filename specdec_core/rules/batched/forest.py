"""Many draft trees at once: who is whose child, and how deep."""

from dataclasses import dataclass

from jaxtyping import Float, Int, Int64
import torch
from torch import Tensor

from specdec_core.rules.batched.checks import check_batch, check_parents
from specdec_core.rules.batched.coins import BatchCoins
from specdec_core.rules.batched.ragged import Ragged


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
        check_parents(parents, cu_num_draft)
    return Forest.of(draft_tokens, cu_num_draft, parents)


def _deepest(batch: Ragged, row: Tensor, parent_row: Tensor) -> int:
    parent_of_row = torch.full((len(row) + len(batch),), -1, dtype=torch.int64, device=row.device)
    parent_of_row[row] = parent_row
    depth, at = 0, row
    while len(at := at[parent_of_row[at] >= 0]):
        depth, at = depth + 1, parent_of_row[at]
    return depth
