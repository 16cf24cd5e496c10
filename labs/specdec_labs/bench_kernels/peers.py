"""Kernels of vLLM and FlashInfer on the benchmark's inputs, where they are installed.

Their signatures have changed and will again: arguments are given by name, as far as the installed function asks for
them, and one that nobody here knows is reported. Sources: vLLM 0.32.0 and the documentation of FlashInfer 0.5.
"""

from collections.abc import Callable
from importlib import import_module
import inspect
from types import SimpleNamespace
from typing import Any

import torch

from specdec_kernels.verify_batch import VerifyBatch
from specdec_labs.bench_kernels.inputs import AttentionInput, Inputs
from specdec_labs.bench_kernels.timing import Call


class NotAvailable(Exception):
    """The peer cannot run here; the message says why."""


def peer_calls(arm: str, inputs: Inputs) -> tuple[list[Call], str]:
    """(one call an input, what to know about the row). NotAvailable when the package or a way to call it is missing."""
    if arm == "flashinfer" and inputs.case.operator == "tree_attention":
        return _flashinfer_attention(inputs)
    makers: dict[str, Callable[[Inputs], tuple[list[Call], str]]] = {
        "vllm": _vllm,
        "vllm-v1": _vllm_v1,
        "flashinfer": _flashinfer_chain,
        "flashinfer+softmax": _flashinfer_chain_from_logits,
    }
    return makers[arm](inputs)


def load(module: str, name: str) -> Callable[..., Any]:
    """A function of another project. NotAvailable when it is not there."""
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if (error.name or "").split(".")[0] == package and error.name == package:
            raise NotAvailable(f"{package} is not installed") from error
        raise NotAvailable(f"{module} cannot be imported: {error}") from error
    except Exception as error:  # a package built for another torch fails in its own ways
        raise NotAvailable(f"{module}.{name} cannot be loaded: {type(error).__name__}: {error}"[:300]) from error


