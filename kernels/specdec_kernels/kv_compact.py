"""KV compaction: the rows of the accepted path move to the front of the drafted rows, in place, all layers at once.

Verification of a tree writes a row for each node behind the pending token's. Node n lies at position start + n; after
it the accepted nodes path[0] < path[1] < ... belong at start, start + 1, .... Nodes are in topological order, so
path[i] >= i and nothing committed is ever touched; a path that is a prefix of the nodes moves nothing.
"""

from jaxtyping import Int32, Int64, Shaped
import torch
from torch import Tensor

from specdec_kernels.chain_launch import launch, on_device, power_of_two, takes_triton


def kv_compact_reference(
    pool: Shaped[Tensor, "layers slots width"],
    block_table: Int32[Tensor, "requests blocks"],
    starts: Int64[Tensor, " requests"],
    path: Int64[Tensor, "requests depth"],
    *,
    page: int,
) -> None:
    """The same by indexing, a request at a time.

    Raises:
        ValueError: as `kv_compact`; a path that does not rise, or a position that no block holds.
    """
    _check(pool, block_table, starts, path, page)
    _check_values(pool, block_table, starts, path, page)
    for request in range(len(starts)):
        nodes = path[request][path[request] >= 0]
        at = torch.arange(len(nodes), device=path.device)
        kept = nodes > at
        positions = torch.stack((starts[request] + nodes[kept], starts[request] + at[kept]))
        source, target = block_table[request, positions // page].long() * page + positions % page
        pool[:, target] = pool[:, source].clone()


def kv_compact_triton(
    pool: Shaped[Tensor, "layers slots width"],
    block_table: Int32[Tensor, "requests blocks"],
    starts: Int64[Tensor, " requests"],
    path: Int64[Tensor, "requests depth"],
    *,
    page: int,
    version: int = 2,
) -> None:
    """The same by one launch: on a CUDA device, or on any under TRITON_INTERPRET=1.

    Raises:
        ValueError: as `kv_compact`, or a version that does not exist.
    """
    from specdec_kernels.kv_compact_triton import kv_compact_v1_kernel, kv_compact_v2_kernel

    _check(pool, block_table, starts, path, page)
    if version not in (1, 2):
        raise ValueError(f"version is {version}; expected 1 (row after row) or 2 (columns in parallel)")
    requests, depth = path.shape
    layers, _, width = pool.shape
    if 0 in (requests, depth, layers, width):
        return
    shared = (pool, block_table, starts, path, pool.stride(0), block_table.stride(0), depth, width)
    with on_device(pool.device):
        if version == 1:
            launch(kv_compact_v1_kernel, (requests, layers), *shared, PAGE=page, BLOCK=min(1024, power_of_two(width)))
        else:
            tall = power_of_two(depth)
            block = max(16, min(power_of_two(width), 4096 // tall))
            grid = (requests, layers, -(-width // block))
            launch(kv_compact_v2_kernel, grid, *shared, PAGE=page, DEPTH=tall, BLOCK=block)


def kv_compact(
    pool: Shaped[Tensor, "layers slots width"],
    block_table: Int32[Tensor, "requests blocks"],
    starts: Int64[Tensor, " requests"],
    path: Int64[Tensor, "requests depth"],
    *,
    page: int,
) -> None:
    """Afterwards position starts[b] + i of request b holds what node path[b, i] had written, in every layer.

    Shapes: `pool` holds pages of `page` positions, keys and values of a position side by side in `width`; block j of a
    request's table holds positions j * page .. j * page + page - 1; `starts` is the position of node 0; `path` ends
    in -1. Contiguous caches are one request a pool with the table 0, 1, 2, .... Requests must not share a page that
    their drafted rows lie in. Moves width elements twice for each row whose place changes, nothing else.

    Raises:
        ValueError: a shape, dtype, stride or device that does not fit, by the argument's name; on a CPU also a path
            that does not rise, or a position that no block holds. The kernel looks at no value on the host.
    """
    if takes_triton(pool.device):
        kv_compact_triton(pool, block_table, starts, path, page=page)
    else:
        kv_compact_reference(pool, block_table, starts, path, page=page)


def _check(pool: Tensor, block_table: Tensor, starts: Tensor, path: Tensor, page: int) -> None:
    if pool.ndim != 3 or pool.stride(2) != 1 or pool.stride(1) != pool.shape[2]:
        raise ValueError(
            f"pool has shape {tuple(pool.shape)} and strides {pool.stride()}; expected [layers, slots, width] with "
            "rows side by side"
        )
    if page < 1 or pool.shape[1] % page:
        raise ValueError(f"page is {page}; expected a divisor of the pool's {pool.shape[1]} slots")
    requests = starts.shape[0] if starts.ndim == 1 else -1
    expected = {
        "block_table": (block_table, torch.int32, 2),
        "starts": (starts, torch.int64, 1),
        "path": (path, torch.int64, 2),
    }
    for name, (values, dtype, dimensions) in expected.items():
        if values.ndim != dimensions or values.dtype != dtype or values.shape[0] != requests:
            raise ValueError(
                f"{name} is {values.dtype} of shape {tuple(values.shape)}; expected {dtype} with {dimensions} "
                f"dimension(s) and a row for each of {requests} requests"
            )
        if not values.is_contiguous():
            raise ValueError(f"{name} has strides {values.stride()}; expected a contiguous tensor")
        if values.device != pool.device:
            raise ValueError(f"{name} lies on {values.device}, pool on {pool.device}; move it there first")


def _check_values(pool: Tensor, block_table: Tensor, starts: Tensor, path: Tensor, page: int) -> None:
    positions, pages = block_table.shape[1] * page, pool.shape[1] // page
    for request, (start, row) in enumerate(zip(starts.tolist(), path.tolist())):
        kept = row.index(-1) if -1 in row else len(row)
        nodes = row[:kept]
        if any(node < 0 for node in nodes) or sorted(set(nodes)) != nodes or set(row[kept:]) - {-1}:
            raise ValueError(
                f"path[{request}] is {row[:9]}; expected nodes in rising order, each once, and -1 behind them"
            )
        if start < 0 or (nodes and start + nodes[-1] >= positions):
            raise ValueError(
                f"starts[{request}] is {start} with node {max(nodes, default=-1)} in its path; expected positions "
                f"0..{positions - 1}, which its {block_table.shape[1]} blocks hold"
            )
        places = [*nodes, *range(kept)]
        blocks = {(start + place) // page for place in places}
        wrong = [block for block in sorted(blocks) if not 0 <= int(block_table[request, block]) < pages]
        if wrong:
            raise ValueError(
                f"block_table[{request}, {wrong[0]}] is {int(block_table[request, wrong[0]])}; expected one of the "
                f"pool's pages 0..{pages - 1}"
            )


if __name__ == "__main__":
    from specdec_kernels.cache_benchmark import main

    main("kv_compact")
