"""Block verification in two levels: weights, masses, decision. Imported only where Triton is installed.

v1  (`verify_block_early_triton`) one program a request, which scans the vocabulary for every prefix in turn.
v2  `local_stats_kernel`; `block_weights_kernel` takes the weights w_i of all prefixes and settles whoever keeps every
    draft; `block_mass_kernel` sums max(w_i p - q, 0) for the others, all rows and blocks in parallel (a deterministic
    draft needs no sum: it is w_i (1 - p(x))); `decide_block_kernel` takes the longest prefix that passes; the draw is
    that of chain verification, with p scaled by the prefix's weight.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.decision_triton import pick, slot_masses, store_prefix
from specdec_kernels.race_triton import BONUS, GREEDY, PLAN_INTS, RECOVER, store_plan
from specdec_kernels.row_stats_triton import (
    DRAFT_LOGITS,
    NO_DRAFT_ROWS,
    address,
    load_scores,
    shifted_exp,
    temperature_of,
)

ENTRY_FLOATS = tl.constexpr(7)  # of a (request, slot): weight before it, target m and S, draft m and S, u, p


@triton.jit
def prefix_weights(p, q, slot, SLOTS: tl.constexpr):
    """w of the prefix before each slot: w_0 = 1, w_{i+1} = min(1, w_i p_i / q_i)."""
    weight = tl.sum(p * 0.0, axis=1) + 1.0
    weights = p * 0.0 + 1.0
    for i in range(SLOTS):
        here = slot[None, :] == i
        weights = tl.where(here, weight[:, None], weights)
        mass, other = weight * pick(p, here), pick(q, here)
        # 1 on the left keeps the division defined where it is not used
        ratio = mass / tl.where(mass < other, other, 1.0)
        weight = tl.where(mass >= other, tl.where(mass > 0, 1.0, 0.0), ratio)
    return weights


@triton.jit
def block_weights_kernel(
    draft_ptr, draft_tokens_ptr, cu_num_draft_ptr, temperature_ptr, target_max_ptr, target_sum_ptr, target_arg_ptr,
    draft_max_ptr, draft_sum_ptr, target_at_token_ptr, draft_at_token_ptr, draft_reads_ptr, keys_ptr, uniforms_ptr,
    plan_ints_ptr, plan_floats_ptr, num_accepted_ptr, is_bonus_ptr, emitted_ptr, entries_ptr, draft_stride,
    num_requests, slots, vocab, num_blocks, DRAFT: tl.constexpr, GIVEN: tl.constexpr, COUNT_READS: tl.constexpr,
    ROWS: tl.constexpr, SLOTS: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Grid: (ceil(requests / ROWS),). Greedy requests, and those that keep every draft, are done after it.

    Arguments as in decide_chain_kernel. For everybody else the plan says RECOVER, with the number of drafts as row, and
    `entries` [requests * slots, ENTRY_FLOATS] has what is needed to decide.
    """
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    slot = tl.arange(0, SLOTS)
    there = request < num_requests
    token, valid, is_greedy, argmax, p, q, u, t_max, t_sum, d_max, d_sum = slot_masses(
        draft_ptr, draft_tokens_ptr, cu_num_draft_ptr, temperature_ptr, target_max_ptr, target_sum_ptr,
        target_arg_ptr, draft_max_ptr, draft_sum_ptr, target_at_token_ptr, draft_at_token_ptr, draft_reads_ptr,
        keys_ptr, uniforms_ptr, draft_stride, num_requests, slots, vocab, num_blocks, request, slot, DRAFT, GIVEN,
        COUNT_READS, ROWS, SLOTS, BLOCKS,
    )  # fmt: skip
    weights = prefix_weights(tl.where(valid, p, 0.0), tl.where(valid, q, 1.0), slot, SLOTS)
    drafted = tl.min(tl.where(valid, SLOTS, slot[None, :]), axis=1)
    at_end, last = slot[None, :] == drafted[:, None], slot[None, :] == drafted[:, None] - 1
    keeps_all = (drafted == 0) | (pick(u, last) < pick(weights, at_end))
    # greedy requests keep the drafts before the first that is not the argmax
    greedy_kept = tl.min(tl.where(valid & (token == argmax), SLOTS, slot[None, :]), axis=1)
    kept = tl.where(is_greedy, greedy_kept, drafted)
    here = slot[None, :] == kept[:, None]
    mode = tl.where(is_greedy, GREEDY, tl.where(keeps_all, BONUS, RECOVER))
    store_prefix(
        emitted_ptr, num_accepted_ptr, is_bonus_ptr, request, there, slot, slots, kept, kept == drafted, token
    )  # fmt: skip
    store_plan(
        plan_ints_ptr, plan_floats_ptr, request, there, kept, mode, pick(argmax, here), 1.0, pick(t_max, here),
        pick(t_sum, here), pick(d_max, here), pick(d_sum, here),
    )  # fmt: skip
    at = ((request * slots)[:, None] + slot[None, :]) * ENTRY_FLOATS
    inside = there[:, None] & (slot[None, :] < slots)
    tl.store(entries_ptr + at, weights, mask=inside)
    tl.store(entries_ptr + at + 1, t_max, mask=inside)
    tl.store(entries_ptr + at + 2, t_sum, mask=inside)
    tl.store(entries_ptr + at + 3, d_max, mask=inside)
    tl.store(entries_ptr + at + 4, d_sum, mask=inside)
    tl.store(entries_ptr + at + 5, u, mask=inside)
    tl.store(entries_ptr + at + 6, p, mask=inside)


