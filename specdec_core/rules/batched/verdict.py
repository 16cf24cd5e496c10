"""What a batched rule answers: the verdicts of all requests as tensors."""

from dataclasses import dataclass

from jaxtyping import Bool, Int64
import torch
from torch import Tensor

from specdec_core.rules.batched.ragged import Ragged
from specdec_core.rules.verdict import Verdict


@dataclass(frozen=True, slots=True, eq=False)
class BatchVerdict:
    """The verdicts of B requests, padded with -1 to the longest draft of the batch (the deepest path of a tree).

    Attributes:
        num_accepted: drafts kept.
        path: the accepted nodes from the root down, numbered within their request.
        next_token: the token after them.
        emitted: the accepted tokens and `next_token`.
        is_bonus: true where nothing was refused, so that `next_token` came from the target's own law.
    """

    num_accepted: Int64[Tensor, " batch"]
    path: Int64[Tensor, "batch depth"]
    next_token: Int64[Tensor, " batch"]
    emitted: Int64[Tensor, "batch depth+1"]
    is_bonus: Bool[Tensor, " batch"]

    def __len__(self) -> int:
        return len(self.num_accepted)

    def verdict(self, request: int) -> Verdict:
        """The verdict of one request, equal to what the scalar rule answers."""
        kept = int(self.num_accepted[request])
        return Verdict(
            kept,
            tuple(self.path[request, :kept].tolist()),
            int(self.next_token[request]),
            "bonus" if self.is_bonus[request] else "recovered",
        )


def chain_verdict(
    batch: Ragged,
    num_accepted: Int64[Tensor, " batch"],
    next_token: Int64[Tensor, " batch"],
) -> BatchVerdict:
    """The verdicts of chains: the path is 0 .. num_accepted - 1, and a bonus follows exactly when all were kept."""
    places = torch.arange(batch.longest, device=num_accepted.device)
    path = torch.where(places < num_accepted[:, None], places, -1)
    return tree_verdict(batch, num_accepted, path, next_token, num_accepted == batch.counts)


def tree_verdict(
    batch: Ragged,
    num_accepted: Int64[Tensor, " batch"],
    path: Int64[Tensor, "batch depth"],
    next_token: Int64[Tensor, " batch"],
    is_bonus: Bool[Tensor, " batch"],
) -> BatchVerdict:
    """The verdicts of trees, `emitted` read off the paths."""
    emitted = torch.full((path.shape[0], path.shape[1] + 1), -1, dtype=torch.int64, device=path.device)
    request, place = torch.nonzero(path >= 0, as_tuple=True)
    emitted[request, place] = batch.draft_tokens[batch.first_slot[request] + path[request, place]]
    emitted[torch.arange(len(emitted), device=path.device), num_accepted] = next_token
    return BatchVerdict(num_accepted, path, next_token, emitted, is_bonus)
