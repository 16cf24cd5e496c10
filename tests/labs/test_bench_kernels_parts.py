"""The parts of `specdec bench kernels`: checks that can fail, torch arms that agree with the rules, peers by name."""

from dataclasses import replace
import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from specdec_core.coins.noise import NoiseKey
from specdec_core.draft import DraftTree

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

from specdec_kernels.kv_compact import kv_compact_reference
from specdec_kernels.tree_attention import tree_attention_reference
from specdec_kernels.verify_batch import GivenNoise
from specdec_kernels.verify_block import verify_block_reference
from specdec_kernels.verify_chain import verify_chain_reference
from specdec_kernels.verify_tree import verify_tree_reference, verify_tree_triton
from specdec_labs.bench_kernels import checks
from specdec_labs.bench_kernels.arms import max_passes, rectangular
from specdec_labs.bench_kernels.inputs import PAGE, children_of, make_inputs, tree_mask, tree_parents
from specdec_labs.bench_kernels.peers import NotAvailable, peer_calls
from specdec_labs.bench_kernels.plan import TREE_METHODS, Case
from specdec_labs.bench_kernels.torch_arms import (
    torch_attention,
    torch_block,
    torch_chain,
    torch_compact,
)

CPU = torch.device("cpu")
CHAIN = Case("verify_chain", "logits", requests=40, nodes=4, vocab=16)


@pytest.mark.parametrize(
    ("operator", "arm", "reference"),
    [("verify_chain", torch_chain, verify_chain_reference), ("verify_block", torch_block, verify_block_reference)],
)
@pytest.mark.parametrize("variant", ["logits", "none"])
def test_the_torch_arms_give_the_verdicts_of_the_scalar_rule(operator, arm, reference, variant) -> None:
    batch = make_inputs(replace(CHAIN, operator=operator, variant=variant), CPU).items[0]
    rng = torch.Generator().manual_seed(1)
    uniforms = torch.rand(batch.num_drafts, generator=rng)
    exponentials = torch.empty(batch.num_requests, batch.vocab).exponential_(generator=rng)
    wanted = reference(replace(batch, noise=GivenNoise(uniforms, exponentials)))
    kept, emitted = arm(*rectangular(batch), uniforms.view(batch.num_requests, -1), exponentials)
    assert torch.equal(kept, wanted.num_accepted)
    assert torch.equal(emitted, wanted.emitted)
    assert variant == "none" or 0 < int((kept == 4).sum()) < 40, "both bonus and recovered tokens occur"


@pytest.mark.parametrize("variant", ["contiguous", "paged"])
def test_the_torch_attention_is_the_reference(variant: str) -> None:
    item = make_inputs(Case("tree_attention", variant, requests=3, nodes=7, prefix=21), CPU).items[0]
    wide = replace(item.kv, keys=item.kv.keys.float(), values=item.kv.values.float())
    got = torch_attention(item.queries.float(), wide, item.mask)
    assert torch.allclose(got, tree_attention_reference(item.queries.float(), wide, item.packed), atol=1e-5)


def test_the_torch_compaction_is_the_reference() -> None:
    item = make_inputs(Case("kv_compact", requests=3, nodes=16), CPU).items[0]
    pool = item.pool.clone()
    torch_compact(item.pool, item.table, item.starts, item.path, PAGE)
    kv_compact_reference(pool, item.table, item.starts, item.path, page=PAGE)
    assert torch.equal(item.pool, pool)


def test_trees_have_two_children_a_node_and_siblings_differ() -> None:
    assert tree_parents(6) == [-1, -1, 0, 0, 1, 1]
    assert torch.equal(tree_mask(7), DraftTree((0,) * 6, tuple(tree_parents(6))).attention_mask(0))
    inputs = make_inputs(Case("verify_tree", TREE_METHODS[0], requests=5, nodes=6, vocab=8), CPU)
    for batch in inputs.items:
        batch.check_values()
        tokens = batch.draft_tokens.view(5, 6)
        for family in filter(None, children_of(tree_parents(6))):
            assert bool((tokens[:, family[0]] != tokens[:, family[1]]).all())
    assert inputs.floor_bytes == 2 * 8 * 5 * (7 + 3 + 1)


@pytest.mark.parametrize("method", TREE_METHODS)
def test_the_passes_that_are_timed_are_enough(method: Any) -> None:
    inputs = make_inputs(Case("verify_tree", method, requests=8, nodes=6, vocab=8), CPU)
    batch = inputs.items[0]
    got = verify_tree_triton(batch, inputs.parents, method=method, max_passes=max_passes(method, 6))
    wanted = verify_tree_reference(batch, inputs.parents, method=method)
    assert torch.equal(got.verdict.emitted, wanted.verdict.emitted)
    assert [max_passes("target_only", nodes) for nodes in (2, 6, 14, 16, 32, 64)] == [1, 2, 3, 4, 5, 6]


