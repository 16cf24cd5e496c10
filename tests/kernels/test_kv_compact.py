"""KV compaction moves the accepted rows and nothing else, through any block table."""

import pytest
import torch
from torch import Tensor

from specdec_kernels.kv_compact import kv_compact, kv_compact_reference, kv_compact_triton

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

PAGE = 4


def numbered_pool(layers: int, pages: int, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Every element is unlike every other (in float32)."""
    return torch.arange(layers * pages * PAGE * width).to(dtype).view(layers, pages * PAGE, width)


def random_case(seed: int, requests: int, depth: int, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """(block_table, starts, path) with a table of shuffled pages, none of them shared."""
    rng = torch.Generator().manual_seed(seed)
    starts = torch.randint(0, 9, (requests,), generator=rng)
    blocks = (8 + nodes) // PAGE + 1
    table = torch.randperm(requests * blocks, generator=rng).view(requests, blocks).to(torch.int32)
    path = torch.full((requests, depth), -1)
    for request in range(requests):
        kept = int(torch.randint(0, depth + 1, (), generator=rng))
        path[request, :kept] = torch.randperm(nodes, generator=rng)[:kept].sort().values
    return table, starts, path


def moved_by_hand(pool: Tensor, table: Tensor, starts: Tensor, path: Tensor) -> Tensor:
    after = pool.clone()
    for request, start in enumerate(starts.tolist()):
        for place, node in enumerate(path[request].tolist()):
            if node >= 0:
                source, target = start + node, start + place
                row = int(table[request, source // PAGE]) * PAGE + source % PAGE
                to = int(table[request, target // PAGE]) * PAGE + target % PAGE
                after[:, to] = pool[:, row]
    return after


@pytest.mark.parametrize("version", [0, 1, 2], ids=["reference", "v1", "v2"])
@pytest.mark.parametrize(("width", "dtype"), [(5, torch.float32), (24, torch.bfloat16)])
def test_every_version_moves_the_path_and_nothing_else(version: int, width: int, dtype: torch.dtype) -> None:
    table, starts, path = random_case(version, requests=5, depth=6, nodes=9)
    pool = numbered_pool(2, int(table.max()) + 2, width, dtype)
    wanted = moved_by_hand(pool, table, starts, path)
    if version == 0:
        kv_compact_reference(pool, table, starts, path, page=PAGE)
    else:
        kv_compact_triton(pool, table, starts, path, page=PAGE, version=version)
    assert torch.equal(pool, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_many_random_paths(version: int) -> None:
    for seed in range(20):
        table, starts, path = random_case(100 + seed, requests=10, depth=1 + seed % 7, nodes=8 + seed)
        pool = numbered_pool(1, int(table.max()) + 1, 7)
        wanted = moved_by_hand(pool, table, starts, path)
        kv_compact_triton(pool, table, starts, path, page=PAGE, version=version)
        assert torch.equal(pool, wanted), seed


@pytest.mark.parametrize("version", [1, 2])
def test_p46_the_accepted_path_becomes_contiguous(version: int) -> None:
    # tree of P45 with the pending token as node 0, rows 20 .. 26, accepted 0 -> 2 -> 5
    pool = numbered_pool(1, 7, 3)
    before = pool.clone()
    table, starts = torch.arange(7, dtype=torch.int32)[None], torch.tensor([20])
    kv_compact_triton(pool, table, starts, torch.tensor([[0, 2, 5]]), page=PAGE, version=version)
    assert torch.equal(pool[0, 20:23], before[0, [20, 22, 25]])
    assert torch.equal(pool[0, :20], before[0, :20])
    assert torch.equal(pool[0, 23:], before[0, 23:])


def test_a_prefix_moves_nothing_and_nothing_is_no_work() -> None:
    pool = numbered_pool(2, 4, 3)
    before = pool.clone()
    table, starts = torch.arange(4, dtype=torch.int32)[None], torch.tensor([2])
    kv_compact_triton(pool, table, starts, torch.tensor([[0, 1, 2, -1]]), page=PAGE)
    kv_compact_triton(pool, table, starts, torch.empty(1, 0, dtype=torch.int64), page=PAGE)
    kv_compact(pool, table, starts, torch.tensor([[0, 1, -1, -1]]), page=PAGE)
    assert torch.equal(pool, before)


def test_what_is_wrong_is_named() -> None:
    pool, table = torch.zeros(1, 8, 3), torch.zeros(1, 2, dtype=torch.int32)
    starts, path = torch.tensor([0]), torch.tensor([[0]])
    with pytest.raises(ValueError, match="page is 3; expected a divisor of the pool's 8 slots"):
        kv_compact(pool, table, starts, path, page=3)
    with pytest.raises(ValueError, match="block_table is torch.int64"):
        kv_compact(pool, table.long(), starts, path, page=4)
    with pytest.raises(ValueError, match="path is torch.int64 of shape"):
        kv_compact(pool, table, starts, torch.tensor([[0], [1]]), page=4)
    with pytest.raises(ValueError, match="pool has shape"):
        kv_compact(pool.transpose(1, 2), table, starts, path, page=4)
    with pytest.raises(ValueError, match="version is 3; expected 1"):
        kv_compact_triton(pool, table, starts, path, page=4, version=3)


def test_the_reference_moves_nothing_that_is_not_there() -> None:
    pool, table = numbered_pool(1, 3, 2), torch.tensor([[2, 0]], dtype=torch.int32)
    before = pool.clone()
    wrong = {
        r"path\[0\] is \[3, 1\]; expected nodes in rising order": (table, 2, [3, 1]),
        r"path\[0\] is \[3, 3\]; expected": (table, 2, [3, 3]),
        r"path\[0\] is \[-1, 3\]; expected": (table, 2, [-1, 3]),
        r"path\[0\] is \[1, -5\]; expected": (table, 2, [1, -5]),
        r"starts\[0\] is -1 with node 3": (table, -1, [1, 3]),
        r"starts\[0\] is 7 with node 3 in its path; expected positions 0..7": (table, 7, [1, 3]),
        r"block_table\[0, 1\] is -2; expected one of the pool's pages 0..2": (table - 2, 4, [1, 3]),
        r"block_table\[0, 0\] is 3; expected": (table + 1, 2, [1, 3]),
    }
    for message, (blocks, start, path) in wrong.items():
        with pytest.raises(ValueError, match=message):
            kv_compact(pool, blocks, torch.tensor([start]), torch.tensor([path]), page=PAGE)
    assert torch.equal(pool, before)
