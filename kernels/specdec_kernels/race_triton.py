"""The one draw of a request: an exponential race over a single row, in two levels, after a decision made its plan.

A plan names the row and the weights max(scale * p - q, 0) (recover) or p (bonus). Noise is keyed per token id, so the
winner is the largest weight / E of the vocabulary, however it is cut into blocks: the lowest id on a tie.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.philox_triton import exponential_of, key_words
from specdec_kernels.row_stats_triton import (
    DRAFT_LOGITS,
    NO_DRAFT_ROWS,
    address,
    load_scores,
    shifted_exp,
    temperature_of,
)

RECOVER = tl.constexpr(0)
BONUS = tl.constexpr(1)
GREEDY = tl.constexpr(2)  # nothing to draw: the plan's token is the answer
PLAN_INTS = tl.constexpr(3)  # row within the request, mode, token (refused or greedy)
PLAN_FLOATS = tl.constexpr(5)  # scale, target m and S, draft m and S


@triton.jit
def store_plan(plan_ints_ptr, plan_floats_ptr, request, there, row, mode, token, scale, t_max, t_sum, d_max, d_sum):
    """Writes the plan of each request: what its draw needs, so that it reads no other row."""
    at = request * PLAN_INTS
    tl.store(plan_ints_ptr + at, row, mask=there)
    tl.store(plan_ints_ptr + at + 1, mode, mask=there)
    tl.store(plan_ints_ptr + at + 2, token, mask=there)
    at = request * PLAN_FLOATS
    tl.store(plan_floats_ptr + at, scale, mask=there)
    tl.store(plan_floats_ptr + at + 1, t_max, mask=there)
    tl.store(plan_floats_ptr + at + 2, t_sum, mask=there)
    tl.store(plan_floats_ptr + at + 3, d_max, mask=there)
    tl.store(plan_floats_ptr + at + 4, d_sum, mask=there)


@triton.jit
def tile_exponentials(
    keys_ptr, exponentials_ptr, request, row, is_bonus, there, vocab, GIVEN: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The noise of a tile [ROWS, BLOCK] of token ids: given, or from the keys (seed, request, length) [3, requests]."""
    if GIVEN:
        tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        offsets = address(request, vocab)[:, None] + tokens[None, :]
        noise = tl.load(exponentials_ptr + offsets, mask=there[:, None] & (tokens < vocab)[None, :], other=1.0)
    else:
        at = keys_ptr + request * 3
        seed = tl.load(at, mask=there, other=0)[:, None]
        sample = tl.load(at + 1, mask=there, other=0)[:, None]
        length = tl.load(at + 2, mask=there, other=0)[:, None]
        # purpose codes of specdec_core.coins.noise: recover 2, bonus 3
        slot = (row * 8 + tl.where(is_bonus, 3, 2))[:, None]
        block = tl.program_id(1) * (BLOCK // 4) + tl.arange(0, BLOCK // 4)[None, :]
        zero = tl.zeros((ROWS, BLOCK // 4), dtype=tl.int64)
        w0, w1, w2, w3 = key_words(
            seed + zero, (length + zero), (sample + zero), (slot + zero), (block + zero).to(tl.uint32)
        )
        noise = exponential_of(tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3)))
    return noise


@triton.jit
def store_winner(score_ptr, token_ptr, at, weights, noise, tokens, there):
    """The block's best (weight / E, token); -1 where no weight is positive, so that such a block never wins."""
    score = tl.where(weights > 0, weights / noise, -1.0)
    best = tl.max(score, axis=1)
    token = tl.min(tl.where(score == best[:, None], tokens[None, :], 2147483647), axis=1)
    tl.store(score_ptr + at, best, mask=there)
    tl.store(token_ptr + at, token, mask=there)


@triton.jit
def race_kernel(
    target_ptr,  # as in local_stats_kernel, likewise the next six
    draft_ptr,
    cu_num_draft_ptr,
    temperature_ptr,
    target_reads_ptr,
    draft_reads_ptr,
    keys_ptr,  # [requests, 3] int64: seed, request, length; not read when GIVEN
    exponentials_ptr,  # [requests, vocab] float32; read only when GIVEN
    plan_ints_ptr,  # [requests, PLAN_INTS] int32
    plan_floats_ptr,  # [requests, PLAN_FLOATS] float32
    score_ptr,  # [2, requests, blocks] float32, written: of the plan's weights, then of p alone
    token_ptr,  # [2, requests, blocks] int32, written
    target_stride,
    draft_stride,
    num_requests,
    vocab,
    num_blocks,
    DRAFT: tl.constexpr,
    GIVEN: tl.constexpr,
    COUNT_READS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Grid: (ceil(requests / ROWS), blocks). One target row a request, and one draft row after a refusal."""
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = request < num_requests
    ints = plan_ints_ptr + request * PLAN_INTS
    row, mode = tl.load(ints, mask=there, other=0), tl.load(ints + 1, mask=there, other=2)
    refused = tl.load(ints + 2, mask=there, other=0)
    live = there & (mode != GREEDY)
    floats = plan_floats_ptr + request * PLAN_FLOATS
    scale = tl.load(floats, mask=live, other=1.0)
    t_max, t_sum = tl.load(floats + 1, mask=live, other=0.0), tl.load(floats + 2, mask=live, other=1.0)
    start = tl.load(cu_num_draft_ptr + request, mask=live, other=0)
    temperature, _ = temperature_of(temperature_ptr, request, live)
    tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)

    inside = live[:, None] & (tokens < vocab)[None, :]
    offsets = address(start + request + row, target_stride)[:, None] + tokens[None, :]
    x = load_scores(target_ptr, offsets, inside, target_reads_ptr, float("-inf"), COUNT_READS)
    p = shifted_exp(x, t_max[:, None], temperature[:, None]) / t_sum[:, None]
    if DRAFT == NO_DRAFT_ROWS:
        weights = tl.where((mode == RECOVER)[:, None] & (tokens[None, :] == refused[:, None]), 0.0, p)
    else:
        inside = inside & (mode == RECOVER)[:, None]
        offsets = address(start + row, draft_stride)[:, None] + tokens[None, :]
        if DRAFT == DRAFT_LOGITS:
            d_max = tl.load(floats + 3, mask=live, other=0.0)
            d_sum = tl.load(floats + 4, mask=live, other=1.0)
            y = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, float("-inf"), COUNT_READS)
            q = shifted_exp(y, d_max[:, None], temperature[:, None]) / d_sum[:, None]
        else:
            q = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, 0.0, COUNT_READS)
        weights = tl.where((mode == RECOVER)[:, None], scale[:, None] * p - q, p)
    noise = tile_exponentials(keys_ptr, exponentials_ptr, request, row, mode == BONUS, live, vocab, GIVEN, ROWS, BLOCK)
    at = address(request, num_blocks) + tl.program_id(1)
    store_winner(score_ptr, token_ptr, at, weights, noise, tokens, there)
    second = address(request + num_requests, num_blocks) + tl.program_id(1)
    store_winner(score_ptr, token_ptr, second, p, noise, tokens, there)


@triton.jit
def best_block(score_ptr, token_ptr, at, inside):
    """(best score, its token) over the blocks at `at` [ROWS, BLOCKS]; ids grow with the block, so ties stay lowest."""
    score = tl.load(score_ptr + at, mask=inside, other=-2.0)
    token = tl.load(token_ptr + at, mask=inside, other=2147483647)
    best = tl.max(score, axis=1)
    return best, tl.min(tl.where(score == best[:, None], token, 2147483647), axis=1)


@triton.jit
def finish_kernel(
    plan_ints_ptr,
    score_ptr,
    token_ptr,
    next_token_ptr,  # [requests] int64, written
    emitted_ptr,  # [requests, slots] int64, written at the place behind the accepted drafts
    num_requests,
    slots,
    num_blocks,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,  # num_blocks, rounded up to a power of two
):
    """Grid: (ceil(requests / ROWS),). The winner over the blocks; with no weight left, the winner of p alone."""
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = request < num_requests
    row = tl.load(plan_ints_ptr + request * PLAN_INTS, mask=there, other=0)
    mode = tl.load(plan_ints_ptr + request * PLAN_INTS + 1, mask=there, other=2)
    block = tl.arange(0, BLOCKS)
    inside = (there & (mode != GREEDY))[:, None] & (block < num_blocks)[None, :]
    at = address(request, num_blocks)[:, None] + block[None, :]
    best, token = best_block(score_ptr, token_ptr, at, inside)
    second = address(request + num_requests, num_blocks)[:, None] + block[None, :]
    _, fallback = best_block(score_ptr, token_ptr, second, inside)
    greedy = tl.load(plan_ints_ptr + request * PLAN_INTS + 2, mask=there, other=0)
    answer = tl.where(mode == GREEDY, greedy, tl.where(best >= 0, token, fallback)).to(tl.int64)
    tl.store(next_token_ptr + request, answer, mask=there)
    tl.store(emitted_ptr + request * slots + row, answer, mask=there)
