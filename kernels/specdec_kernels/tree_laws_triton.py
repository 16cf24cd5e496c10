"""The law left at a node of a draft tree, in two numbers instead of a vocabulary.

Each refusal takes max(p - q, 0) and renormalises, so after any number of them the law at a node is
max(p(t) - lambda q(t), 0) / F: one lambda for the whole vocabulary and its sum F. Only tokens drawn without replacement
and refused keep the lambda of their own refusal (`frozen`), for q has lost them since; with deterministic children they
have mass 0. q without the refused tokens is q / M. So a refusal costs one pass over the row, for F and M, whichever
sibling it was, and nothing but scalars is ever stored. Derived here; the rules are those of `specdec_core.rules.tree`.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.race_triton import RECOVER, store_winner, tile_exponentials
from specdec_kernels.row_stats_triton import (
    DRAFT_LOGITS,
    NO_DRAFT_ROWS,
    address,
    load_scores,
    shifted_exp,
    store_block_stats,
    temperature_of,
)

NONE = tl.constexpr(2147483647)  # no such node
STATE_INTS = tl.constexpr(7)  # status, row, last refused child, depth, first child, mode, greedy token
STATE_FLOATS = tl.constexpr(6)  # lambda, lambda before the last refusal, F, M, target m and S
ITERATING = tl.constexpr(0)
WAITING = tl.constexpr(1)
DONE = tl.constexpr(2)
WITH_REPLACEMENT = tl.constexpr(0)
WITHOUT_REPLACEMENT = tl.constexpr(1)


@triton.jit
def load_tree(tokens_ptr, parents_ptr, cu_num_draft_ptr, request, there, slots, vocab, NODES: tl.constexpr):
    """(start, tokens, parents, node) as tiles [ROWS, NODES]; what is no node has parent -2."""
    node = tl.arange(0, NODES)[None, :]
    start = tl.load(cu_num_draft_ptr + request, mask=there, other=0)
    drafted = tl.load(cu_num_draft_ptr + request + 1, mask=there, other=0) - start
    inside = there[:, None] & (node < drafted[:, None]) & (node < slots - 1)
    tokens = tl.load(tokens_ptr + start[:, None] + node, mask=inside, other=-1)
    parents = tl.load(parents_ptr + start[:, None] + node, mask=inside, other=-2)
    # padding ends the tree
    ended = tl.cumsum(tl.where((tokens < 0) | (tokens >= vocab), 1, 0), axis=1)
    return start, tokens, tl.where(ended == 0, parents, -2).to(tl.int32), node


@triton.jit
def next_child(parents, node, row, after):
    """The first child of `row` behind node `after`, or NONE; row r is node r - 1, row 0 the pending token."""
    is_child = (parents == (row - 1)[:, None]) & (node > after[:, None])
    return tl.min(tl.where(is_child, node, NONE), axis=1)


@triton.jit
def tree_stats_kernel(
    target_ptr,  # as in local_stats_kernel; a slot is a node here
    draft_ptr,
    draft_tokens_ptr,
    parents_ptr,  # [drafts] int64, numbered within the request
    cu_num_draft_ptr,
    temperature_ptr,
    target_max_ptr,
    target_sum_ptr,
    target_arg_ptr,
    draft_max_ptr,
    draft_sum_ptr,
    target_reads_ptr,
    draft_reads_ptr,
    target_stride,
    draft_stride,
    num_requests,
    slots,
    vocab,
    num_blocks,
    DRAFT: tl.constexpr,
    COUNT_READS: tl.constexpr,
    ROWS: tl.constexpr,
    NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Grid: (ceil(requests * slots / ROWS), blocks). Reads each target row once, and one draft row a family."""
    entry = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    request, slot = entry // slots, entry % slots
    there = request < num_requests
    start, _, parents, node = load_tree(
        draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, request, there, slots, vocab, NODES
    )
    # row r exists when node r - 1 does; siblings were drawn from one law, that of the first of them
    own = tl.sum(tl.where(node == (slot - 1)[:, None], parents, 0), axis=1)
    live = there & ((slot == 0) | (own >= -1))
    temperature, is_greedy = temperature_of(temperature_ptr, request, there)
    tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = address(entry, num_blocks) + tl.program_id(1)
    inside = live[:, None] & (tokens < vocab)[None, :]
    offsets = address(start + request + slot, target_stride)[:, None] + tokens[None, :]
    x = load_scores(target_ptr, offsets, inside, target_reads_ptr, float("-inf"), COUNT_READS)
    largest = store_block_stats(target_max_ptr, target_sum_ptr, at, x, temperature, live)
    first = tl.min(tl.where(x == largest[:, None], tokens[None, :], vocab - 1), axis=1)
    tl.store(target_arg_ptr + at, first, mask=live)
    if DRAFT == DRAFT_LOGITS:
        mine = tl.sum(tl.where(node == slot[:, None], parents, 0), axis=1)
        is_node = tl.sum(tl.where((node == slot[:, None]) & (parents >= -1), 1, 0), axis=1) > 0
        live = there & is_node & (is_greedy == 0) & (next_child(parents, node, mine + 1, slot * 0 - 1) == slot)
        inside = live[:, None] & (tokens < vocab)[None, :]
        offsets = address(start + slot, draft_stride)[:, None] + tokens[None, :]
        x = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, float("-inf"), COUNT_READS)
        store_block_stats(draft_max_ptr, draft_sum_ptr, at, x, temperature, live)


