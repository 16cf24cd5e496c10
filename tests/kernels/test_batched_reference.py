"""Without Triton the batched rules answer, exactly as the scalar ones do."""

from dataclasses import fields, replace

import pytest
import torch

from specdec_kernels.verify_batch import KernelVerdict, KeyedNoise, VerifyBatch
from specdec_kernels.verify_block import verify_block, verify_block_reference
from specdec_kernels.verify_chain import verify_chain, verify_chain_reference
from specdec_kernels.verify_tree import TreeVerdict, verify_tree, verify_tree_reference

CHAINS = pytest.mark.parametrize(
    ("answer", "reference"),
    [(verify_chain, verify_chain_reference), (verify_block, verify_block_reference)],
    ids=["chain", "block"],
)


def same(one: KernelVerdict, other: KernelVerdict) -> bool:
    return all(torch.equal(getattr(one, entry.name), getattr(other, entry.name)) for entry in fields(KernelVerdict))


@CHAINS
@pytest.mark.parametrize("draft", ["none", "logits", "probs"])
@pytest.mark.parametrize("given", [False, True], ids=["keyed", "given"])
def test_chains(answer, reference, draft, given, make_batch):
    for vocab in (1, 7, 300):
        batch = make_batch(vocab, vocab=vocab, requests=30, draft=draft, given=given)
        out = KernelVerdict.empty(30, batch.slots, batch.device)
        out.emitted.fill_(9)
        assert answer(batch, out) is out
        assert same(out, reference(batch))


@CHAINS
def test_more_drafts_than_slots_are_cut(answer, reference, make_batch):
    batch = make_batch(2, vocab=5, requests=20, max_draft=5)
    whole = VerifyBatch.check_values
    batch = replace(batch, max_draft=3)
    with pytest.MonkeyPatch.context() as patch:
        # the check refuses such a batch; kernels, which do not look, cut it
        patch.setattr(VerifyBatch, "check_values", lambda self: whole(replace(self, max_draft=5)))
        assert same(answer(batch), reference(batch))


@pytest.mark.parametrize(
    ("method", "draft"),
    [
        ("recursive", "none"),
        ("recursive", "logits"),
        ("recursive_without_replacement", "logits"),
        ("target_only", "none"),
        ("traversal", "probs"),
        ("traversal_without_replacement", "logits"),
    ],
)
def test_trees(method, draft, make_batch):
    batch = make_batch(4, vocab=7, requests=40, draft=draft, max_draft=4)
    parents, counts = torch.full_like(batch.draft_tokens, -1), batch.cu_num_draft.diff().tolist()
    for first, count in zip(batch.cu_num_draft.tolist(), counts):
        for node in range(1, count):
            parents[first + node] = (node - 2) // 2
    laws = batch.draft_logits if batch.draft_probs is None else batch.draft_probs
    if laws is not None:
        share_sibling_laws(laws, parents, batch.cu_num_draft.tolist())
    out = TreeVerdict.empty(batch)
    out.path.fill_(9)
    got, wanted = (
        verify_tree(batch, parents, method=method, out=out),
        verify_tree_reference(batch, parents, method=method),
    )
    assert got is out
    assert torch.equal(got.path, wanted.path)
    assert same(got.verdict, wanted.verdict)
    bounded = verify_tree(batch, parents, method=method, max_passes=1)
    assert torch.equal(bounded.path, verify_tree_reference(batch, parents, method=method, max_passes=1).path)


def share_sibling_laws(laws, parents, offsets) -> None:
    for first, last in zip(offsets, offsets[1:]):
        eldest = {}
        for node in range(first, last):
            laws[node] = laws[eldest.setdefault(int(parents[node]), node)].clone()


def test_no_request_and_no_draft(make_batch):
    nothing = VerifyBatch(
        torch.empty(0, 5), torch.empty(0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), torch.empty(0),
        KeyedNoise(torch.empty(0, 3, dtype=torch.int64)), 3,
    )  # fmt: skip
    assert verify_chain(nothing).emitted.shape == (0, 4)
    assert verify_tree(nothing, nothing.draft_tokens, method="traversal").path.shape == (0, 3)
    undrafted = make_batch(3, vocab=5, requests=6, max_draft=0)
    assert same(verify_chain(undrafted), verify_chain_reference(undrafted))
    parents = undrafted.draft_tokens
    answer = verify_tree(undrafted, parents, method="recursive")
    assert same(answer.verdict, verify_tree_reference(undrafted, parents, method="recursive").verdict)
