"""Traversal verification: the walk that judges whole paths, leftmost leaf first, and what every walk leaves behind.

Each row of the tree keeps its own weight, lambda, F, M and last refused child while the walk is below it.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.decision_triton import accept_uniforms
from specdec_kernels.race_triton import BONUS, GREEDY, RECOVER
from specdec_kernels.row_stats_triton import NO_DRAFT_ROWS, temperature_of
from specdec_kernels.tree_laws_triton import (
    DONE,
    ITERATING,
    NONE,
    STATE_FLOATS,
    STATE_INTS,
    WAITING,
    WITHOUT_REPLACEMENT,
    load_tree,
    next_child,
)
from specdec_kernels.tree_walk_triton import (
    LEAST_MASS,
    at_place,
    child_masses,
    masses_left,
    refused_before,
    row_normaliser,
    store_walk,
    summed,
)

ROW_FLOATS = tl.constexpr(5)  # weight, lambda, F, M, last refused child


@triton.jit
def set_place(tile, place, index, value, when):
    """The tile with `value` at each request's `index`, where `when` holds."""
    return tl.where(when[:, None] & (place == index[:, None]), value[:, None], tile)


@triton.jit
def weight_after(weight, mass):
    """The weight of a node that lost a child: Z / (Z + 1 - w); with nothing left 0, or 1 for a node sure to be kept."""
    safe = tl.where(mass > 0, mass + (1.0 - weight), 1.0)
    return tl.where(mass > 0, mass / safe, tl.where(weight < 1.0, 0.0, 1.0))


@triton.jit
def begin_traversal(request, there, node):
    """The state at the pending token, whose weight is 1; every other row is as it will be entered."""
    zero, flat = request * 0, node * 0.0 + request[:, None] * 0.0
    status = tl.where(there, ITERATING, DONE)
    return status, zero, zero, zero, zero, flat - 1.0, flat + 1.0, flat, flat + 1.0, flat + 1.0, flat - 1.0


