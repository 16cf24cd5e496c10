"""The layout of a batch with drafts of different length: everything flat, no padding.

Request b owns the slots `cu_num_draft[b] .. cu_num_draft[b + 1] - 1` of the drafts, K_b in number, and K_b + 1 rows
of the target, the first of which is `cu_num_draft[b] + b`: row 0 belongs to the pending token, row n + 1 to node n.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int, Int64
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Where each request's slots and rows lie; made by `Ragged.of`.

    Attributes:
        draft_tokens: the drafts of all requests.
        counts: drafts of each request.
        first_slot: its first draft.
        first_row: its first row of the target, that of the pending token.
        request_of_slot: whose draft it is.
        node_of_slot: the draft's number within its request.
        longest: the most drafts a request has.
    """

    draft_tokens: Int64[Tensor, " slots"]
    counts: Int64[Tensor, " batch"]
    first_slot: Int64[Tensor, " batch"]
    first_row: Int64[Tensor, " batch"]
    request_of_slot: Int64[Tensor, " slots"]
    node_of_slot: Int64[Tensor, " slots"]
    longest: int

    @classmethod
    def of(cls, draft_tokens: Int[Tensor, " slots"], cu_num_draft: Int[Tensor, " batch+1"]) -> "Ragged":
        """The layout of drafts that lie end to end, `cu_num_draft` = 0, K_0, K_0 + K_1, ..."""
        offsets = cu_num_draft.to(draft_tokens.device, torch.int64)
        counts, requests = offsets.diff(), torch.arange(len(offsets) - 1, device=offsets.device)
        request_of_slot = requests.repeat_interleave(counts, output_size=len(draft_tokens))
        slots = torch.arange(len(draft_tokens), device=offsets.device)
        return cls(
            draft_tokens=draft_tokens.to(torch.int64),
            counts=counts,
            first_slot=offsets[:-1],
            first_row=offsets[:-1] + requests,
            request_of_slot=request_of_slot,
            node_of_slot=slots - offsets[request_of_slot],
            longest=int(counts.max()) if len(counts) else 0,
        )

    def __len__(self) -> int:
        return len(self.counts)


def flatten_padded(
    draft_tokens: Int[Tensor, "batch longest"],
    draft_probs: Float[Tensor, "batch longest vocab"] | None = None,
    target_probs: Float[Tensor, "batch longest+1 vocab"] | None = None,
) -> tuple[Int64[Tensor, " slots"], Int64[Tensor, " batch+1"], Tensor | None, Tensor | None]:
    """(draft_tokens, cu_num_draft, draft_probs, target_probs) without the padding; laws not given stay None.

    Shapes: `draft_tokens` is [batch, longest] with -1 behind the last draft of a request; of the laws, request b has
    K_b draft rows and K_b + 1 target rows in use. Rows in the padding are not read.

    Raises:
        ValueError: a draft behind a -1, an id below -1, or laws of another shape.
    """
    if draft_tokens.ndim != 2 or draft_tokens.is_floating_point():
        raise ValueError(
            f"draft_tokens is {draft_tokens.dtype} of shape {tuple(draft_tokens.shape)}; expected ids "
            "[batch, longest], padded with -1"
        )
    kept = draft_tokens >= 0
    counts = kept.sum(1)
    places = torch.arange(draft_tokens.shape[1], device=draft_tokens.device)
    wrong = torch.nonzero((kept != (places < counts[:, None])) | (draft_tokens < -1))
    if len(wrong):
        request, place = wrong[0].tolist()
        raise ValueError(
            f"draft_tokens[{request}, {place}] is {int(draft_tokens[request, place])}; "
            "drafts come first, -1 alone pads, and nothing follows it"
        )
    for name, laws, extra in (("draft_probs", draft_probs, 0), ("target_probs", target_probs, 1)):
        expected = (draft_tokens.shape[0], draft_tokens.shape[1] + extra)
        if laws is not None and (laws.ndim != 3 or tuple(laws.shape[:2]) != expected):
            raise ValueError(f"{name} has shape {tuple(laws.shape)}; expected [{expected[0]}, {expected[1]}, vocab]")
    rows = torch.arange(draft_tokens.shape[1] + 1, device=draft_tokens.device) <= counts[:, None]
    return (
        draft_tokens[kept].to(torch.int64),
        torch.nn.functional.pad(counts.cumsum(0), (1, 0)),
        None if draft_probs is None else draft_probs[kept],
        None if target_probs is None else target_probs[rows],
    )
