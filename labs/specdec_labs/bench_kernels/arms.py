"""The contestants of a case: our kernels, torch, compiled torch, and other projects' kernels."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch

from specdec_core.rules import batched
from specdec_kernels.kv_compact import kv_compact_triton
from specdec_kernels.tree_attention import tree_attention_triton
from specdec_kernels.verify_batch import KernelVerdict, VerifyBatch
from specdec_kernels.verify_block import verify_block_triton
from specdec_kernels.verify_chain import verify_chain_triton
from specdec_kernels.verify_tree import TreeVerdict, verify_tree_triton
from specdec_labs.bench_kernels.inputs import PAGE, Inputs, tree_parents
from specdec_labs.bench_kernels.peers import peer_calls
from specdec_labs.bench_kernels.timing import Call
from specdec_labs.bench_kernels.torch_arms import torch_attention, torch_block, torch_chain, torch_compact

CHAINS = {"verify_chain": (verify_chain_triton, torch_chain), "verify_block": (verify_block_triton, torch_block)}
TREE_BATCHED = {
    "recursive_without_replacement": batched.verify_recursive_without_replacement_batch,
    "traversal": batched.verify_traversal_batch,
    "target_only": batched.verify_target_only_batch,
}


def arm_calls(arm: str, inputs: Inputs) -> tuple[list[Call], str]:
    """(one call an input, what to know about the row).

    Raises:
        NotAvailable: a peer that is not installed, or that cannot run this case.
    """
    if arm == "triton":
        return _triton(inputs)
    if arm == "torch":
        return _torch(inputs, compiled=False)
    if arm == "torch.compile":
        return _torch(inputs, compiled=True)
    return peer_calls(arm, inputs)


def max_passes(method: str, nodes: int) -> int:
    """Launches that the tree of `tree_parents` needs: its levels, since a family of two has one refusal before its
    last; for traversal every node.
    """
    if method == "traversal":
        return nodes
    levels, parents, row = 0, tree_parents(nodes), nodes
    while row > 0:
        levels, row = levels + 1, parents[row - 1] + 1
    return levels


def _triton(inputs: Inputs) -> tuple[list[Call], str]:
    operator, case = inputs.case.operator, inputs.case
    if operator in CHAINS:
        kernel: Callable[..., Any] = CHAINS[operator][0]
        return [partial(kernel, b, KernelVerdict.empty(b.num_requests, b.slots, b.device)) for b in inputs.items], ""
    if operator == "verify_tree":
        passes, run = max_passes(case.variant, case.nodes), cast(Callable[..., Any], verify_tree_triton)
        options: dict[str, Any] = {"method": case.variant, "max_passes": passes}
        calls = [partial(run, b, inputs.parents, out=TreeVerdict.empty(b), **options) for b in inputs.items]
        return calls, f"max_passes {passes}"
    if operator == "tree_attention":
        return [partial(tree_attention_triton, item.queries, item.kv, item.packed) for item in inputs.items], ""
    return [partial(kv_compact_triton, i.pool, i.table, i.starts, i.path, page=PAGE) for i in inputs.items], ""


def _torch(inputs: Inputs, *, compiled: bool) -> tuple[list[Call], str]:
    operator = inputs.case.operator
    if operator == "verify_tree":
        return [_batched_tree(inputs, batch) for batch in inputs.items], "core's batched rule in float64; asks the host"
    prepare: Callable[[Callable[..., Any]], Callable[..., Any]] = _compile(inputs) if compiled else lambda run: run
    if operator in CHAINS:
        run = prepare(CHAINS[operator][1])
        return [_with_noise(run, batch) for batch in inputs.items], "noise from torch"
    if operator == "tree_attention":
        run = prepare(torch_attention)
        return [partial(run, item.queries, item.kv, item.mask) for item in inputs.items], "scaled_dot_product_attention"
    run = prepare(torch_compact)
    return [partial(run, i.pool, i.table, i.starts, i.path, PAGE) for i in inputs.items], "moves every row of the path"


def _compile(inputs: Inputs) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # on a CPU the point is the path, not the code: the C++ compiler would take longer than all else
    backend = "inductor" if inputs.device.type == "cuda" else "eager"
    torch._dynamo.reset()
    return partial(torch.compile, dynamic=False, backend=backend)


def rectangular(batch: VerifyBatch) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor]:
    """(target, draft, tokens, temperature) of a batch whose requests all have `max_draft` drafts, by request."""
    requests, drafts = batch.num_requests, batch.max_draft
    draft = None if batch.draft_logits is None else batch.draft_logits.view(requests, drafts, -1)
    tokens = batch.draft_tokens.view(requests, drafts)
    return batch.target_logits.view(requests, drafts + 1, -1), draft, tokens, batch.temperature


def _with_noise(run: Callable[..., Any], batch: VerifyBatch) -> Call:
    target, draft, tokens, temperature = rectangular(batch)
    device, vocab = batch.device, batch.vocab

    def call() -> Any:
        uniforms = torch.rand(tokens.shape, device=device)
        exponentials = torch.empty(len(tokens), vocab, device=device).exponential_()
        return run(target, draft, tokens, temperature, uniforms, exponentials)

    return call


def _batched_tree(inputs: Inputs, batch: VerifyBatch) -> Call:
    rule = TREE_BATCHED[inputs.case.variant]
    rng = torch.Generator().manual_seed(3)
    uniforms = torch.rand(batch.num_requests, 2 * inputs.case.nodes + 2, dtype=torch.float64, generator=rng)

    def call() -> Any:
        p, q = batch.target_logits.float().softmax(-1), batch.draft_logits
        return rule(
            batch.draft_tokens, batch.cu_num_draft, None if q is None else q.float().softmax(-1), p,
            batched.ScriptedBatchCoins(uniforms), parents=inputs.parents, validate=False,
        )  # fmt: skip

    return call