def named(function: Callable[..., Any], known: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `known` that the function takes. NotAvailable when it wants one that nobody here knows."""
    parameters = inspect.signature(function).parameters.values()
    unknown = [
        p.name
        for p in parameters
        if p.name not in known and p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    if unknown:
        raise NotAvailable(f"{function.__name__} of this version wants {', '.join(unknown)}, which is not known here")
    return {p.name: known[p.name] for p in parameters if p.name in known}


def _vllm(inputs: Inputs) -> tuple[list[Call], str]:
    """vLLM's sampler of the model runner V2: two levels, no probabilities."""
    judge = load("vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils", "rejection_sample")
    case, calls = inputs.case, []
    requests, drafts, device = case.requests, case.nodes, inputs.device
    rows, who = requests * (drafts + 1), torch.arange(requests, device=device)
    for batch in inputs.items:
        tokens = torch.cat([torch.zeros(requests, 1, dtype=torch.int64, device=device), _square(batch)], 1)
        known = {
            # the runner casts the logits first; that pass is not timed here
            "target_logits": batch.target_logits.float(),
            "draft_logits": None if batch.draft_logits is None else batch.draft_logits.view(requests, drafts, -1),
            "draft_sampled": tokens.view(-1),
            "cu_num_logits": torch.arange(requests + 1, dtype=torch.int32, device=device) * (drafts + 1),
            "pos": torch.arange(100, 101 + drafts, device=device).repeat(requests),
            "idx_mapping": who,
            "expanded_idx_mapping": who.repeat_interleave(drafts + 1),
            "expanded_local_pos": torch.arange(rows, dtype=torch.int32, device=device) % (drafts + 1),
            "temperature": batch.temperature,
            "seed": who + 7,
            "num_speculative_steps": drafts,
            "use_block_verification": case.operator == "verify_block",
        }
        calls.append(_bound(judge, named(judge, known)))
    return calls, "target logits in float32, cast beforehand as its runner does"


def _vllm_v1(inputs: Inputs) -> tuple[list[Call], str]:
    """vLLM's sampler of the model runner V1: full softmax, one program a row."""
    judge = load("vllm.v1.sample.rejection_sampler", "rejection_sample")
    takes = inspect.signature(judge).parameters
    case, calls = inputs.case, []
    requests, drafts, device = case.requests, case.nodes, inputs.device
    for batch in inputs.items:
        logits = batch.target_logits.view(requests, drafts + 1, -1)[:, :-1].reshape(requests * drafts, -1).float()
        settings = SimpleNamespace(
            all_greedy=False, all_random=True, temperature=batch.temperature, generators={}, top_k=None, top_p=None
        )
        known = {
            "draft_token_ids": batch.draft_tokens.int(),
            "num_draft_tokens": [drafts] * requests,
            "max_spec_len": drafts,
            "cu_num_draft_tokens": torch.arange(1, requests + 1, dtype=torch.int32, device=device) * drafts,
            "draft_probs": None if batch.draft_logits is None else batch.draft_logits.float().softmax(-1),
            "target_logits": logits,
            "target_probs": logits.softmax(-1) if "target_probs" in takes else None,
            "bonus_token_ids": torch.zeros(requests, 1, dtype=torch.int32, device=device),
            "sampling_metadata": settings,
        }
        calls.append(_bound(judge, named(judge, known)))
    return calls, "draft probabilities and bonus token given; noise from torch"


def _flashinfer_chain(inputs: Inputs) -> tuple[list[Call], str]:
    judge = load("flashinfer.sampling", "chain_speculative_sampling")
    if inputs.case.variant == "none":
        raise NotAvailable("chain_speculative_sampling wants draft probabilities")
    requests, drafts = inputs.case.requests, inputs.case.nodes
    calls = []
    for batch in inputs.items:
        known = {
            "draft_probs": batch.draft_logits.float().softmax(-1).view(requests, drafts, -1),
            "draft_token_ids": _square(batch).int(),
            "target_probs": batch.target_logits.float().softmax(-1).view(requests, drafts + 1, -1),
        }
        calls.append(_bound(judge, named(judge, known)))
    return calls, "float32 probabilities given, softmax not timed"


def _flashinfer_chain_from_logits(inputs: Inputs) -> tuple[list[Call], str]:
    judge = load("flashinfer.sampling", "chain_speculative_sampling")
    if inputs.case.variant == "none":
        raise NotAvailable("chain_speculative_sampling wants draft probabilities")
    requests, drafts = inputs.case.requests, inputs.case.nodes

    def run(batch: VerifyBatch, tokens: torch.Tensor) -> Any:
        q = batch.draft_logits.float().softmax(-1) if batch.draft_logits is not None else None
        p = batch.target_logits.float().softmax(-1).view(requests, drafts + 1, -1)
        return judge(q.view(requests, drafts, -1) if q is not None else None, tokens, p)

    return [
        _bound(run, {"batch": b, "tokens": _square(b).int()}) for b in inputs.items
    ], "torch's softmax of both timed"


def _flashinfer_attention(inputs: Inputs) -> tuple[list[Call], str]:
    """Paged prefill with a custom mask; planned once, outside the clock."""
    wrapper_type = load("flashinfer", "BatchPrefillWithPagedKVCacheWrapper")
    case, device = inputs.case, inputs.device
    if case.variant != "paged":
        raise NotAvailable("its custom masks are measured over paged caches")
    requests, rows, calls = case.requests, case.nodes, []
    total = case.prefix + rows
    workspace = torch.empty(256 << 20, dtype=torch.uint8, device=device)
    for item in inputs.items:
        assert isinstance(item, AttentionInput) and item.kv.block_table is not None
        page, (_, kv_heads, dim) = item.kv.page, item.kv.keys.shape
        blocks = item.kv.block_table.shape[1]
        at = torch.arange(requests + 1, dtype=torch.int32, device=device)
        wrapper: Any = wrapper_type(workspace, "NHD")
        known = {
            "qo_indptr": at * rows,
            "paged_kv_indptr": at * blocks,
            "paged_kv_indices": item.kv.block_table.flatten(),
            "paged_kv_last_page_len": torch.full_like(at[1:], total - (blocks - 1) * page),
            "num_qo_heads": item.queries.shape[2],
            "num_kv_heads": kv_heads,
            "head_dim_qk": dim,
            "head_dim": dim,
            "page_size": page,
            "custom_mask": item.mask.flatten().repeat(requests),
            "q_data_type": item.queries.dtype,
            "kv_data_type": item.queries.dtype,
        }
        wrapper.plan(**named(wrapper.plan, known))
        caches = tuple(half.view(-1, page, kv_heads, dim) for half in (item.kv.keys, item.kv.values))
        queries = item.queries.view(-1, item.queries.shape[2], dim)
        calls.append(lambda wrapper=wrapper, queries=queries, caches=caches: wrapper.run(queries, caches))
    return calls, "planned outside the clock; custom mask over all columns"


def _square(batch: VerifyBatch) -> torch.Tensor:
    return batch.draft_tokens.view(batch.num_requests, -1)


def _bound(function: Callable[..., Any], arguments: dict[str, Any]) -> Call:
    return lambda: function(**arguments)