@triton.jit
def node_tile(
    target_ptr, draft_ptr, target_reads_ptr, draft_reads_ptr, target_stride, draft_stride, floats, draft_floats_ptr,
    request, start, row, first, tokens, temperature, live, reads_draft, vocab, slots, DRAFT: tl.constexpr,
    COUNT_READS: tl.constexpr,
):  # fmt: skip
    """(p, q) of a tile [ROWS, BLOCK] at the state's row; q is 0 where no draft row is read."""
    t_max = tl.load(floats + 4, mask=live, other=0.0)
    t_sum = tl.load(floats + 5, mask=live, other=1.0)
    inside = live[:, None] & (tokens < vocab)[None, :]
    offsets = address(start + request + row, target_stride)[:, None] + tokens[None, :]
    x = load_scores(target_ptr, offsets, inside, target_reads_ptr, float("-inf"), COUNT_READS)
    p = shifted_exp(x, t_max[:, None], temperature[:, None]) / t_sum[:, None]
    q = p * 0.0
    if DRAFT != NO_DRAFT_ROWS:
        inside = inside & reads_draft[:, None]
        offsets = address(start + tl.where(reads_draft, first, 0), draft_stride)[:, None] + tokens[None, :]
        if DRAFT == DRAFT_LOGITS:
            d_max = tl.load(draft_floats_ptr + request * 2, mask=live & reads_draft, other=0.0)
            d_sum = tl.load(draft_floats_ptr + request * 2 + 1, mask=live & reads_draft, other=1.0)
            y = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, float("-inf"), COUNT_READS)
            q = shifted_exp(y, d_max[:, None], temperature[:, None]) / d_sum[:, None]
        else:
            q = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, 0.0, COUNT_READS)
    return p, q


@triton.jit
def left_law(
    p, q, current, row, upto, nodes, parents, node, frozen, tokens, DRAFT: tl.constexpr, REPLACE: tl.constexpr
):  # fmt: skip
    """(max(p - lambda q, 0), q without the refused) of a tile, over the children of `row` refused up to node `upto`."""
    factor = p * 0.0 + current[:, None]
    if (DRAFT == NO_DRAFT_ROWS) | (REPLACE == WITHOUT_REPLACEMENT):
        child = next_child(parents, node, row, row * 0 - 1)
        while tl.min(tl.where(child <= upto, 0, 1), axis=0) == 0:
            here = node == child[:, None]
            token = tl.sum(tl.where(here, nodes, 0), axis=1)
            kept = tl.sum(tl.where(here, frozen, 0.0), axis=1)
            is_refused = (child <= upto) & (kept >= 0)
            hit = is_refused[:, None] & (tokens[None, :] == token[:, None])
            if DRAFT == NO_DRAFT_ROWS:
                p = tl.where(hit, 0.0, p)
            else:
                factor = tl.where(hit, kept[:, None], factor)
                # the lambda is settled, so q may go: p - factor q is taken from the values below
                p = tl.where(hit, tl.maximum(p - factor * q, 0.0), p)
                q = tl.where(hit, 0.0, q)
            child = next_child(parents, node, row, child)
    return tl.maximum(p - factor * q, 0.0), q


