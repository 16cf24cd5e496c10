"""Target-only verification of trees: one draw from the target at each node of the walk, and the child that has it.

A level is one race over the walked row of each request, in blocks, and one small step; no other row is read. A block
keeps its own largest logit beside its winner, so that the race needs no normaliser.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.philox_triton import exponential_of, key_words
from specdec_kernels.race_triton import GREEDY, store_winner
from specdec_kernels.row_stats_triton import address, load_scores, shifted_exp, temperature_of
from specdec_kernels.tree_laws_triton import DONE, ITERATING, NONE, STATE_INTS, load_tree, next_child


@triton.jit
def level_race_kernel(
    target_ptr,
    cu_num_draft_ptr,
    temperature_ptr,
    keys_ptr,
    ints_ptr,
    max_ptr,  # [requests, blocks] float32, written: this block's largest logit
    score_ptr,  # [requests, blocks] float32, written: its best exp((x - max) / T) / E
    token_ptr,  # [requests, blocks] int32, written
    target_reads_ptr,
    target_stride,
    num_requests,
    vocab,
    num_blocks,
    FIRST: tl.constexpr,
    COUNT_READS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Grid: (ceil(requests / ROWS), blocks). A greedy row takes E = 1 everywhere: the race is its argmax."""
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = request < num_requests
    ints = ints_ptr + request * STATE_INTS
    if FIRST:
        live, row, depth = there, request * 0, request * 0
    else:
        live = there & (tl.load(ints, mask=there, other=2) == ITERATING)
        row, depth = tl.load(ints + 1, mask=live, other=0), tl.load(ints + 3, mask=live, other=0)
    if tl.max(live.to(tl.int32), axis=0) > 0:
        start = tl.load(cu_num_draft_ptr + request, mask=live, other=0)
        temperature, is_greedy = temperature_of(temperature_ptr, request, live)
        tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = live[:, None] & (tokens < vocab)[None, :]
        offsets = address(start + request + row, target_stride)[:, None] + tokens[None, :]
        x = load_scores(target_ptr, offsets, inside, target_reads_ptr, float("-inf"), COUNT_READS)
        largest = tl.max(x, axis=1)
        at = keys_ptr + request * 3
        seed, sample = tl.load(at, mask=live, other=0), tl.load(at + 1, mask=live, other=0)
        # `sample` is keyed by the position in the text alone; its purpose code is 4, its node 0
        position = tl.load(at + 2, mask=live, other=0) + depth
        zero = tl.zeros((ROWS, BLOCK // 4), dtype=tl.int64)
        block = tl.program_id(1) * (BLOCK // 4) + tl.arange(0, BLOCK // 4)[None, :] + zero
        w0, w1, w2, w3 = key_words(
            seed[:, None] + zero, position[:, None] + zero, sample[:, None] + zero, zero + 4, block.to(tl.uint32)
        )
        noise = exponential_of(tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3)))
        noise = tl.where(is_greedy[:, None], 1.0, noise)
        weights = shifted_exp(x, largest[:, None], temperature[:, None])
        # of a greedy row only the largest logit may win, not one that rounds to the same exponential
        weights = tl.where(is_greedy[:, None] & (x < largest[:, None]), 0.0, weights)
        place = address(request, num_blocks) + tl.program_id(1)
        tl.store(max_ptr + place, largest, mask=live)
        store_winner(score_ptr, token_ptr, place, weights, noise, tokens, live)


@triton.jit(do_not_specialize=["levels_left"])
def level_step_kernel(
    draft_tokens_ptr,
    parents_ptr,
    cu_num_draft_ptr,
    temperature_ptr,
    ints_ptr,
    max_ptr,
    score_ptr,
    token_ptr,
    num_requests,
    slots,
    vocab,
    num_blocks,
    levels_left,
    FIRST: tl.constexpr,
    ROWS: tl.constexpr,
    NODES: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Grid: (ceil(requests / ROWS),). Enters the first child that has the drawn token; without one the walk is over.

    With no level left, children are not looked at: what was drawn is the token after the path, as at a leaf.
    """
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = request < num_requests
    ints = ints_ptr + request * STATE_INTS
    if FIRST:
        live, row, depth = there, request * 0, request * 0
    else:
        live = there & (tl.load(ints, mask=there, other=2) == ITERATING)
        row, depth = tl.load(ints + 1, mask=live, other=0), tl.load(ints + 3, mask=live, other=0)
    _, nodes, parents, node = load_tree(
        draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, request, there, slots, vocab, NODES
    )
    temperature, is_greedy = temperature_of(temperature_ptr, request, there)
    block = tl.arange(0, BLOCKS)[None, :]
    at = address(request, num_blocks)[:, None] + block
    inside = live[:, None] & (block < num_blocks)
    block_max = tl.load(max_ptr + at, mask=inside, other=float("-inf"))
    largest = tl.max(block_max, axis=1)
    scale = shifted_exp(block_max, largest[:, None], temperature[:, None])
    scale = tl.where(is_greedy[:, None] & (block_max < largest[:, None]), 0.0, scale)
    score = tl.load(score_ptr + at, mask=inside, other=-1.0)
    # a block without any weight has score -1, and the factor of an empty one is 0: neither may win by that
    score = tl.where((score > 0) & (scale > 0), score * scale, -1.0)
    best = tl.max(score, axis=1)
    token = tl.load(token_ptr + at, mask=inside, other=NONE)
    drawn = tl.min(tl.where(score == best[:, None], token, NONE), axis=1)
    is_match = (parents == (row - 1)[:, None]) & (nodes == drawn[:, None])
    child = tl.where(levels_left > 0, tl.min(tl.where(is_match, node, NONE), axis=1), NONE)
    enters = live & (child != NONE)
    row, depth = tl.where(enters, child + 1, row), depth + enters.to(tl.int32)
    tl.store(ints, tl.where(enters, ITERATING, DONE), mask=live)
    tl.store(ints + 1, row, mask=live)
    tl.store(ints + 3, depth, mask=live)
    tl.store(ints + 4, tl.where(levels_left > 0, next_child(parents, node, row, row * 0 - 1), NONE), mask=live)
    # the token is settled: for what follows that is as good as greedy
    tl.store(ints + 5, request * 0 + GREEDY, mask=live)
    tl.store(ints + 6, drawn, mask=live)