@triton.jit
def block_mass_kernel(
    target_ptr,  # arguments as in race_kernel
    draft_ptr,
    cu_num_draft_ptr,
    temperature_ptr,
    target_reads_ptr,
    draft_reads_ptr,
    plan_ints_ptr,
    entries_ptr,
    mass_ptr,  # [requests * slots, blocks] float32, written: this block's part of the excess
    target_stride,
    draft_stride,
    num_requests,
    slots,
    vocab,
    num_blocks,
    DRAFT: tl.constexpr,
    COUNT_READS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Grid: (ceil(requests * slots / ROWS), blocks). Reads both rows of each draft of the undecided requests."""
    entry = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    request, slot = entry // slots, entry % slots
    there = request < num_requests
    drafted = tl.load(plan_ints_ptr + request * PLAN_INTS, mask=there, other=0)
    mode = tl.load(plan_ints_ptr + request * PLAN_INTS + 1, mask=there, other=2)
    live = there & (mode == RECOVER) & (slot < drafted)
    start = tl.load(cu_num_draft_ptr + request, mask=live, other=0)
    temperature, _ = temperature_of(temperature_ptr, request, live)
    weight = tl.load(entries_ptr + entry * ENTRY_FLOATS, mask=live, other=0.0)
    t_max = tl.load(entries_ptr + entry * ENTRY_FLOATS + 1, mask=live, other=0.0)
    t_sum = tl.load(entries_ptr + entry * ENTRY_FLOATS + 2, mask=live, other=1.0)
    tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = live[:, None] & (tokens < vocab)[None, :]
    offsets = address(start + request + slot, target_stride)[:, None] + tokens[None, :]
    x = load_scores(target_ptr, offsets, inside, target_reads_ptr, float("-inf"), COUNT_READS)
    p = shifted_exp(x, t_max[:, None], temperature[:, None]) / t_sum[:, None]
    offsets = address(start + slot, draft_stride)[:, None] + tokens[None, :]
    if DRAFT == DRAFT_LOGITS:
        d_max = tl.load(entries_ptr + entry * ENTRY_FLOATS + 3, mask=live, other=0.0)
        d_sum = tl.load(entries_ptr + entry * ENTRY_FLOATS + 4, mask=live, other=1.0)
        y = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, float("-inf"), COUNT_READS)
        q = shifted_exp(y, d_max[:, None], temperature[:, None]) / d_sum[:, None]
    else:
        q = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, 0.0, COUNT_READS)
    excess = tl.sum(tl.maximum(weight[:, None] * p - q, 0.0), axis=1)
    tl.store(mass_ptr + address(entry, num_blocks) + tl.program_id(1), excess, mask=live)


@triton.jit
def decide_block_kernel(
    draft_tokens_ptr,
    cu_num_draft_ptr,
    plan_ints_ptr,  # read, and rewritten for race_kernel
    plan_floats_ptr,
    num_accepted_ptr,
    is_bonus_ptr,
    emitted_ptr,
    entries_ptr,
    mass_ptr,
    num_requests,
    slots,
    num_blocks,
    DRAFT: tl.constexpr,
    ROWS: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Grid: (ceil(requests / ROWS),). The longest prefix with u (Z + 1 - w) < Z, or the empty one."""
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    slot = tl.arange(0, SLOTS)
    block = tl.arange(0, BLOCKS)
    there = request < num_requests
    drafted = tl.load(plan_ints_ptr + request * PLAN_INTS, mask=there, other=0)
    mode = tl.load(plan_ints_ptr + request * PLAN_INTS + 1, mask=there, other=2)
    open_ = there & (mode == RECOVER)
    inside = open_[:, None] & (slot[None, :] < drafted[:, None])
    entry = (request * slots)[:, None] + slot[None, :]
    floats = entries_ptr + entry * ENTRY_FLOATS
    weights = tl.load(floats, mask=inside, other=1.0)
    if DRAFT == NO_DRAFT_ROWS:
        total = weights * (1.0 - tl.load(floats + 6, mask=inside, other=1.0))
    else:
        at = address(entry, num_blocks)[:, :, None] + block[None, None, :]
        parts = tl.load(mass_ptr + at, mask=inside[:, :, None] & (block < num_blocks)[None, None, :], other=0.0)
        total = tl.sum(parts, axis=2)
    # the coin of a prefix is that of its last draft
    u = tl.load(floats - ENTRY_FLOATS + 5, mask=inside & (slot[None, :] > 0), other=0.0)
    passes = inside & (slot[None, :] > 0) & (u * (total + (1.0 - weights)) < total)
    kept = tl.max(tl.where(passes, slot[None, :], 0), axis=1)
    here = (slot[None, :] == kept[:, None]) & inside
    start = tl.load(cu_num_draft_ptr + request, mask=there, other=0)
    token = tl.load(draft_tokens_ptr + start[:, None] + slot[None, :], mask=inside, other=-1)
    store_prefix(
        emitted_ptr, num_accepted_ptr, is_bonus_ptr, request, open_, slot, slots, kept, kept > drafted, token
    )  # fmt: skip
    store_plan(
        plan_ints_ptr, plan_floats_ptr, request, open_, kept, RECOVER, pick(token, here), pick(weights, here),
        pick(tl.load(floats + 1, mask=here, other=0.0), here), pick(tl.load(floats + 2, mask=here, other=0.0), here),
        pick(tl.load(floats + 3, mask=here, other=0.0), here), pick(tl.load(floats + 4, mask=here, other=0.0), here),
    )  # fmt: skip
