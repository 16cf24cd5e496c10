"""Attention of a draft tree's rows over a long prefix and over their ancestors, in Triton. See `tree_attention`.

A lane is a row of the tree under one of the query heads that share a key head; a tile is up to 64 lanes.

v1  one program a (request, key head, tile) goes through all columns: at batch 1 most of the GPU is idle. Reads keys and
    values once a tile (the tiles of a head run side by side and meet in the L2 cache), queries once; writes the output.
v2  the columns are cut into splits, each a program of its own; `combine_kernel` adds up what they found
    (flash-decoding). In addition writes and reads again head_dim + 2 float32 numbers a split and lane, so splits are
    no smaller than it takes to fill the GPU (`split_columns`).
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.row_stats_triton import address


@triton.jit
def positions_to_slots(position, table_ptr, request, table_stride, live, PAGE: tl.constexpr):
    """Where each position of a request lies: through its block table, or (PAGE 0) in a stretch of its own."""
    if PAGE == 0:
        slot = address(request, table_stride) + position
    else:
        block = tl.load(table_ptr + address(request, table_stride) + position // PAGE, mask=live, other=0)
        slot = block.to(tl.int64) * PAGE + position % PAGE
    return slot


@triton.jit
def sees_itself(mask_ptr, request, row, live, rows, words):
    """Whether each lane's row is one of the tree; padding rows see nothing, not even the prefix."""
    word = tl.load(mask_ptr + (request * rows + row) * words + row // 32, mask=live, other=0)
    return live & ((word >> (row % 32)) & 1 == 1)


@triton.jit
def ancestors(mask_ptr, request, row, is_row, node, there, rows, words):
    """Whether each row [M] looks at each row of the tree [N]."""
    at = ((request * rows + row) * words)[:, None] + (node // 32)[None, :]
    word = tl.load(mask_ptr + at, mask=is_row[:, None] & there[None, :], other=0)
    return (word >> (node % 32)[None, :]) & 1 == 1


@triton.jit
def load_queries(q_ptr, request, head, lane, rows, heads, group, HEAD_DIM: tl.constexpr, DIM: tl.constexpr):
    """A tile [M, DIM] of queries; lane m is row m // group, query head `head * group` + m % group."""
    row, dims = lane // group, tl.arange(0, DIM)
    live = row < rows
    at = ((request * rows + row).to(tl.int64) * heads + head * group + lane % group) * HEAD_DIM
    inside = live[:, None] & (dims < HEAD_DIM)[None, :]
    return tl.load(q_ptr + at[:, None] + dims[None, :], mask=inside, other=0.0), row, live, at


@triton.jit
def attend_columns(
    q, row, is_row, largest, total, values, k_ptr, v_ptr, table_ptr, mask_ptr, request, head, first, last, prefix, rows,
    words, kv_stride, head_stride, table_stride, scale, IN_TREE: tl.constexpr, PAGE: tl.constexpr,
    HEAD_DIM: tl.constexpr, DIM: tl.constexpr, WIDE: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """The running (largest score, sum, weighted values) after the columns first .. last - 1, all of one part."""
    dims = tl.arange(0, DIM)
    for begin in range(first, last, N):
        column = begin + tl.arange(0, N)
        there = column < last
        slot = positions_to_slots(column, table_ptr, request, table_stride, there, PAGE)
        at = slot * kv_stride + address(head, head_stride)
        inside = there[:, None] & (dims < HEAD_DIM)[None, :]
        k = tl.load(k_ptr + at[:, None] + dims[None, :], mask=inside, other=0.0)
        if WIDE:
            k = k.to(tl.float32)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        sees = is_row[:, None] & there[None, :]
        if IN_TREE:
            sees = sees & ancestors(mask_ptr, request, row, is_row, column - prefix, there, rows, words)
        score = tl.where(sees, score, float("-inf"))
        new = tl.maximum(largest, tl.max(score, axis=1))
        # a row that has seen nothing yet keeps -inf; 0 instead of it leaves its exponentials at 0
        safe = tl.where(new == float("-inf"), 0.0, new)
        weights = tl.exp(score - safe[:, None])
        shrink = tl.exp(largest - safe)
        v = tl.load(v_ptr + at[:, None] + dims[None, :], mask=inside, other=0.0)
        if WIDE:
            v = v.to(tl.float32)
        total = total * shrink + tl.sum(weights, axis=1)
        values = tl.dot(weights.to(v.dtype), v, values * shrink[:, None], input_precision="ieee")
        largest = new
    return largest, total, values


@triton.jit
def attend(
    q, row, live, k_ptr, v_ptr, table_ptr, mask_ptr, request, head, first, last, prefix, rows, words, kv_stride,
    head_stride, table_stride, scale, PAGE: tl.constexpr, HEAD_DIM: tl.constexpr, DIM: tl.constexpr,
    WIDE: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """(largest score, sum of exponentials, weighted values) of the columns first .. last - 1, in float32.

    Only the columns of the tree read the mask.
    """
    if WIDE:
        q = q.to(tl.float32)
    largest, total = tl.full((M,), float("-inf"), tl.float32), tl.zeros((M,), tl.float32)
    values = tl.zeros((M, DIM), tl.float32)
    is_row = sees_itself(mask_ptr, request, row, live, rows, words)
    largest, total, values = attend_columns(
        q, row, is_row, largest, total, values, k_ptr, v_ptr, table_ptr, mask_ptr, request, head, first,
        tl.minimum(last, prefix), prefix, rows, words, kv_stride, head_stride, table_stride, scale, False, PAGE,
        HEAD_DIM, DIM, WIDE, N,
    )  # fmt: skip
    return attend_columns(
        q, row, is_row, largest, total, values, k_ptr, v_ptr, table_ptr, mask_ptr, request, head,
        tl.maximum(first, prefix), last, prefix, rows, words, kv_stride, head_stride, table_stride, scale, True, PAGE,
        HEAD_DIM, DIM, WIDE, N,
    )  # fmt: skip


@triton.jit
def tree_attention_v1_kernel(
    q_ptr,  # [requests, rows, heads, HEAD_DIM]
    k_ptr,  # [slots, kv_heads, HEAD_DIM], the last stride 1; position prefix + j of a request holds its row j
    v_ptr,
    table_ptr,  # [requests, blocks] int32; not read when PAGE is 0
    prefix_ptr,  # [requests] int32: columns that every row sees
    mask_ptr,  # [requests, rows, words] int32: bit j % 32 of word j // 32 says whether a row sees row j
    out_ptr,  # [requests, rows, heads, HEAD_DIM], written
    rows,
    words,
    heads,
    kv_heads,
    kv_stride,
    head_stride,
    table_stride,
    scale,
    PAGE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM: tl.constexpr,
    WIDE: tl.constexpr,  # multiply in float32: the interpreter cannot multiply bfloat16
    M: tl.constexpr,
    N: tl.constexpr,
):
    """v1. Grid: (requests, kv_heads, ceil(rows * heads / kv_heads / M))."""
    request, head, lane = tl.program_id(0), tl.program_id(1), tl.program_id(2) * M + tl.arange(0, M)
    prefix = tl.load(prefix_ptr + request)
    q, row, live, at = load_queries(q_ptr, request, head, lane, rows, heads, heads // kv_heads, HEAD_DIM, DIM)
    _, total, values = attend(
        q, row, live, k_ptr, v_ptr, table_ptr, mask_ptr, request, head, 0, prefix + rows, prefix, rows, words,
        kv_stride, head_stride, table_stride, scale, PAGE, HEAD_DIM, DIM, WIDE, M, N,
    )  # fmt: skip
    dims = tl.arange(0, DIM)
    answer = values / tl.where(total > 0, total, 1.0)[:, None]
    inside = live[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(out_ptr + at[:, None] + dims[None, :], answer.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def tree_attention_split_kernel(
    q_ptr,  # as in v1
    k_ptr,
    v_ptr,
    table_ptr,
    prefix_ptr,
    mask_ptr,
    max_ptr,  # [requests * kv_heads, splits, lanes] float32, written: largest score, -inf where nothing is seen
    sum_ptr,  # likewise: sum of exponentials
    values_ptr,  # [requests * kv_heads, splits, lanes, DIM] float32, written
    rows,
    words,
    heads,
    kv_heads,
    kv_stride,
    head_stride,
    table_stride,
    scale,
    splits,
    lanes,  # rows * heads / kv_heads, rounded up to M
    COLUMNS: tl.constexpr,  # columns a split owns
    PAGE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM: tl.constexpr,
    WIDE: tl.constexpr,  # multiply in float32: the interpreter cannot multiply bfloat16
    M: tl.constexpr,
    N: tl.constexpr,
):
    """v2. Grid: (requests * kv_heads, lanes / M, splits). A split behind the last column leaves -inf and zeros."""
    request, head = tl.program_id(0) // kv_heads, tl.program_id(0) % kv_heads
    lane, split = tl.program_id(1) * M + tl.arange(0, M), tl.program_id(2)
    prefix = tl.load(prefix_ptr + request)
    q, row, live, _ = load_queries(q_ptr, request, head, lane, rows, heads, heads // kv_heads, HEAD_DIM, DIM)
    first = split * COLUMNS
    last = tl.minimum(first + COLUMNS, prefix + rows)
    largest, total, values = attend(
        q, row, live, k_ptr, v_ptr, table_ptr, mask_ptr, request, head, first, last, prefix, rows, words, kv_stride,
        head_stride, table_stride, scale, PAGE, HEAD_DIM, DIM, WIDE, M, N,
    )  # fmt: skip
    at = address(tl.program_id(0) * splits + split, lanes) + lane
    tl.store(max_ptr + at, largest)
    tl.store(sum_ptr + at, total)
    tl.store(values_ptr + at[:, None] * DIM + tl.arange(0, DIM)[None, :], values)


@triton.jit
def combine_kernel(
    max_ptr,
    sum_ptr,
    values_ptr,
    out_ptr,
    rows,
    heads,
    kv_heads,
    splits,
    lanes,
    HEAD_DIM: tl.constexpr,
    DIM: tl.constexpr,
    M: tl.constexpr,
):
    """Grid: (requests * kv_heads, lanes / M). Adds the splits up, each scaled to the largest score of all."""
    request, head = tl.program_id(0) // kv_heads, tl.program_id(0) % kv_heads
    lane, dims, group = tl.program_id(1) * M + tl.arange(0, M), tl.arange(0, DIM), heads // kv_heads
    largest = tl.full((M,), float("-inf"), tl.float32)
    total, values = tl.zeros((M,), tl.float32), tl.zeros((M, DIM), tl.float32)
    for split in range(splits):
        at = address(tl.program_id(0) * splits + split, lanes) + lane
        here = tl.load(max_ptr + at)
        new = tl.maximum(largest, here)
        safe = tl.where(new == float("-inf"), 0.0, new)
        old_scale, scale = tl.exp(largest - safe), tl.exp(here - safe)
        total = total * old_scale + tl.load(sum_ptr + at) * scale
        part = tl.load(values_ptr + at[:, None] * DIM + dims[None, :])
        values = values * old_scale[:, None] + part * scale[:, None]
        largest = new
    row = lane // group
    at = ((request * rows + row).to(tl.int64) * heads + head * group + lane % group) * HEAD_DIM
    answer = values / tl.where(total > 0, total, 1.0)[:, None]
    inside = (row < rows)[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(out_ptr + at[:, None] + dims[None, :], answer.to(out_ptr.dtype.element_ty), mask=inside)
