"""Target-only verification of many trees at once."""

from jaxtyping import Float, Int, Int64
import torch
from torch import Tensor

from specdec_core.rules.batched.coins import BatchCoins, Questions
from specdec_core.rules.batched.forest import Forest, checked_forest
from specdec_core.rules.batched.rows import draw_from_rows
from specdec_core.rules.batched.verdict import BatchVerdict, tree_verdict


def verify_target_only_batch(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "slots+batch vocab"],
    coins: BatchCoins,
    *,
    parents: Int[Tensor, " slots"],
    validate: bool = True,
) -> BatchVerdict:
    """`verify_tree(..., method="target_only")` for every request: one draw a node of the walk, all requests a level.

    `parents` are numbered within each request, -1 for the pending token. `draft_probs` is not read. Shapes and errors
    as in `verify_chain_batch`.
    """
    forest = checked_forest(draft_tokens, cu_num_draft, parents, None, target_probs, coins, validate=validate)
    batch = forest.batch
    num_accepted, next_token = torch.zeros_like(batch.counts), torch.zeros_like(batch.counts)
    path = torch.full((len(forest), forest.deepest), -1, dtype=torch.int64, device=batch.counts.device)
    row = batch.first_row.clone()
    alive = torch.arange(len(forest), device=row.device)
    for depth in range(forest.deepest + 1):
        at = torch.full_like(alive, depth)
        own = draw_from_rows(target_probs, row[alive], coins, Questions(alive, at, at), "sample")
        next_token[alive] = own
        child = _child_with_token(forest, row[alive], own)
        alive, child = alive[child >= 0], child[child >= 0]
        if not len(alive):
            break
        path[alive, depth] = forest.node(child)
        num_accepted[alive] += 1
        row[alive] = forest.row[child]
    return tree_verdict(batch, num_accepted, path, next_token, forest.first_child[row] < 0)


def _child_with_token(
    forest: Forest, row: Int64[Tensor, " alive"], token: Int64[Tensor, " alive"]
) -> Int64[Tensor, " alive"]:
    """For each row the slot of its first child with that token, or -1."""
    child = forest.first_child[row]
    at = torch.nonzero(child >= 0)[:, 0]
    while len(at := at[forest.batch.draft_tokens[child[at]] != token[at]]):
        child[at] = forest.next_sibling[child[at]]
        at = at[child[at] >= 0]
    return child