@triton.jit
def resume_traversal(
    ints_ptr, floats_ptr, frozen_at, rows_at, in_row, mass_ptr, request, there, node, slots, num_requests, num_blocks,
    REPLACE: tl.constexpr, NODES: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """The state of the last launch, the row that waited with its new weight and law."""
    ints = ints_ptr + request * STATE_INTS
    status = tl.load(ints, mask=there, other=2)
    row, depth = tl.load(ints + 1, mask=there, other=0), tl.load(ints + 3, mask=there, other=0)
    mode, greedy = tl.load(ints + 5, mask=there, other=0), tl.load(ints + 6, mask=there, other=0)
    frozen = tl.load(frozen_at, mask=in_row, other=-1.0)
    weights, lambdas = tl.load(rows_at, mask=in_row, other=1.0), tl.load(rows_at + slots, mask=in_row, other=0.0)
    totals = tl.load(rows_at + 2 * slots, mask=in_row, other=1.0)
    rests = tl.load(rows_at + 3 * slots, mask=in_row, other=1.0)
    lasts = tl.load(rows_at + 4 * slots, mask=in_row, other=-1.0)
    waited = status == WAITING
    new_total, new_rest = summed(mass_ptr, request, waited, num_requests, num_blocks, BLOCKS)
    weight, total = at_place(weights, node, row), at_place(totals, node, row)
    weights = set_place(weights, node, row, weight_after(weight, weight * new_total / total), waited)
    # nothing left of the law: it stays what it was
    undone = waited & (new_total <= 0)
    before = tl.load(floats_ptr + request * STATE_FLOATS + 1, mask=there, other=0.0)
    lambdas = set_place(lambdas, node, row, before, undone)
    frozen = set_place(frozen, node, at_place(lasts, node, row).to(tl.int32), before, undone)
    totals = set_place(totals, node, row, new_total, waited & (new_total > 0))
    if REPLACE == WITHOUT_REPLACEMENT:
        rests = set_place(rests, node, row, new_rest, waited)
        # q has nothing left to have drawn another child from
        lasts = set_place(lasts, node, row, row * 0.0 + NODES, waited & (new_rest <= 0))
    return tl.where(waited, ITERATING, status), row, depth, mode, greedy, frozen, weights, lambdas, totals, rests, lasts


@triton.jit
def child_weight(weight, p_left, q_left):
    """min(1, w p / q) of a child; with q = 0 it is 1 where w p > 0 and 0 elsewhere."""
    mass = weight * p_left
    return tl.where(mass >= q_left, tl.where(mass > 0, 1.0, 0.0), mass / tl.where(mass < q_left, q_left, 1.0))


@triton.jit
def take_out(
    frozen, weights, lambdas, totals, rests, lasts, node, parent, gone, p, again, left_behind, refused, is_greedy,
    DRAFT: tl.constexpr,
):  # fmt: skip
    """What a refused leaf stood for leaves its parent's law; F is still to be summed but for deterministic children.

    Also gives the parent's lambda before, and where it counts: a node of weight 0 stays at 0.
    """
    lasts = set_place(lasts, node, parent, gone.to(tl.float32), refused)
    counts = refused & (at_place(weights, node, parent) > 0) & (is_greedy == 0)
    weight, total = at_place(weights, node, parent), at_place(totals, node, parent)
    current, rest = at_place(lambdas, node, parent), at_place(rests, node, parent)
    if DRAFT == NO_DRAFT_ROWS:
        smaller = total - tl.where(again, 0.0, p)
        something = smaller > LEAST_MASS
        left = tl.where(something, weight * smaller / total, 0.0)
        weights = set_place(weights, node, parent, weight_after(weight, left), counts)
        totals = set_place(totals, node, parent, smaller, counts & something)
        frozen = set_place(frozen, node, gone, current, counts & something)
    else:
        step = current + total / (tl.where(rest > 0, rest, 1.0) * tl.where(weight > 0, weight, 1.0))
        lambdas = set_place(lambdas, node, parent, step, counts)
        frozen = set_place(frozen, node, gone, tl.where(again, left_behind, step), counts)
    return frozen, weights, lambdas, totals, lasts, current, counts


@triton.jit
def store_rows(rows_at, frozen_at, slots, in_row, frozen, weights, lambdas, totals, rests, lasts):
    """Writes what every row keeps while the walk waits."""
    tl.store(frozen_at, frozen, mask=in_row)
    tl.store(rows_at, weights, mask=in_row)
    tl.store(rows_at + slots, lambdas, mask=in_row)
    tl.store(rows_at + 2 * slots, totals, mask=in_row)
    tl.store(rows_at + 3 * slots, rests, mask=in_row)
    tl.store(rows_at + 4 * slots, lasts, mask=in_row)


@triton.jit
def step_down(
    target_ptr, draft_ptr, draft_max_ptr, draft_sum_ptr, target_max_ptr, target_sum_ptr, target_arg_ptr,
    target_reads_ptr, draft_reads_ptr, target_stride, draft_stride, request, start, nodes, parents, node, frozen, row,
    child, weight, lambdas, totals, rests, temperature, inside, is_greedy, slots, num_blocks, DRAFT: tl.constexpr,
    COUNT_READS: tl.constexpr, REPLACE: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """(weight of `child` under `row`, p of its token, whether that was refused before, its lambda then, argmax).

    One look at a row and a child of it serves the way down, and the way up after a refusal.
    """
    t_max, t_sum, best = row_normaliser(
        target_max_ptr, target_sum_ptr, target_arg_ptr, request * slots + row, inside | is_greedy, num_blocks,
        temperature, BLOCKS,
    )  # fmt: skip
    token, first = at_place(nodes, node, child), next_child(parents, node, row, row * 0 - 1)
    p, q, _, _ = child_masses(
        target_ptr, draft_ptr, draft_max_ptr, draft_sum_ptr, target_arg_ptr, target_reads_ptr, draft_reads_ptr,
        target_stride, draft_stride, request, start, row, first, token, t_max, t_sum, temperature,
        inside & (is_greedy == 0), slots, num_blocks, DRAFT, COUNT_READS, BLOCKS,
    )  # fmt: skip
    again, left_behind = refused_before(nodes, parents, node, frozen, row, child, token)
    current, total, rest = at_place(lambdas, node, row), at_place(totals, node, row), at_place(rests, node, row)
    p_left, q_left = masses_left(p, q, again, left_behind, current, total, rest, DRAFT, REPLACE)
    # at temperature 0 the path of the target's argmax has weight 1, every other 0
    ratio = tl.where(is_greedy, tl.where(token == best, weight, 0.0), child_weight(weight, p_left, q_left))
    return ratio, p, again, left_behind, best


@triton.jit(do_not_specialize=["passes_left"])
def walk_traversal_kernel(
    target_ptr, draft_ptr, draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, temperature_ptr, target_max_ptr,
    target_sum_ptr, target_arg_ptr, draft_max_ptr, draft_sum_ptr, keys_ptr, uniforms_ptr, ints_ptr, floats_ptr,
    draft_floats_ptr, frozen_ptr, rows_ptr, mass_ptr, target_reads_ptr, draft_reads_ptr, target_stride, draft_stride,
    num_requests, slots, vocab, num_blocks, passes_left, FIRST: tl.constexpr, DRAFT: tl.constexpr, GIVEN: tl.constexpr,
    COUNT_READS: tl.constexpr, REPLACE: tl.constexpr, ROWS: tl.constexpr, NODES: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Grid: (ceil(requests / ROWS),). `rows` is [requests, ROW_FLOATS, slots]; the rest as in the recursive walk.

    A refusal at depth d + 1 may make every node up to the root be judged again, one pass each. So a child at depth
    d + 1 is looked at only while `passes_left`, the passes behind this launch, is at least d: no walk is cut short.
    """
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = request < num_requests
    start, nodes, parents, node = load_tree(
        draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, request, there, slots, vocab, NODES
    )
    temperature, is_greedy = temperature_of(temperature_ptr, request, there)
    in_row, frozen_at = there[:, None] & (node < slots), frozen_ptr + (request * slots)[:, None] + node
    rows_at = rows_ptr + (request * slots * ROW_FLOATS)[:, None] + node
    if FIRST:
        state = begin_traversal(request, there, node)
    else:
        state = resume_traversal(
            ints_ptr, floats_ptr, frozen_at, rows_at, in_row, mass_ptr, request, there, node, slots, num_requests,
            num_blocks, REPLACE, NODES, BLOCKS,
        )  # fmt: skip
    status, row, depth, mode, greedy, frozen, weights, lambdas, totals, rests, lasts = state
    before = at_place(lambdas, node, row)
    while tl.min(status, axis=0) == ITERATING:
        last, weight = at_place(lasts, node, row).to(tl.int32), at_place(weights, node, row)
        child = next_child(parents, node, row, last)
        if DRAFT != NO_DRAFT_ROWS:
            child = tl.where(is_greedy | (depth <= passes_left), child, NONE)
        # a node without further children is a leaf: accepted with its weight, the root always
        goes_down, leaf = (status == ITERATING) & (child != NONE), (status == ITERATING) & (child == NONE)
        u = accept_uniforms(keys_ptr, uniforms_ptr, request, start, row - 1, leaf & (row > 0) & (is_greedy == 0), GIVEN)
        accepted = leaf & ((row == 0) | tl.where(is_greedy, weight > 0, u < weight))
        refused = leaf & (accepted == 0)
        gone = tl.where(refused, row - 1, -1)
        parent = tl.where(refused, at_place(parents, node, gone) + 1, row)
        ratio, p, again, left_behind, best = step_down(
            target_ptr, draft_ptr, draft_max_ptr, draft_sum_ptr, target_max_ptr, target_sum_ptr, target_arg_ptr,
            target_reads_ptr, draft_reads_ptr, target_stride, draft_stride, request, start, nodes, parents, node,
            frozen, parent, tl.where(refused, gone, child), weight, lambdas, totals, rests, temperature,
            goes_down | refused, is_greedy, slots, num_blocks, DRAFT, COUNT_READS, REPLACE, BLOCKS,
        )  # fmt: skip
        mode = tl.where(accepted, tl.where(is_greedy, GREEDY, tl.where(last < 0, BONUS, RECOVER)), mode)
        greedy, status = tl.where(accepted, best, greedy), tl.where(accepted, DONE, status)
        weights = set_place(weights, node, child + 1, ratio, goes_down)
        frozen, weights, lambdas, totals, lasts, earlier, counts = take_out(
            frozen, weights, lambdas, totals, rests, lasts, node, parent, gone, p, again, left_behind, refused,
            is_greedy, DRAFT,
        )  # fmt: skip
        if DRAFT != NO_DRAFT_ROWS:
            before, status = tl.where(counts, earlier, before), tl.where(counts, WAITING, status)
        depth = depth + goes_down.to(tl.int32) - refused.to(tl.int32)
        row = tl.where(goes_down, child + 1, parent)
    store_rows(rows_at, frozen_at, slots, in_row, frozen, weights, lambdas, totals, rests, lasts)
    current, last = at_place(lambdas, node, row), at_place(lasts, node, row).to(tl.int32)
    store_walk(
        target_max_ptr, target_sum_ptr, target_arg_ptr, draft_max_ptr, draft_sum_ptr, ints_ptr, floats_ptr,
        draft_floats_ptr, request, there, parents, node, slots, num_blocks, temperature, is_greedy, status, row, last,
        depth, mode, greedy, current, tl.where(status == WAITING, before, current), at_place(totals, node, row),
        at_place(rests, node, row), DRAFT, BLOCKS,
    )  # fmt: skip


@triton.jit
def tree_outcome_kernel(
    draft_tokens_ptr,
    parents_ptr,
    cu_num_draft_ptr,
    ints_ptr,
    plan_ints_ptr,  # [requests, 3] int32, written for tree_race_kernel and finish_kernel
    num_accepted_ptr,  # [requests] int64, written
    is_bonus_ptr,  # [requests] bool, written
    emitted_ptr,  # [requests, slots] int64, written
    path_ptr,  # [requests, slots - 1] int64, written
    num_requests,
    slots,
    vocab,
    ROWS: tl.constexpr,
    NODES: tl.constexpr,
):
    """Grid: (ceil(requests / ROWS),). The accepted path, read from its end up to the root."""
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = request < num_requests
    _, nodes, parents, place = load_tree(
        draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, request, there, slots, vocab, NODES
    )
    ints = ints_ptr + request * STATE_INTS
    row, depth = tl.load(ints + 1, mask=there, other=0), tl.load(ints + 3, mask=there, other=0)
    first, mode = tl.load(ints + 4, mask=there, other=0), tl.load(ints + 5, mask=there, other=2)
    token = tl.load(ints + 6, mask=there, other=0)
    path = place * 0 + request[:, None] * 0 - 1
    emitted = path.to(tl.int64)
    current, at = row, depth - 1
    while tl.max(at, axis=0) >= 0:
        here = (at >= 0)[:, None] & (place == at[:, None])
        own = tl.where(at >= 0, current - 1, -1)
        path = tl.where(here, own[:, None], path)
        emitted = tl.where(here, at_place(nodes, place, own)[:, None], emitted)
        current = tl.where(at >= 0, at_place(parents, place, own) + 1, current)
        at = at - 1
    tl.store(
        path_ptr + (request * (slots - 1))[:, None] + place,
        path.to(tl.int64),
        mask=there[:, None] & (place < slots - 1),
    )
    tl.store(emitted_ptr + (request * slots)[:, None] + place, emitted, mask=there[:, None] & (place < slots))
    tl.store(num_accepted_ptr + request, depth.to(tl.int64), mask=there)
    tl.store(is_bonus_ptr + request, (mode == BONUS) | ((mode == GREEDY) & (first == NONE)), mask=there)
    tl.store(plan_ints_ptr + request * 3, depth, mask=there)
    tl.store(plan_ints_ptr + request * 3 + 1, mode, mask=there)
    tl.store(plan_ints_ptr + request * 3 + 2, token, mask=there)