def test_a_check_finds_a_kernel_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, reference, rule = checks.CHAINS["verify_chain"]

    def broken(batch, **options):
        result = kernel(batch, **options)
        result.emitted[1, 0] += 1
        return result

    monkeypatch.setitem(checks.CHAINS, "verify_chain", (broken, reference, rule))
    found = checks.run_check("verify_chain", "last", CPU)
    assert (found.wrong, found.passed) == (3, False)


def test_a_near_tie_is_told_from_a_mistake() -> None:
    batch = checks.ragged_batch(3, vocab=13, requests=8)
    wanted = verify_chain_reference(batch)
    other = replace(wanted, emitted=wanted.emitted + 1)
    sampled = int((batch.temperature > 0).sum())
    assert 0 < sampled < 8

    def far(tokens, draft, target, coins):
        coins.accept(1.0, 0.5, node=0)

    assert checks.compared(batch, other, wanted, lambda _: far) == checks.Check(8, 8, 0)

    def exact_tie(tokens, draft, target, coins):
        # q such that u q is p but for the last bits
        seed, request, length = coins.key
        coins.accept(1.0, (1.0 + 1e-9) / NoiseKey(seed, request, length, 0, "accept").uniform(), node=0)

    assert checks.compared(batch, other, wanted, lambda _: exact_tie) == checks.Check(8, 8 - sampled, sampled)


def module(monkeypatch: pytest.MonkeyPatch, name: str, **functions: Any) -> None:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        whole = ".".join(parts[:end])
        if whole not in sys.modules:
            monkeypatch.setitem(sys.modules, whole, ModuleType(whole))
    for key, function in functions.items():
        setattr(sys.modules[name], key, function)


def test_a_peer_that_is_not_there_says_so() -> None:
    inputs = make_inputs(CHAIN, CPU)
    with pytest.raises(NotAvailable, match="^vllm is not installed$"):
        peer_calls("vllm", inputs)
    with pytest.raises(NotAvailable, match="^flashinfer is not installed$"):
        peer_calls("flashinfer", inputs)


def test_vllm_is_called_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def rejection_sample(target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping,
                         expanded_idx_mapping, expanded_local_pos, temperature, seed, num_speculative_steps,
                         synthetic_conditional_rates=None, use_fp64=False, use_block_verification=False):  # fmt: skip
        seen.update(locals())

    module(monkeypatch, "vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils", rejection_sample=rejection_sample)
    inputs = make_inputs(replace(CHAIN, operator="verify_block", requests=2, nodes=3), CPU)
    calls, _ = peer_calls("vllm", inputs)
    calls[0]()
    assert seen["target_logits"].shape == (8, 16)
    assert seen["draft_logits"].shape == (2, 3, 16)
    # row i of a request carries draft i - 1: the pending token comes first
    assert seen["draft_sampled"].view(2, 4)[:, 1:].tolist() == inputs.items[0].draft_tokens.view(2, 3).tolist()
    assert seen["expanded_local_pos"].tolist() == [0, 1, 2, 3] * 2
    assert (seen["cu_num_logits"].tolist(), seen["use_block_verification"]) == ([0, 4, 8], True)


def test_an_argument_that_nobody_knows_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def rejection_sample(target_logits, flux_capacitor):
        raise AssertionError("must not be called")

    module(monkeypatch, "vllm.v1.sample.rejection_sampler", rejection_sample=rejection_sample)
    with pytest.raises(NotAvailable, match="rejection_sample of this version wants flux_capacitor"):
        peer_calls("vllm-v1", make_inputs(CHAIN, CPU))


def test_flashinfer_gets_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def chain_speculative_sampling(draft_probs, draft_token_ids, target_probs, deterministic=True, generator=None):
        seen.append((draft_probs, draft_token_ids, target_probs))

    module(monkeypatch, "flashinfer.sampling", chain_speculative_sampling=chain_speculative_sampling)
    inputs = make_inputs(replace(CHAIN, requests=2), CPU)
    for arm in ("flashinfer", "flashinfer+softmax"):
        calls, _ = peer_calls(arm, inputs)
        calls[0]()
    for draft_probs, ids, target_probs in seen:
        assert (draft_probs.shape, ids.shape, target_probs.shape) == ((2, 4, 16), (2, 4), (2, 5, 16))
        assert torch.allclose(target_probs.sum(-1), torch.ones(2, 5))
    with pytest.raises(NotAvailable, match="wants draft probabilities"):
        peer_calls("flashinfer", make_inputs(replace(CHAIN, variant="none"), CPU))
