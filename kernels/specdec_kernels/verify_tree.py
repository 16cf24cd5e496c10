"""Verification of draft trees from logits: recursive rejection, target-only and traversal, without a host sync.

`verify_tree_reference` is the scalar rule; `verify_tree` takes the Triton kernels where it can.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from jaxtyping import Int64
import torch
from torch import Tensor

from specdec_core.draft import DraftTree
from specdec_core.rules import verify_tree as tree_rule
from specdec_core.warp import GREEDY_BELOW
from specdec_core.warp_filters import one_hot_at_argmax
from specdec_kernels.chain_launch import LaunchConfig, on_device, takes_triton
from specdec_kernels.chain_reference import request_coins, request_inputs
from specdec_kernels.tree_launch import TreeCall, packed_tree
from specdec_kernels.verify_batch import GivenNoise, KernelVerdict, VerifyBatch

TreeKernelMethod = Literal[
    "recursive", "recursive_without_replacement", "target_only", "traversal", "traversal_without_replacement"
]


@dataclass(frozen=True, slots=True, eq=False)
class TreeVerdict:
    """A `KernelVerdict`, and the accepted nodes from the root down, numbered within their request, then -1."""

    verdict: KernelVerdict
    path: Int64[Tensor, "requests nodes"]

    @classmethod
    def empty(cls, batch: VerifyBatch) -> "TreeVerdict":
        """Room for the verdicts; a call writes every place of it, so it can be used again and again."""
        path = torch.empty(batch.num_requests, batch.max_draft, dtype=torch.int64, device=batch.device)
        return cls(KernelVerdict.empty(batch.num_requests, batch.slots, batch.device), path)


def verify_tree_reference(
    batch: VerifyBatch, parents: Int64[Tensor, " drafts"], *, method: TreeKernelMethod, out: TreeVerdict | None = None
) -> TreeVerdict:
    """The verdicts of `specdec_core.rules.verify_tree`, a request at a time; a greedy request takes the argmax.

    Raises:
        ValueError: whatever `batch.check_values()` or the rule finds.
    """
    _check(batch, parents, method, out)
    batch.check_values()
    result = TreeVerdict.empty(batch) if out is None else out
    result.path.fill_(-1)
    result.verdict.emitted.fill_(-1)
    for request in range(batch.num_requests):
        tokens, draft, target = request_inputs(batch, request)
        first = int(batch.cu_num_draft[request])
        tree = DraftTree(tuple(tokens), tuple(parents[first : first + len(tokens)].tolist()))
        if float(batch.temperature[request]) < GREEDY_BELOW:
            certain: Any = one_hot_at_argmax(target, target.amax(-1, keepdim=True))
            verdict = tree_rule(tree, None, certain, request_coins(batch, request), method="target_only")
        else:
            verdict = tree_rule(tree, draft, target, request_coins(batch, request), method=method)
        kept, path = verdict.num_accepted, torch.tensor(verdict.path, dtype=torch.int64)
        result.verdict.num_accepted[request], result.verdict.next_token[request] = kept, verdict.next_token
        result.verdict.is_bonus[request] = verdict.kind == "bonus"
        result.path[request, :kept] = path
        emitted = [*(tokens[node] for node in verdict.path), verdict.next_token]
        result.verdict.emitted[request, : kept + 1] = torch.tensor(emitted)
    return result


def verify_tree_triton(
    batch: VerifyBatch,
    parents: Int64[Tensor, " drafts"],
    *,
    method: TreeKernelMethod,
    max_passes: int | None = None,
    out: TreeVerdict | None = None,
    config: LaunchConfig | None = None,
) -> TreeVerdict:
    """The same verdicts by kernels: on a CUDA device, or on any under TRITON_INTERPRET=1. See `verify_tree`."""
    _check(batch, parents, method, out)
    result = TreeVerdict.empty(batch) if out is None else out
    if batch.num_requests == 0:
        return result
    passes = batch.max_draft if max_passes is None else max_passes
    call = TreeCall(batch, parents, result.verdict, result.path, packed_tree(batch) if config is None else config)
    with on_device(batch.device):
        if method == "target_only":
            call.target_only(passes)
        else:
            call.walk(method, passes)
    return result


def verify_tree(
    batch: VerifyBatch,
    parents: Int64[Tensor, " drafts"],
    *,
    method: TreeKernelMethod,
    max_passes: int | None = None,
    out: TreeVerdict | None = None,
) -> TreeVerdict:
    """The verdicts of `specdec_core.rules.verify_tree` on every request, in float32 from logits.

    `batch.max_draft` is the largest number of nodes; -1 ends a tree. Each node has a row of the draft's law, of which
    only that of the first sibling is read. `max_passes` bounds the launches: refusals before a further sibling along
    any path (recursive), refused nodes (traversal), levels (target-only); None takes the number of nodes.
    Deterministic children need none but for target-only.

    Raises:
        ValueError: an unknown method, parents that do not fit, given noise with target-only (it draws once a level),
            `out` without room.
    """
    if takes_triton(batch.device):
        return verify_tree_triton(batch, parents, method=method, max_passes=max_passes, out=out)
    return verify_tree_reference(batch, parents, method=method, out=out)


def _check(batch: VerifyBatch, parents: Tensor, method: str, out: TreeVerdict | None) -> None:
    if method not in get_args(TreeKernelMethod):
        raise ValueError(f"method is {method!r}; expected one of {', '.join(get_args(TreeKernelMethod))}")
    if parents.shape != batch.draft_tokens.shape or parents.dtype != torch.int64 or not parents.is_contiguous():
        raise ValueError(
            f"parents is {parents.dtype} of shape {tuple(parents.shape)}; expected contiguous torch.int64 of shape "
            f"{tuple(batch.draft_tokens.shape)}: a node's parent, numbered within its request, or -1"
        )
    if parents.device != batch.device:
        raise ValueError(f"parents lies on {parents.device}, target_logits on {batch.device}; move it there first")
    if method == "target_only" and isinstance(batch.noise, GivenNoise):
        raise ValueError("noise is given, but target_only draws once a level; give KeyedNoise")
    if out is not None:
        out.verdict.check(batch.num_requests, batch.slots, batch.device)
        shape = (batch.num_requests, batch.max_draft)
        if tuple(out.path.shape) != shape or out.path.dtype != torch.int64 or not out.path.is_contiguous():
            raise ValueError(
                f"out.path has shape {tuple(out.path.shape)}; expected contiguous torch.int64 of shape {shape}"
            )


if __name__ == "__main__":
    from specdec_kernels.chain_benchmark import main

    main("verify_tree")
