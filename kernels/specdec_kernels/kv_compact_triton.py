"""Moving the accepted path's KV rows to the front of the drafted ones, in Triton. See `kv_compact`."""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.row_stats_triton import address


@triton.jit
def slot_of(position, table_ptr, request, table_stride, live, PAGE: tl.constexpr):
    """Row of the pool that holds a request's position, through its block table."""
    block = tl.load(table_ptr + address(request, table_stride) + position // PAGE, mask=live, other=0)
    return block.to(tl.int64) * PAGE + position % PAGE


@triton.jit
def kv_compact_v1_kernel(
    pool_ptr,  # [layers, slots, width]: keys and values of a position side by side, read and written
    table_ptr,  # [requests, blocks] int32
    starts_ptr,  # [requests] int64: position of node 0
    path_ptr,  # [requests, depth] int64: accepted nodes, increasing, then -1
    layer_stride,
    table_stride,
    depth,
    width,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """v1. Grid: (requests, layers). One program moves a whole request, row after row, in the order of the path.

    Node path[i] >= i, so a row is read before anything is written to it. Reads and writes each moved row once, but one
    row waits for the other.
    """
    request, layer = tl.program_id(0), tl.program_id(1)
    start = tl.load(starts_ptr + request)
    lanes = tl.arange(0, BLOCK)
    for place in range(depth):
        node = tl.load(path_ptr + request * depth + place)
        moves = node > place
        source = slot_of(start + tl.where(moves, node, 0), table_ptr, request, table_stride, moves, PAGE)
        target = slot_of(start + place, table_ptr, request, table_stride, moves, PAGE)
        base = address(layer, layer_stride)
        for first in range(0, width, BLOCK):
            inside = moves & (first + lanes < width)
            row = tl.load(pool_ptr + base + source * width + first + lanes, mask=inside)
            tl.store(pool_ptr + base + target * width + first + lanes, row, mask=inside)


@triton.jit
def kv_compact_v2_kernel(
    pool_ptr,
    table_ptr,
    starts_ptr,
    path_ptr,
    layer_stride,
    table_stride,
    depth,
    width,
    PAGE: tl.constexpr,
    DEPTH: tl.constexpr,  # depth, rounded up to a power of two
    BLOCK: tl.constexpr,
):
    """v2. Grid: (requests, layers, ceil(width / BLOCK)). A program owns BLOCK columns of all rows of a request.

    It holds every row that moves before it writes one, and no other program touches these columns, so overlaps are
    safe. Reads and writes each moved row once: 2 * width elements; rows that stay are not touched.
    """
    request, layer = tl.program_id(0), tl.program_id(1)
    place = tl.arange(0, DEPTH)
    columns = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(starts_ptr + request)
    node = tl.load(path_ptr + request * depth + place, mask=place < depth, other=-1)
    moves = node > place
    source = slot_of(start + tl.where(moves, node, 0), table_ptr, request, table_stride, moves, PAGE)
    target = slot_of(start + place, table_ptr, request, table_stride, moves, PAGE)
    inside = moves[:, None] & (columns < width)[None, :]
    base = pool_ptr + address(layer, layer_stride)
    rows = tl.load(base + (source * width)[:, None] + columns[None, :], mask=inside)
    # every lane has read before any writes
    tl.debug_barrier()
    tl.store(base + (target * width)[:, None] + columns[None, :], rows, mask=inside)
