"""Correctness of the kernels around the cache: attention against float64, compaction against indexing."""

from dataclasses import replace

import torch

from specdec_kernels.kv_compact import kv_compact_reference, kv_compact_triton
from specdec_kernels.tree_attention import TreeKV, pack_mask, tree_attention_reference, tree_attention_triton
from specdec_labs.bench_kernels.inputs import tree_mask

TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def check_attention(version: int, device: torch.device, small: bool) -> tuple[int, int, int, str]:
    """(calls, calls beyond the tolerance, 0, the largest errors): paged and contiguous, odd shapes, padding rows."""
    shapes = [(5, 2, 1, 16)] if small else [(1, 8, 2, 64), (17, 6, 2, 96), (64, 32, 8, 128), (128, 4, 4, 64)]
    types = [torch.float32] if small else list(TOLERANCE)
    errors: dict[torch.dtype, float] = {}
    calls = wrong = 0
    for rows, heads, kv_heads, dim in shapes:
        for dtype in types:
            for page in (0, 16):
                queries, kv, mask = _attention_case(
                    rows, heads, kv_heads, dim, dtype, page, longest=20 if small else 700
                )
                wide = replace(kv, keys=kv.keys.double(), values=kv.values.double())
                wanted = tree_attention_reference(queries.double(), wide, mask)
                there = TreeKV(
                    kv.keys.to(device), kv.values.to(device), kv.prefix.to(device), kv.capacity,
                    None if kv.block_table is None else kv.block_table.to(device), kv.page,
                )  # fmt: skip
                got = tree_attention_triton(
                    queries.to(device), there, mask.to(device), version=version, columns=32 if small else 512
                )
                error = largest_error(got.cpu(), wanted)
                errors[dtype] = max(error, errors.get(dtype, 0.0))
                calls, wrong = calls + 1, wrong + (error > TOLERANCE[dtype])
    note = ", ".join(f"{str(dtype).removeprefix('torch.')} {error:.1e}" for dtype, error in errors.items())
    return calls, wrong, 0, f"largest errors against float64: {note}"


def largest_error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """Absolute below 1, relative above; infinite for NaN."""
    return float(((got.double() - wanted).abs() / wanted.abs().clamp(min=1)).nan_to_num(float("inf")).max())


def _attention_case(
    rows: int, heads: int, kv_heads: int, dim: int, dtype: torch.dtype, page: int, longest: int
) -> tuple[torch.Tensor, TreeKV, torch.Tensor]:
    rng = torch.Generator().manual_seed(rows + dim + page)
    prefix = torch.tensor([longest, longest // 3, 0], dtype=torch.int32)
    requests, capacity = len(prefix), longest + rows
    blocks = -(-capacity // page) if page else 0
    slots = requests * (blocks * page if page else capacity)
    table = torch.randperm(requests * blocks, generator=rng).view(requests, blocks).int() if page else None
    # what no row may look at is NaN
    pools = torch.full((2, slots, kv_heads, dim), float("nan"))
    kv = TreeKV(pools[0], pools[1], prefix, capacity, table, page)
    for request, start in enumerate(prefix.tolist()):
        at = kv.slots(request, start + rows)
        pools[:, at] = torch.randn(2, len(at), kv_heads, dim, generator=rng)
    kv = replace(kv, keys=pools[0].to(dtype), values=pools[1].to(dtype))
    mask = tree_mask(rows)[None].repeat(requests, 1, 1)
    if rows > 4:
        mask[1, rows - 2 :] = False
    return torch.randn(requests, rows, heads, dim, generator=rng).to(dtype), kv, pack_mask(mask)


def check_compact(version: int, device: torch.device, small: bool) -> tuple[int, int, int, str]:
    """(pools, pools that differ anywhere, 0, what was tried): random paths through shuffled pages."""
    rng, wrong, pools = torch.Generator().manual_seed(5), 0, 2 if small else 20
    for seed in range(pools):
        page, width = 4, 1 + 31 * (seed % 3) if small else (1, 96, 2048)[seed % 3]
        requests, depth, nodes = 3, 1 + seed % 6, 9
        starts = torch.randint(0, 9, (requests,), generator=rng)
        blocks = (8 + nodes) // page + 1
        table = torch.randperm(requests * blocks, generator=rng).view(requests, blocks).int()
        path = torch.full((requests, depth), -1)
        for request in range(requests):
            kept = int(torch.randint(0, depth + 1, (), generator=rng))
            path[request, :kept] = torch.randperm(nodes, generator=rng)[:kept].sort().values
        pool = torch.randn(2, requests * blocks * page, width, generator=rng).bfloat16()
        there = pool.to(device)
        kv_compact_reference(pool, table, starts, path, page=page)
        at = (table.to(device), starts.to(device), path.to(device))
        kv_compact_triton(there, *at, page=page, version=version)
        wrong += not torch.equal(there.cpu(), pool)
    return pools, wrong, 0, "random paths through shuffled pages"
