"""Verification of draft trees from logits: recursive rejection, target-only and traversal, without a host sync.

`verify_tree_reference` is the scalar rule; `verify_tree` takes the Triton kernels where it can, and the batched rules
elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from jaxtyping import Int64
import torch
from torch import Tensor

from specdec_core.draft import DraftTree
from specdec_core.rules.batched import (
    BatchVerdict,
    verify_recursive_batch,
    verify_recursive_without_replacement_batch,
    verify_target_only_batch,
    verify_traversal_batch,
    verify_traversal_without_replacement_batch,
)
from specdec_core.warp_filters import one_hot_at_argmax
from specdec_kernels.batched_reference import verify_tree_batched
from specdec_kernels.chain_launch import LaunchConfig, Reads, Watch, check_counting, on_device, takes_triton
from specdec_kernels.chain_reference import request_coins, request_inputs
from specdec_kernels.tree_bounded import check_passes, verify_tree_bounded
from specdec_kernels.tree_launch import TreeCall, packed_tree
from specdec_kernels.verify_batch import GREEDY_BELOW_FLOAT32, GivenNoise, KernelVerdict, VerifyBatch

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


_BATCHED: dict[str, Callable[..., BatchVerdict]] = {
    "recursive": verify_recursive_batch,
    "recursive_without_replacement": verify_recursive_without_replacement_batch,
    "target_only": verify_target_only_batch,
    "traversal": verify_traversal_batch,
    "traversal_without_replacement": verify_traversal_without_replacement_batch,
}


def verify_tree_reference(
    batch: VerifyBatch,
    parents: Int64[Tensor, " drafts"],
    *,
    method: TreeKernelMethod,
    max_passes: int | None = None,
    out: TreeVerdict | None = None,
) -> TreeVerdict:
    """The verdicts of `verify_tree_bounded`, a request at a time; a greedy request takes the argmax.

    Raises:
        ValueError: whatever `batch.check_values()` or the rule finds.
    """
    _check(batch, parents, method, out)
    check_passes(max_passes)
    batch.check_values()
    result = TreeVerdict.empty(batch) if out is None else out
    result.path.fill_(-1)
    result.verdict.emitted.fill_(-1)
    for request in range(batch.num_requests):
        tokens, draft, target = request_inputs(batch, request)
        first = int(batch.cu_num_draft[request])
        tree = DraftTree(tuple(tokens), tuple(parents[first : first + len(tokens)].tolist()))
        if float(batch.temperature[request]) < GREEDY_BELOW_FLOAT32:
            certain: Any = one_hot_at_argmax(target, target.amax(-1, keepdim=True))
            levels = max_passes if method == "target_only" else None
            verdict = verify_tree_bounded(
                tree, None, certain, request_coins(batch, request), method="target_only", max_passes=levels
            )
        else:
            verdict = verify_tree_bounded(
                tree, draft, target, request_coins(batch, request), method=method, max_passes=max_passes
            )
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
    version: int = 2,
    config: LaunchConfig | None = None,
    reads: Reads | None = None,
    watch: Watch | None = None,
) -> TreeVerdict:
    """The same verdicts by the kernels of one version: on a CUDA device, or on any under TRITON_INTERPRET=1.

    `reads` counts how often each logit is read, `watch` is told of each launch (version 2). For the rest see
    `verify_tree`.

    Raises:
        ValueError: as `verify_tree`; a version that does not exist, `reads`, `watch` or `max_passes` with version 1.
    """
    _check(batch, parents, method, out)
    check_passes(max_passes)
    if version not in (1, 2):
        raise ValueError(f"version is {version}; expected 1 (naive, laws in memory) or 2 (laws in two numbers)")
    if version == 1 and max_passes is not None:
        raise ValueError(f"max_passes is {max_passes} for version 1, which has no passes; leave it out")
    check_counting(reads, watch, version, last=2)
    result = TreeVerdict.empty(batch) if out is None else out
    if batch.num_requests == 0:
        return result
    passes = batch.max_draft if max_passes is None else max_passes
    config = packed_tree(batch) if config is None else config
    call = TreeCall(batch, parents, result.verdict, result.path, config, reads, watch)
    with on_device(batch.device):
        if version == 1:
            call.early(method)
        elif method == "target_only":
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
    only that of the first sibling is read. `max_passes` bounds the launches, see `verify_tree_bounded`: refusals before
    a further sibling along any path (recursive), refused nodes (traversal), levels (target-only). With fewer than a
    request wants, fewer of its drafts are looked at; the law of the output stays the target's. None takes the number of
    nodes, which is always enough. Deterministic children need none but for target-only.

    Without Triton the batched rules of the core answer; with `max_passes`, which they do not know, the reference.

    Raises:
        ValueError: an unknown method, parents that do not fit, given noise with target-only (it draws once a level), a
            negative `max_passes`, `out` without room; without Triton, whatever `check_values` or the rule finds.
    """
    if takes_triton(batch.device):
        return verify_tree_triton(batch, parents, method=method, max_passes=max_passes, out=out)
    if max_passes is not None:
        return verify_tree_reference(batch, parents, method=method, max_passes=max_passes, out=out)
    _check(batch, parents, method, out)
    result = TreeVerdict.empty(batch) if out is None else out
    verify_tree_batched(batch, parents, _BATCHED[method], result.verdict, result.path)
    return result


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
