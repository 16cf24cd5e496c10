"""Kernels with a mistake in what they redraw from: a residual that is stale, or not scaled.

Each is the real function but for one line (a test compares them). Imported only where Triton is installed, and run by
its interpreter: a compiled kernel would not notice that a helper was exchanged.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false, reportArgumentType=false
import triton
import triton.language as tl

from specdec_kernels.race_triton import (
    BONUS,
    GREEDY,
    PLAN_FLOATS,
    PLAN_INTS,
    RECOVER,
    store_winner,
    tile_exponentials,
)
from specdec_kernels.row_stats_triton import (
    DRAFT_LOGITS,
    NO_DRAFT_ROWS,
    address,
    load_scores,
    shifted_exp,
    temperature_of,
)
from specdec_kernels.tree_walk_triton import LEAST_MASS


@triton.jit
def race_kernel(
    target_ptr,
    draft_ptr,
    cu_num_draft_ptr,
    temperature_ptr,
    target_reads_ptr,
    draft_reads_ptr,
    keys_ptr,
    exponentials_ptr,
    plan_ints_ptr,
    plan_floats_ptr,
    score_ptr,
    token_ptr,
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
    """The residual takes q from the draft row before the refused one."""
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
        offsets = address(start + tl.maximum(row - 1, 0), draft_stride)[:, None] + tokens[None, :]
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
def store_plan(plan_ints_ptr, plan_floats_ptr, request, there, row, mode, token, scale, t_max, t_sum, d_max, d_sum):
    """The residual of a kept prefix is max(p - q, 0), as in chain verification, not max(w p - q, 0)."""
    at = request * PLAN_INTS
    tl.store(plan_ints_ptr + at, row, mask=there)
    tl.store(plan_ints_ptr + at + 1, mode, mask=there)
    tl.store(plan_ints_ptr + at + 2, token, mask=there)
    at = request * PLAN_FLOATS
    tl.store(plan_floats_ptr + at, scale * 0.0 + 1.0, mask=there)
    tl.store(plan_floats_ptr + at + 1, t_max, mask=there)
    tl.store(plan_floats_ptr + at + 2, t_sum, mask=there)
    tl.store(plan_floats_ptr + at + 3, d_max, mask=there)
    tl.store(plan_floats_ptr + at + 4, d_sum, mask=there)


@triton.jit
def after_refusal(
    current, total, rest, p, again, left_behind, refuse, is_last, DRAFT: tl.constexpr
):  # fmt: skip
    """The law of the draw is the one before the last refusal: lambda grows only where a further sibling waits."""
    waits = refuse & (is_last == 0)
    if DRAFT == NO_DRAFT_ROWS:
        # the race knows what to do when nothing is left
        smaller = total - tl.where(again, 0.0, p)
        total = tl.where(refuse & (smaller > LEAST_MASS), smaller, total)
        mark, waits = current, waits & (refuse == 0)
    else:
        step = current + total / rest
        mark = tl.where(again, left_behind, step)
        current = tl.where(waits, step, current)
    return current, total, mark, waits
