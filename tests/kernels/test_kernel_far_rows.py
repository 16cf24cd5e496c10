"""Every kernel reaches rows that lie more than 2^31 elements apart: its own offsets are int64, not only a helper's.

With an offset that wraps, the process reads or writes outside its memory: it differs, or it dies.
"""

from dataclasses import replace
import mmap
import sys

import pytest
import torch
from torch import Tensor

from specdec_kernels.kv_compact import kv_compact_triton
from specdec_kernels.tree_attention import TreeKV, pack_mask, tree_attention_triton
from specdec_kernels.verify_block import verify_block_triton
from specdec_kernels.verify_chain import verify_chain_triton
from specdec_kernels.verify_tree import verify_tree_triton

pytest.importorskip("triton", reason="Triton has no wheel for this platform")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs memory that is reserved but never backed"),
]

FAR = 2**31 // 3 + 16  # the fourth row begins behind 2^31
PARENTS = torch.tensor([-1, -1, 0])
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Python has its name since 3.13


def far(values: Tensor, stride: int) -> Tensor:
    """A copy whose rows lie `stride` elements apart; the memory between them is never touched."""
    extent = ((len(values) - 1) * stride + values.shape[1]) * values.element_size()
    room = mmap.mmap(-1, extent, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    copy = torch.frombuffer(room, dtype=torch.uint8).view(values.dtype).as_strided(values.shape, (stride, 1))
    return copy.copy_(values)


def spread(batch):
    """The batch, its logits and laws far apart."""
    rows = {
        name: far(getattr(batch, name), FAR)
        for name in ("target_logits", "draft_logits", "draft_probs")
        if getattr(batch, name) is not None
    }
    return replace(batch, **rows)


@pytest.mark.parametrize("draft", ["none", "logits", "probs"])
def test_chains(draft, make_batch) -> None:
    # more than four rows of target and draft, few enough for the early versions
    batch = make_batch(7, vocab=5, requests=4, max_draft=3, draft=draft, padded=False, dtype=torch.bfloat16)
    assert batch.num_drafts > 4
    for kernel, versions in ((verify_chain_triton, (1, 2, 3)), (verify_block_triton, (1, 2))):
        for version in versions:
            near, apart = kernel(batch, version=version), kernel(spread(batch), version=version)
            assert torch.equal(near.emitted, apart.emitted), (kernel, version)


@pytest.mark.parametrize(
    ("method", "draft"),
    [
        ("recursive", "none"),
        ("recursive_without_replacement", "logits"),
        ("target_only", "none"),
        ("traversal", "logits"),
        ("traversal_without_replacement", "probs"),
    ],
)
def test_trees(method, draft, make_batch) -> None:
    batch = make_batch(7, vocab=5, requests=4, max_draft=3, draft=draft, padded=False, dtype=torch.bfloat16)
    parents = torch.cat([PARENTS[:count] for count in batch.cu_num_draft.diff().tolist()])
    for version in (1, 2):
        near, apart = (
            verify_tree_triton(some, parents, method=method, version=version) for some in (batch, spread(batch))
        )
        assert torch.equal(near.verdict.emitted, apart.verdict.emitted), version


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("page", [0, 4], ids=["contiguous", "paged"])
def test_attention(version, page) -> None:
    torch.manual_seed(1)
    # two key heads of 12 positions: rows far apart, then heads far apart
    pools = torch.randn(2, 12, 2 * 16, dtype=torch.float16)
    queries = torch.randn(2, 3, 4, 16, dtype=torch.float16)
    table = torch.tensor([[2, 0], [1, 1]], dtype=torch.int32) if page else None
    prefix, mask = torch.tensor([3, 1], dtype=torch.int32), pack_mask(torch.ones(2, 3, 3, dtype=torch.bool).tril())

    def answer(keys, values):
        kv = TreeKV(keys, values, prefix, 6, table, page)
        return tree_attention_triton(queries, kv, mask, version=version, columns=4)

    wanted = answer(*(pool.view(12, 2, 16) for pool in pools))
    stride = 2**31 // 10 + 64
    rows = [far(pool, stride).as_strided((12, 2, 16), (stride, 16, 1)) for pool in pools]
    assert torch.equal(answer(*rows), wanted)
    by_heads = pools.view(2, 12, 2, 16).transpose(1, 2).reshape(2, 2, 12 * 16)
    heads = [far(pool, 2**31 + 64).as_strided((12, 2, 16), (16, 2**31 + 64, 1)) for pool in by_heads]
    assert torch.equal(answer(*heads), wanted)


@pytest.mark.parametrize("version", [1, 2])
def test_compaction(version) -> None:
    pool, layer = torch.arange(2 * 12 * 3).view(2, 36).half(), 2**31 + 5
    near, apart = pool.clone().view(2, 12, 3), far(pool, layer).as_strided((2, 12, 3), (layer, 3, 1))
    for some in (near, apart):
        table = torch.tensor([[2, 0]], dtype=torch.int32)
        kv_compact_triton(some, table, torch.tensor([2]), torch.tensor([[1, 3]]), page=4, version=version)
    assert torch.equal(near, apart)