@triton.jit
def tree_pass_kernel(
    target_ptr,
    draft_ptr,
    draft_tokens_ptr,
    parents_ptr,
    cu_num_draft_ptr,
    temperature_ptr,
    ints_ptr,  # [requests, STATE_INTS] int32
    floats_ptr,  # [requests, STATE_FLOATS] float32
    draft_floats_ptr,  # [requests, 2] float32: m and S of the draft row
    frozen_ptr,  # [requests, slots] float32
    mass_ptr,  # [2, requests, blocks] float32, written: this block's part of F and of M
    target_reads_ptr,
    draft_reads_ptr,
    target_stride,
    draft_stride,
    num_requests,
    slots,
    vocab,
    num_blocks,
    DRAFT: tl.constexpr,
    COUNT_READS: tl.constexpr,
    REPLACE: tl.constexpr,
    ROWS: tl.constexpr,
    NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Grid: (ceil(requests / ROWS), blocks). One look at the two rows of each request that waits for its F."""
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = request < num_requests
    ints, floats = ints_ptr + request * STATE_INTS, floats_ptr + request * STATE_FLOATS
    live = there & (tl.load(ints, mask=there, other=2) == WAITING)
    if tl.max(live.to(tl.int32), axis=0) > 0:
        row = tl.load(ints + 1, mask=live, other=0)
        last = tl.load(ints + 2, mask=live, other=-1)
        first = tl.load(ints + 4, mask=live, other=0)
        start, nodes, parents, node = load_tree(
            draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, request, live, slots, vocab, NODES
        )
        frozen = tl.load(
            frozen_ptr + (request * slots)[:, None] + node, mask=live[:, None] & (node < slots), other=-1.0
        )
        temperature, _ = temperature_of(temperature_ptr, request, live)
        tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        p, q = node_tile(
            target_ptr, draft_ptr, target_reads_ptr, draft_reads_ptr, target_stride, draft_stride, floats,
            draft_floats_ptr, request, start, row, first, tokens, temperature, live, live, vocab, slots, DRAFT,
            COUNT_READS,
        )  # fmt: skip
        current = tl.load(floats, mask=live, other=0.0)
        left, q = left_law(p, q, current, row, last, nodes, parents, node, frozen, tokens, DRAFT, REPLACE)
        at = address(request, num_blocks) + tl.program_id(1)
        tl.store(mass_ptr + at, tl.sum(left, axis=1), mask=live)
        tl.store(mass_ptr + address(num_requests, num_blocks) + at, tl.sum(q, axis=1), mask=live)


@triton.jit
def tree_race_kernel(
    target_ptr, draft_ptr, draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, temperature_ptr, keys_ptr,
    exponentials_ptr, ints_ptr, floats_ptr, draft_floats_ptr, frozen_ptr, plan_ints_ptr, score_ptr, token_ptr,
    target_reads_ptr, draft_reads_ptr, target_stride, draft_stride, num_requests, slots, vocab, num_blocks,
    DRAFT: tl.constexpr, GIVEN: tl.constexpr, COUNT_READS: tl.constexpr, REPLACE: tl.constexpr,
    ROWS: tl.constexpr, NODES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid: (ceil(requests / ROWS), blocks). The race over the law left at the node where the walk ended.

    Should nothing be left of it, the law before its last refusal takes its place. `plan_ints` [requests, 3] is that of
    finish_kernel, with the place in the text as its row.
    """
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = request < num_requests
    ints, floats = ints_ptr + request * STATE_INTS, floats_ptr + request * STATE_FLOATS
    mode = tl.load(plan_ints_ptr + request * 3 + 1, mask=there, other=2)
    live = there & (mode != 2)
    row = tl.load(ints + 1, mask=live, other=0)
    last = tl.load(ints + 2, mask=live, other=-1)
    first = tl.load(ints + 4, mask=live, other=0)
    start, nodes, parents, node = load_tree(
        draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, request, live, slots, vocab, NODES
    )
    frozen = tl.load(frozen_ptr + (request * slots)[:, None] + node, mask=live[:, None] & (node < slots), other=-1.0)
    temperature, _ = temperature_of(temperature_ptr, request, live)
    tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    recovers = live & (mode == RECOVER)
    p, q = node_tile(
        target_ptr, draft_ptr, target_reads_ptr, draft_reads_ptr, target_stride, draft_stride, floats,
        draft_floats_ptr, request, start, row, first, tokens, temperature, live, recovers, vocab, slots, DRAFT,
        COUNT_READS,
    )  # fmt: skip
    current = tl.load(floats, mask=recovers, other=0.0)
    before = tl.load(floats + 1, mask=recovers, other=0.0)
    upto = tl.where(recovers, last, -1)
    left, _ = left_law(p, q, current, row, upto, nodes, parents, node, frozen, tokens, DRAFT, REPLACE)
    earlier, _ = left_law(p, q, before, row, upto - 1, nodes, parents, node, frozen, tokens, DRAFT, REPLACE)
    noise = tile_exponentials(
        keys_ptr, exponentials_ptr, request, row, mode != RECOVER, live, vocab, GIVEN, ROWS, BLOCK
    )
    at = address(request, num_blocks) + tl.program_id(1)
    store_winner(score_ptr, token_ptr, at, left, noise, tokens, there)
    store_winner(score_ptr, token_ptr, address(num_requests, num_blocks) + at, earlier, noise, tokens, there)
