"""Tree attention equals a float64 softmax over the mask, over paged and contiguous caches, whatever the shapes."""

from dataclasses import replace

import pytest
import torch

from specdec_core.draft import DraftTree
from specdec_kernels.tree_attention import (
    TreeKV,
    pack_mask,
    split_columns,
    tree_attention,
    tree_attention_reference,
    tree_attention_triton,
    unpack_mask,
    warps_for,
)

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def make_case(
    seed: int, *, requests=2, rows=7, heads=4, kv_heads=2, dim=64, longest=40, dtype=torch.float32, page=0, padding=0
):
    """(queries, kv, mask): random trees behind prefixes of different length, the cache beyond them NaN."""
    rng = torch.Generator().manual_seed(seed)
    prefix = torch.randint(0, longest + 1, (requests,), generator=rng, dtype=torch.int32)
    prefix[0] = longest
    capacity = longest + rows
    mask = torch.zeros(requests, rows, rows, dtype=torch.bool)
    for request in range(requests):
        parents = tuple(int(torch.randint(-1, node, (), generator=rng)) if node else -1 for node in range(rows - 1))
        mask[request] = DraftTree((0,) * (rows - 1), parents).attention_mask(0)
        if padding:
            mask[request, rows - padding :] = False
    blocks = -(-capacity // page) if page else 0
    slots = requests * blocks * page if page else requests * capacity
    table = torch.randperm(requests * blocks, generator=rng).view(requests, blocks).to(torch.int32) if page else None
    pools = torch.full((2, slots, kv_heads, dim), float("nan"))
    kv = TreeKV(pools[0], pools[1], prefix, capacity, table, page)
    for request, start in enumerate(prefix.tolist()):
        at = kv.slots(request, start + rows)
        pools[:, at] = torch.randn(2, len(at), kv_heads, dim, generator=rng)
    kv = replace(kv, keys=pools[0].to(dtype), values=pools[1].to(dtype))
    queries = torch.randn(requests, rows, heads, dim, generator=rng).to(dtype)
    return queries, kv, pack_mask(mask)


def in_float64(queries, kv, mask):
    wide = replace(kv, keys=kv.keys.double(), values=kv.values.double())
    return tree_attention_reference(queries.double(), wide, mask)


def largest_error(got, wanted) -> float:
    return float((got.double() - wanted).abs().max())


@VERSIONS
@pytest.mark.parametrize("page", [0, 16], ids=["contiguous", "paged"])
def test_equals_float64(version: int, page: int) -> None:
    case = make_case(1, page=page)
    got = tree_attention_triton(*case, version=version, columns=32)
    assert largest_error(got, in_float64(*case)) < 1e-5


@pytest.mark.slow
@VERSIONS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=["fp32", "fp16", "bf16"])
@pytest.mark.parametrize(
    ("rows", "heads", "kv_heads", "dim"), [(1, 2, 1, 64), (33, 6, 2, 96), (64, 4, 1, 128), (128, 2, 2, 64)]
)
def test_shapes_and_types(version, dtype, rows, heads, kv_heads, dim) -> None:
    case = make_case(2, rows=rows, heads=heads, kv_heads=kv_heads, dim=dim, longest=70, dtype=dtype, page=16)
    got = tree_attention_triton(*case, version=version, columns=64)
    assert largest_error(got, in_float64(*case)) < TOLERANCE[dtype]


@VERSIONS
def test_p50_a_padding_row_is_zero_and_changes_no_other(version: int) -> None:
    queries, kv, mask = make_case(3, rows=6, padding=2)
    got = tree_attention_triton(queries, kv, mask, version=version, columns=32)
    assert torch.equal(got[:, 4:], torch.zeros_like(got[:, 4:]))
    other = queries.clone()
    other[:, 4:] = 1e4
    assert torch.equal(tree_attention_triton(other, kv, mask, version=version, columns=32), got)


