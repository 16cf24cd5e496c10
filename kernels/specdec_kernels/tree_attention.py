"""Attention of a draft tree's rows: every row sees the prefix, its ancestors and itself.

Position prefix + j of a request's cache holds the keys and values of its row j (row 0 the pending token, row n + 1 node
n). The tree part of the mask is bit-packed: a row of a tree of 64 is two words instead of 64 numbers.
"""

from dataclasses import dataclass
import math

from jaxtyping import Bool, Float, Int32
import torch
from torch import Tensor

from specdec_kernels.chain_launch import launch, on_device, power_of_two, takes_triton

MAX_ROWS = 128
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def pack_mask(mask: Bool[Tensor, "requests rows rows"]) -> Int32[Tensor, "requests rows words"]:
    """The ancestor mask of each row, 32 columns a word: bit j % 32 of word j // 32 says whether it sees row j.

    A row that does not see itself is padding: it sees nothing, the prefix neither.

    Raises:
        ValueError: a mask that is not boolean, or not square for each request.
    """
    if mask.dtype != torch.bool or mask.ndim != 3 or mask.shape[1] != mask.shape[2]:
        raise ValueError(
            f"mask is {mask.dtype} of shape {tuple(mask.shape)}; expected torch.bool of [requests, rows, rows]"
        )
    requests, rows, columns = mask.shape
    words = -(-columns // 32)
    padded = torch.zeros(requests, rows, words * 32, dtype=torch.int64, device=mask.device)
    padded[:, :, :columns] = mask
    bits = padded.view(requests, rows, words, 32) << torch.arange(32, device=mask.device)
    word = bits.sum(-1)
    # two's complement: bit 31 is the sign
    return torch.where(word >= 1 << 31, word - (1 << 32), word).to(torch.int32)


def unpack_mask(packed: Int32[Tensor, "requests rows words"]) -> Bool[Tensor, "requests rows rows"]:
    """The inverse of `pack_mask`."""
    bits = packed.to(torch.int64)[..., None] >> torch.arange(32, device=packed.device) & 1
    return bits.flatten(2)[:, :, : packed.shape[1]].bool()


@dataclass(frozen=True, slots=True, eq=False)
class TreeKV:
    """Where keys and values lie.

    Attributes:
        keys, values: [slots, kv_heads, head_dim], one row a position. Heads may lie outside slots, as in a cache of
            shape [kv_heads, slots, head_dim] seen through `transpose(0, 1)`; a row's numbers lie side by side.
        prefix: positions before row 0, one number a request.
        capacity: the most positions (prefix and rows) a request may have; it fixes the launch.
        block_table: block j of a request holds its positions j * page and on; None: request b owns the slots from
            b * capacity on.
        page: positions a block.
    """

    keys: Float[Tensor, "slots kv_heads head_dim"]
    values: Float[Tensor, "slots kv_heads head_dim"]
    prefix: Int32[Tensor, " requests"]
    capacity: int
    block_table: Int32[Tensor, "requests blocks"] | None = None
    page: int = 0

    def slots(self, request: int, count: int) -> Tensor:
        """The rows of the first `count` positions of a request."""
        at = torch.arange(count, device=self.keys.device)
        if self.block_table is None:
            return request * self.capacity + at
        return self.block_table[request, at // self.page].long() * self.page + at % self.page


def tree_attention_reference(
    queries: Float[Tensor, "requests rows heads head_dim"],
    kv: TreeKV,
    mask: Int32[Tensor, "requests rows words"],
    *,
    scale: float | None = None,
) -> Float[Tensor, "requests rows heads head_dim"]:
    """The same by a softmax over a boolean mask, a request at a time, in float32 (float64 for float64 queries).

    Raises:
        ValueError: as `tree_attention`; a prefix beyond the capacity, or a block that is not in the cache.
    """
    _check(queries, kv, mask)
    _check_values(queries, kv)
    factor = queries.shape[3] ** -0.5 if scale is None else scale
    wide, out = torch.promote_types(queries.dtype, torch.float32), torch.zeros_like(queries)
    seen = unpack_mask(mask)
    for request, prefix in enumerate(kv.prefix.tolist()):
        slots = kv.slots(request, prefix + queries.shape[1])
        group = queries.shape[2] // kv.keys.shape[1]
        k = kv.keys[slots].to(wide).repeat_interleave(group, dim=1)
        v = kv.values[slots].to(wide).repeat_interleave(group, dim=1)
        live = seen[request].diagonal()
        sees = torch.cat([live[:, None].expand(-1, prefix), seen[request] & live[:, None]], 1)
        scores = torch.einsum("rhd,chd->rhc", queries[request].to(wide), k) * factor
        scores = scores.masked_fill(~sees[:, None], -math.inf)
        weights = torch.softmax(scores.masked_fill(~live[:, None, None], 0.0), -1)
        answer = torch.einsum("rhc,chd->rhd", weights, v)
        out[request] = torch.where(live[:, None, None], answer, 0.0).to(queries.dtype)
    return out


def tree_attention_triton(
    queries: Float[Tensor, "requests rows heads head_dim"],
    kv: TreeKV,
    mask: Int32[Tensor, "requests rows words"],
    *,
    scale: float | None = None,
    version: int = 2,
    columns: int | None = None,
) -> Float[Tensor, "requests rows heads head_dim"]:
    """The same by kernels: on a CUDA device, or on any under TRITON_INTERPRET=1.

    `columns` is what a split of version 2 owns; None takes `split_columns`.

    Raises:
        ValueError: as `tree_attention`, a version that does not exist, float64, or no `columns`.
    """
    from specdec_kernels.tree_attention_triton import (
        combine_kernel,
        tree_attention_split_kernel,
        tree_attention_v1_kernel,
    )

    _check(queries, kv, mask)
    _check_choices(queries, version, columns)
    requests, rows, heads, dim = queries.shape
    out, kv_heads = torch.empty_like(queries), kv.keys.shape[1]
    if 0 in queries.shape:
        return out
    lanes = rows * heads // kv_heads
    tile = min(64, max(16, power_of_two(lanes)))
    tiles = -(-lanes // tile)
    shape = {"HEAD_DIM": dim, "DIM": max(16, power_of_two(dim))}
    table = kv.prefix if kv.block_table is None else kv.block_table
    stride = kv.capacity if kv.block_table is None else kv.block_table.stride(0)
    inputs = (queries, kv.keys, kv.values, table, kv.prefix, mask)
    strides = (*kv.keys.stride()[:2], stride)
    numbers = (rows, mask.shape[2], heads, kv_heads, *strides, dim**-0.5 if scale is None else scale)
    fixed = {"PAGE": 0 if kv.block_table is None else kv.page, "WIDE": queries.device.type == "cpu", "N": 32}
    fixed |= shape | {"M": tile, "num_warps": warps_for(tile * shape["DIM"], queries.device), "num_stages": 2}
    with on_device(queries.device):
        if version == 1:
            grid = (requests, kv_heads, tiles)
            launch(tree_attention_v1_kernel, grid, *inputs, out, *numbers, **fixed)
            return out
        pairs = requests * kv_heads
        columns = split_columns(kv.capacity, pairs * tiles) if columns is None else columns
        splits = -(-kv.capacity // columns)
        parts = torch.empty(2, pairs, splits, tiles * tile, dtype=torch.float32, device=queries.device)
        values = torch.empty(pairs, splits, tiles * tile, shape["DIM"], dtype=torch.float32, device=queries.device)
        launch(
            tree_attention_split_kernel, (pairs, tiles, splits), *inputs, *parts, values, *numbers, splits,
            tiles * tile, COLUMNS=columns, **fixed,
        )  # fmt: skip
        grid = (pairs, tiles * tile // 16)
        launch(combine_kernel, grid, *parts, values, out, rows, heads, kv_heads, splits, tiles * tile, **shape, M=16)
    return out


def warps_for(tile_size: int, device: torch.device) -> int:
    """Warps a program for a tile of that many numbers. With 8 a large tile spills on sm_100, with 4 on sm_80."""
    if tile_size <= 4096 or (device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 10):
        return 4
    return 8


def split_columns(capacity: int, programs: int, wanted: int = 512) -> int:
    """Columns a split owns, a power of two from 512 to 8,192: about `wanted` programs in all, if there are so many.

    `programs` is how many there are without splits. A split costs head_dim + 2 numbers a lane, written and read.
    """
    splits = max(1, wanted // programs)
    return min(8192, max(512, power_of_two(-(-capacity // splits))))


def tree_attention(
    queries: Float[Tensor, "requests rows heads head_dim"],
    kv: TreeKV,
    mask: Int32[Tensor, "requests rows words"],
    *,
    scale: float | None = None,
) -> Float[Tensor, "requests rows heads head_dim"]:
    """What each row of each tree reads from its cache; zeros for padding rows (those that do not see themselves).

    Query head h uses key head h // (heads / kv_heads); `scale` None takes head_dim ** -0.5. float16, bfloat16 or
    float32 in, float32 inside. On a CUDA device two launches of a size fixed by the shapes and `kv.capacity`, which
    look at no prefix and no block table; the reference looks at both.

    Raises:
        ValueError: a shape, dtype, stride or device that does not fit, by the argument's name; on a CPU also a prefix
            or a block that points outside the cache.
    """
    if takes_triton(queries.device):
        return tree_attention_triton(queries, kv, mask, scale=scale)
    return tree_attention_reference(queries, kv, mask, scale=scale)


def _check(queries: Tensor, kv: TreeKV, mask: Tensor) -> None:
    if queries.ndim != 4 or not queries.is_contiguous():
        raise ValueError(
            f"queries has shape {tuple(queries.shape)} and strides {queries.stride()}; expected contiguous "
            "[requests, rows, heads, head_dim]"
        )
    requests, rows, heads, dim = queries.shape
    if not queries.dtype.is_floating_point or dim == 0:
        raise ValueError(f"queries is {queries.dtype} with head_dim {dim}; expected floating point and at least 1")
    if rows > MAX_ROWS:
        raise ValueError(f"queries has {rows} rows; expected at most {MAX_ROWS}: the pending token and the nodes")
    for name, values in (("keys", kv.keys), ("values", kv.values)):
        if values.ndim != 3 or values.shape[2] != dim or values.shape[1] == 0 or heads % values.shape[1]:
            raise ValueError(
                f"kv.{name} has shape {tuple(values.shape)}; expected [slots, kv_heads, {dim}] with kv_heads "
                f"dividing {heads}"
            )
        if values.shape != kv.keys.shape:
            raise ValueError(f"kv.{name} has shape {tuple(values.shape)}, kv.keys {tuple(kv.keys.shape)}; expected one")
        if values.stride(2) != 1 or values.stride() != kv.keys.stride():
            raise ValueError(f"kv.{name} has strides {values.stride()}; expected those of kv.keys, the last of them 1")
        _check_device(f"kv.{name}", values, queries)
        if values.dtype != queries.dtype:
            raise ValueError(f"kv.{name} is {values.dtype}, queries {queries.dtype}; expected the same")
    _check_layout(kv, mask, queries)


def _check_choices(queries: Tensor, version: int, columns: int | None) -> None:
    if version not in (1, 2):
        raise ValueError(f"version is {version}; expected 1 (one pass) or 2 (split over the columns)")
    if queries.dtype not in _DTYPES:
        raise ValueError(f"queries is {queries.dtype}; the kernels take one of {', '.join(map(str, _DTYPES))}")
    if columns is not None and columns < 1:
        raise ValueError(f"columns is {columns}; expected at least 1, or None to fill a GPU")


def _check_layout(kv: TreeKV, mask: Tensor, queries: Tensor) -> None:
    requests, rows = queries.shape[:2]
    if kv.capacity < rows:
        raise ValueError(f"kv.capacity is {kv.capacity}; expected at least the {rows} rows of a tree")
    expected = {"kv.prefix": (kv.prefix, (requests,)), "mask": (mask, (requests, rows, -(-rows // 32)))}
    if kv.block_table is not None:
        blocks = -(-kv.capacity // kv.page) if kv.page > 0 else 0
        if kv.page < 1 or kv.block_table.ndim != 2 or kv.block_table.shape[1] < blocks:
            raise ValueError(
                f"kv.block_table has shape {tuple(kv.block_table.shape)} with pages of {kv.page}; expected at least "
                f"{blocks} blocks a request for a capacity of {kv.capacity}"
            )
        expected["kv.block_table"] = (kv.block_table, (requests, kv.block_table.shape[1]))
    elif kv.keys.shape[0] < requests * kv.capacity:
        raise ValueError(f"kv.keys has {kv.keys.shape[0]} slots; expected {requests} x capacity {kv.capacity}")
    for name, (values, shape) in expected.items():
        if tuple(values.shape) != shape or values.dtype != torch.int32 or not values.is_contiguous():
            raise ValueError(
                f"{name} is {values.dtype} of shape {tuple(values.shape)}; expected contiguous torch.int32 of {shape}"
            )
        _check_device(name, values, queries)


def _check_values(queries: Tensor, kv: TreeKV) -> None:
    rows = queries.shape[1]
    for request, prefix in enumerate(kv.prefix.tolist()):
        if not 0 <= prefix <= kv.capacity - rows:
            raise ValueError(
                f"kv.prefix[{request}] is {prefix}; expected 0..{kv.capacity - rows}: {rows} rows follow it within "
                f"a capacity of {kv.capacity}"
            )
        if kv.block_table is not None:
            blocks = kv.block_table[request, : -(-(prefix + rows) // kv.page)]
            if bool(((blocks < 0) | (blocks >= kv.keys.shape[0] // kv.page)).any()):
                raise ValueError(
                    f"kv.block_table[{request}] begins with {blocks.tolist()[:9]}; expected blocks "
                    f"0..{kv.keys.shape[0] // kv.page - 1} of {kv.page} positions"
                )


def _check_device(name: str, values: Tensor, queries: Tensor) -> None:
    if values.device != queries.device:
        raise ValueError(f"{name} lies on {values.device}, queries on {queries.device}; move it there first")


if __name__ == "__main__":
    from specdec_kernels.cache_benchmark import main

    main("tree_attention")