@VERSIONS
@pytest.mark.parametrize("page", [0, 16], ids=["contiguous", "paged"])
def test_a_cache_by_heads_is_taken_as_it_lies(version: int, page: int) -> None:
    queries, kv, mask = make_case(7, page=page)
    by_heads = [half.transpose(0, 1).contiguous().transpose(0, 1) for half in (kv.keys, kv.values)]
    assert not by_heads[0].is_contiguous()
    other = replace(kv, keys=by_heads[0], values=by_heads[1])
    wanted = tree_attention_triton(queries, kv, mask, version=version, columns=32)
    assert torch.equal(tree_attention_triton(queries, other, mask, version=version, columns=32), wanted)
    with pytest.raises(ValueError, match=r"kv.values has strides .*; expected those of kv.keys"):
        tree_attention(queries, replace(kv, values=by_heads[1]), mask)
    with pytest.raises(ValueError, match=r"kv.values has shape .*, kv.keys"):
        tree_attention(queries, replace(kv, values=kv.values[1:]), mask)
    with pytest.raises(ValueError, match=r"kv.keys has strides .*, the last of them 1"):
        tree_attention(queries, replace(kv, keys=kv.keys.mT.contiguous().mT, values=kv.values.mT.contiguous().mT), mask)


@VERSIONS
def test_what_a_row_must_not_see_does_not_reach_it(version: int) -> None:
    queries, kv, mask = make_case(4, requests=1, rows=6, longest=20)
    got, seen = tree_attention_triton(queries, kv, mask, version=version, columns=16), unpack_mask(mask)[0]
    for column in range(6):
        keys, values = kv.keys.clone(), kv.values.clone()
        keys[20 + column], values[20 + column] = 3.0, 5.0
        moved = tree_attention_triton(queries, replace(kv, keys=keys, values=values), mask, version=version, columns=16)
        changed = (moved != got).flatten(2).any(-1)[0]
        assert torch.equal(changed, seen[:, column]), column


@pytest.mark.parametrize(
    ("capacity", "programs", "columns"),
    [(100, 8, 512), (8192 + 64, 8, 512), (8192 + 64, 32, 1024), (8192 + 64, 512, 8192), (131_072, 4096, 8192)],
)
def test_splits_are_no_more_than_fill_a_gpu(capacity: int, programs: int, columns: int) -> None:
    assert split_columns(capacity, programs) == columns


def test_large_tiles_take_more_warps_but_on_blackwell(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = 64 * 64, 64 * 128
    for major, wanted in ((8, 8), (9, 8), (10, 4), (12, 4)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, major=major: (major, 0))
        assert warps_for(large, torch.device("cuda")) == wanted
        assert warps_for(small, torch.device("cuda")) == 4
    assert warps_for(large, torch.device("cpu")) == 8


def test_p45_the_mask_of_a_tree_packs_and_unpacks() -> None:
    mask = DraftTree((0,) * 6, (-1, -1, 0, 0, 1, 3)).attention_mask(0)[None]
    assert ["".join(map(str, row)) for row in mask[0].int().tolist()] == [
        "1000000", "1100000", "1010000", "1101000", "1100100", "1010010", "1100101",
    ]  # fmt: skip
    assert pack_mask(mask)[0, :, 0].tolist() == [1, 3, 5, 11, 19, 37, 83]
    wide = torch.rand(2, 65, 65) < 0.5
    assert torch.equal(unpack_mask(pack_mask(wide)), wide)


def test_runs_repeat_to_the_bit_and_splits_agree() -> None:
    case = make_case(5)
    got = tree_attention_triton(*case, columns=32)
    assert torch.equal(got, tree_attention_triton(*case, columns=32))
    assert largest_error(tree_attention_triton(*case, columns=64), got.double()) < 1e-5


def test_the_wrapper_answers_on_the_cpu_and_names_what_is_wrong() -> None:
    queries, kv, mask = make_case(6, page=16)
    assert torch.equal(tree_attention(queries, kv, mask), tree_attention_reference(queries, kv, mask))
    with pytest.raises(ValueError, match="queries has 129 rows; expected at most 128"):
        tree_attention(torch.zeros(1, 129, 4, 64), kv, mask)
    with pytest.raises(ValueError, match=r"mask is torch.int64"):
        tree_attention(queries, kv, mask.long())
    with pytest.raises(ValueError, match="kv.keys is torch.float32, queries torch.float16; expected the same"):
        tree_attention(queries.half(), kv, mask)
    with pytest.raises(ValueError, match="kv.block_table has shape"):
        tree_attention(queries, replace(kv, page=0), mask)
    with pytest.raises(ValueError, match="kv_heads dividing 3"):
        tree_attention(queries[:, :, :3].contiguous(), kv, mask)
    with pytest.raises(ValueError, match="version is 7; expected 1"):
        tree_attention_triton(queries, kv, mask, version=7)


def test_the_reference_reads_nothing_of_another_request() -> None:
    queries, kv, mask = make_case(8, rows=4, longest=12, page=16)
    entries = kv.block_table.clone()
    entries[1, 0] = -1
    beyond, negative = kv.prefix.clone(), kv.prefix.clone()
    beyond[0], negative[1] = 13, -1
    wrong = {
        r"kv.prefix\[0\] is 13; expected 0..12": {"prefix": beyond},
        r"kv.prefix\[1\] is -1; expected 0..12": {"prefix": negative},
        r"kv.block_table\[1\] begins with \[-1\]; expected blocks 0..1": {"block_table": entries},
        r"kv.block_table\[0\] begins with": {"block_table": kv.block_table + 2},
        "kv.capacity is 3; expected at least the 4 rows": {"capacity": 3},
    }
    for message, change in wrong.items():
        with pytest.raises(ValueError, match=message):
            tree_attention(queries, replace(kv, **change), mask)
    # blocks behind the rows are not looked at
    longer = torch.cat([kv.block_table, torch.full((2, 1), -1, dtype=torch.int32)], 1)
    assert torch.equal(
        tree_attention(queries, replace(kv, block_table=longer), mask), tree_attention(queries, kv, mask)
    )


def test_types_and_tiles_that_no_kernel_has_are_named() -> None:
    queries, kv, mask = make_case(9, rows=3, longest=5)
    wide = replace(kv, keys=kv.keys.double(), values=kv.values.double())
    with pytest.raises(ValueError, match="queries is torch.float64; the kernels take one of"):
        tree_attention_triton(queries.double(), wide, mask)
    whole = replace(kv, keys=kv.keys.nan_to_num().long(), values=kv.values.nan_to_num().long())
    with pytest.raises(ValueError, match="queries is torch.int64 with head_dim 64; expected floating point"):
        tree_attention(queries.long(), whole, mask)
    with pytest.raises(ValueError, match="columns is 0; expected at least 1"):
        tree_attention_triton(queries, kv, mask, columns=0)
    with pytest.raises(ValueError, match=r"kv.keys has shape \(16, 0, 64\); expected .* with kv_heads dividing 4"):
        tree_attention(queries, replace(kv, keys=kv.keys[:, :0], values=kv.values[:, :0]), mask)
    for mask in (torch.ones(1, 2, 2), torch.ones(2, 2, dtype=torch.bool), torch.ones(1, 2, 3, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"mask is .*; expected torch.bool of \[requests, rows, rows\]"):
            pack_mask(mask)


@VERSIONS
def test_a_tree_without_a_prefix(version: int) -> None:
    queries, kv, mask = make_case(10, rows=5, longest=0, page=16)
    assert kv.prefix.tolist() == [0, 0]
    got = tree_attention_triton(queries, kv, mask, version=version, columns=32)
    assert largest_error(got, in_float64(queries, kv, mask)) < 1e-5
