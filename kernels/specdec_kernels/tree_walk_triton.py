"""The walks over a draft tree: recursive rejection and traversal, on scalars alone.

A walk goes on until it needs the sum F of a law after a refusal; then it waits for `tree_pass_kernel` and goes on in
the next launch. Deterministic children need no pass: their F is 1 minus what was refused. ROWS requests walk together,
each with its own state.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.decision_triton import accept_uniforms
from specdec_kernels.race_triton import BONUS, GREEDY, RECOVER
from specdec_kernels.row_stats_triton import (
    DRAFT_LOGITS,
    DRAFT_PROBS,
    NO_DRAFT_ROWS,
    address,
    load_scores,
    normaliser,
    shifted_exp,
    temperature_of,
)
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

LEAST_MASS = tl.constexpr(2.0**-22)  # of 1 minus probabilities in float32, less is rounding


@triton.jit
def at_place(tile, place, index):
    """The entry of each request's tile at `index`."""
    return tl.sum(tl.where(place == index[:, None], tile, 0), axis=1)


@triton.jit
def row_normaliser(max_ptr, sum_ptr, arg_ptr, entry, inside, num_blocks, temperature, BLOCKS: tl.constexpr):
    """(m, S, argmax) of one row a request; `entry` [ROWS]."""
    block = tl.arange(0, BLOCKS)[None, :]
    at = address(entry, num_blocks)[:, None] + block
    inside = inside[:, None] & (block < num_blocks)
    block_max, largest, total = normaliser(max_ptr, sum_ptr, at, inside, temperature[:, None])
    places = tl.load(arg_ptr + at, mask=inside, other=NONE)
    return tl.max(largest, axis=1), total, tl.min(tl.where(block_max == largest, places, NONE), axis=1)


@triton.jit
def child_masses(
    target_ptr, draft_ptr, draft_max_ptr, draft_sum_ptr, target_arg_ptr, target_reads_ptr, draft_reads_ptr,
    target_stride, draft_stride, request, start, row, first, token, t_max, t_sum, temperature, inside, slots,
    num_blocks, DRAFT: tl.constexpr, COUNT_READS: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """(p, q, draft m, draft S) of one child's token under the row it hangs from; q is 1 for deterministic children."""
    offsets = address(start + request + row, target_stride) + token
    x = load_scores(target_ptr, offsets, inside, target_reads_ptr, float("-inf"), COUNT_READS)
    p = shifted_exp(x, t_max, temperature) / t_sum
    d_max, d_sum = t_max, t_sum
    q = p * 0.0 + 1.0
    if DRAFT != NO_DRAFT_ROWS:
        offsets = address(start + tl.where(inside, first, 0), draft_stride) + token
        if DRAFT == DRAFT_PROBS:
            q = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, 0.0, COUNT_READS)
        else:
            # places of the target's argmax are read along and dropped
            d_max, d_sum, _ = row_normaliser(
                draft_max_ptr, draft_sum_ptr, target_arg_ptr, request * slots + tl.where(inside, first, 0), inside,
                num_blocks, temperature, BLOCKS,
            )  # fmt: skip
            y = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, float("-inf"), COUNT_READS)
            q = shifted_exp(y, d_max, temperature) / d_sum
    return p, q, d_max, d_sum


@triton.jit
def refused_before(nodes, parents, node, frozen, row, child, token):
    """(whether a refused sibling before `child` had its token, the lambda it left)."""
    same = (parents == (row - 1)[:, None]) & (node < child[:, None]) & (nodes == token[:, None]) & (frozen >= 0)
    return tl.max(same.to(tl.int32), axis=1) > 0, tl.max(tl.where(same, frozen, 0.0), axis=1)


@triton.jit
def summed(mass_ptr, request, waiting, num_requests, num_blocks, BLOCKS: tl.constexpr):
    """(F, M) of the requests that waited."""
    block = tl.arange(0, BLOCKS)[None, :]
    at = address(request, num_blocks)[:, None] + block
    inside = waiting[:, None] & (block < num_blocks)
    total = tl.sum(tl.load(mass_ptr + at, mask=inside, other=0.0), axis=1)
    rest = tl.load(mass_ptr + address(num_requests, num_blocks) + at, mask=inside, other=0.0)
    return total, tl.sum(rest, axis=1)


@triton.jit
def begin_recursive(request, there, node):
    """The state at the pending token."""
    zero = request * 0
    status, current = tl.where(there, ITERATING, DONE), zero * 0.0
    frozen = node * 0.0 + current[:, None] - 1.0
    return status, zero, zero - 1, zero, zero, zero, current, current, current + 1.0, current + 1.0, frozen


@triton.jit
def resume_recursive(
    ints_ptr, floats_ptr, frozen_at, in_row, mass_ptr, request, there, node, num_requests, num_blocks,
    REPLACE: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """The state of the last launch, with the F and M that it waited for."""
    ints, floats = ints_ptr + request * STATE_INTS, floats_ptr + request * STATE_FLOATS
    status = tl.load(ints, mask=there, other=2)
    row, last = tl.load(ints + 1, mask=there, other=0), tl.load(ints + 2, mask=there, other=-1)
    depth, mode = tl.load(ints + 3, mask=there, other=0), tl.load(ints + 5, mask=there, other=0)
    greedy = tl.load(ints + 6, mask=there, other=0)
    current, before = tl.load(floats, mask=there, other=0.0), tl.load(floats + 1, mask=there, other=0.0)
    total, rest = tl.load(floats + 2, mask=there, other=1.0), tl.load(floats + 3, mask=there, other=1.0)
    frozen = tl.load(frozen_at, mask=in_row, other=-1.0)
    waited = status == WAITING
    new_total, new_rest = summed(mass_ptr, request, waited, num_requests, num_blocks, BLOCKS)
    # nothing left of the law: it stays what it was
    undone = waited & (new_total <= 0)
    current = tl.where(undone, before, current)
    frozen = tl.where(undone[:, None] & (node == last[:, None]), before[:, None], frozen)
    total = tl.where(waited & (new_total > 0), new_total, total)
    status = tl.where(waited, ITERATING, status)
    if REPLACE == WITHOUT_REPLACEMENT:
        # with nothing left of q no other child was drawn; 1 keeps divisions defined
        is_empty = waited & (new_rest <= 0)
        rest = tl.where(waited, tl.where(is_empty, 1.0, new_rest), rest)
        status = tl.where(is_empty, DONE, status)
        mode = tl.where(is_empty, RECOVER, mode)
    return status, row, last, depth, mode, greedy, current, before, total, rest, frozen


@triton.jit
def masses_left(p, q, again, left_behind, current, total, rest, DRAFT: tl.constexpr, REPLACE: tl.constexpr):
    """(p, q) of a child's token under what earlier refusals left of both laws; `again`: it was refused before."""
    if DRAFT == NO_DRAFT_ROWS:
        p_left, q_left = tl.where(again, 0.0, p) / total, q
    else:
        if REPLACE == WITHOUT_REPLACEMENT:
            p_left = tl.maximum(p - tl.where(again, left_behind, current) * q, 0.0) / total
            q_left = tl.where(again, 0.0, q) / tl.where(rest > 0, rest, 1.0)
        else:
            p_left, q_left = tl.maximum(p - current * q, 0.0) / total, q
    return p_left, q_left


@triton.jit
def after_refusal(
    current, total, rest, p, again, left_behind, refuse, is_last, DRAFT: tl.constexpr
):  # fmt: skip
    """(lambda, F, lambda frozen for the refused token, whether F has to be summed) of a row that refused a child."""
    waits = refuse & (is_last == 0)
    if DRAFT == NO_DRAFT_ROWS:
        # the race knows what to do when nothing is left
        smaller = total - tl.where(again, 0.0, p)
        total = tl.where(refuse & (smaller > LEAST_MASS), smaller, total)
        mark, waits = current, waits & (refuse == 0)
    else:
        step = current + total / rest
        mark = tl.where(again, left_behind, step)
        current = tl.where(refuse, step, current)
    return current, total, mark, waits


@triton.jit
def store_walk(
    target_max_ptr, target_sum_ptr, target_arg_ptr, draft_max_ptr, draft_sum_ptr, ints_ptr, floats_ptr,
    draft_floats_ptr, request, there, parents, node, slots, num_blocks, temperature, is_greedy, status, row, last,
    depth, mode, greedy, current, before, total, rest, DRAFT: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Writes the state, with the normalisers that a pass or the race over this row will want."""
    first = next_child(parents, node, row, row * 0 - 1)
    t_max, t_sum, _ = row_normaliser(
        target_max_ptr, target_sum_ptr, target_arg_ptr, request * slots + row, there, num_blocks, temperature, BLOCKS
    )
    d_max, d_sum = t_max, t_sum
    if DRAFT == DRAFT_LOGITS:
        d_max, d_sum, _ = row_normaliser(
            draft_max_ptr, draft_sum_ptr, target_arg_ptr, request * slots + tl.where(first == NONE, 0, first),
            there & (first != NONE) & (is_greedy == 0), num_blocks, temperature, BLOCKS,
        )  # fmt: skip
    ints, floats = ints_ptr + request * STATE_INTS, floats_ptr + request * STATE_FLOATS
    tl.store(ints, status, mask=there)
    tl.store(ints + 1, row, mask=there)
    tl.store(ints + 2, last, mask=there)
    tl.store(ints + 3, depth, mask=there)
    tl.store(ints + 4, first, mask=there)
    tl.store(ints + 5, mode, mask=there)
    tl.store(ints + 6, greedy, mask=there)
    tl.store(floats, current, mask=there)
    tl.store(floats + 1, before, mask=there)
    tl.store(floats + 2, total, mask=there)
    tl.store(floats + 3, rest, mask=there)
    tl.store(floats + 4, t_max, mask=there)
    tl.store(floats + 5, t_sum, mask=there)
    tl.store(draft_floats_ptr + request * 2, d_max, mask=there)
    tl.store(draft_floats_ptr + request * 2 + 1, d_sum, mask=there)


@triton.jit(do_not_specialize=["passes_left"])
def walk_recursive_kernel(
    target_ptr, draft_ptr, draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, temperature_ptr, target_max_ptr,
    target_sum_ptr, target_arg_ptr, draft_max_ptr, draft_sum_ptr, keys_ptr, uniforms_ptr, ints_ptr, floats_ptr,
    draft_floats_ptr, frozen_ptr, rows_ptr, mass_ptr, target_reads_ptr, draft_reads_ptr, target_stride, draft_stride,
    num_requests, slots, vocab, num_blocks, passes_left, FIRST: tl.constexpr, DRAFT: tl.constexpr, GIVEN: tl.constexpr,
    COUNT_READS: tl.constexpr, REPLACE: tl.constexpr, ROWS: tl.constexpr, NODES: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Grid: (ceil(requests / ROWS),). Down from the pending token; FIRST is the launch before any pass.

    A walk that still waits when no pass is left ends where it is: the law after its last refusal is whole, so the draw
    from it is exact, and the siblings behind were never looked at. (`passes_left` is for the traversal.)
    """
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = request < num_requests
    start, nodes, parents, node = load_tree(
        draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, request, there, slots, vocab, NODES
    )
    temperature, is_greedy = temperature_of(temperature_ptr, request, there)
    frozen_at, in_row = frozen_ptr + (request * slots)[:, None] + node, there[:, None] & (node < slots)
    if FIRST:
        state = begin_recursive(request, there, node)
    else:
        state = resume_recursive(
            ints_ptr, floats_ptr, frozen_at, in_row, mass_ptr, request, there, node, num_requests, num_blocks, REPLACE,
            BLOCKS,
        )  # fmt: skip
    status, row, last, depth, mode, greedy, current, before, total, rest, frozen = state
    while tl.min(status, axis=0) == ITERATING:
        first = next_child(parents, node, row, row * 0 - 1)
        t_max, t_sum, best = row_normaliser(
            target_max_ptr, target_sum_ptr, target_arg_ptr, request * slots + row, there, num_blocks, temperature,
            BLOCKS,
        )  # fmt: skip
        child = next_child(parents, node, row, last)
        has_child = (status == ITERATING) & (child != NONE)
        token, sampled = at_place(nodes, node, child), has_child & (is_greedy == 0)
        p, q, _, _ = child_masses(
            target_ptr, draft_ptr, draft_max_ptr, draft_sum_ptr, target_arg_ptr, target_reads_ptr, draft_reads_ptr,
            target_stride, draft_stride, request, start, row, first, token, t_max, t_sum, temperature, sampled, slots,
            num_blocks, DRAFT, COUNT_READS, BLOCKS,
        )  # fmt: skip
        again, left_behind = refused_before(nodes, parents, node, frozen, row, child, token)
        p_left, q_left = masses_left(p, q, again, left_behind, current, total, rest, DRAFT, REPLACE)
        u = accept_uniforms(keys_ptr, uniforms_ptr, request, start, child, sampled, GIVEN)
        keep = has_child & tl.where(is_greedy, token == best, u * q_left < p_left)
        refuse, is_last = has_child & (keep == 0), next_child(parents, node, row, child) == NONE

        before = tl.where(refuse, current, before)
        current, total, mark, waits = after_refusal(
            current, total, rest, p, again, left_behind, refuse & (is_greedy == 0), is_last, DRAFT
        )
        frozen = tl.where(refuse[:, None] & (node == child[:, None]), mark[:, None], frozen)
        ends = (status == ITERATING) & ((has_child == 0) | (refuse & is_last))
        mode = tl.where(ends, tl.where(is_greedy, GREEDY, tl.where(first == NONE, BONUS, RECOVER)), mode)
        greedy, status = tl.where(ends, best, greedy), tl.where(ends, DONE, tl.where(waits, WAITING, status))
        last, row = tl.where(refuse, child, tl.where(keep, -1, last)), tl.where(keep, child + 1, row)
        depth += keep.to(tl.int32)
        current, total = tl.where(keep, 0.0, current), tl.where(keep, 1.0, total)
        rest, before = tl.where(keep, 1.0, rest), tl.where(keep, 0.0, before)
    tl.store(frozen_at, frozen, mask=in_row)
    store_walk(
        target_max_ptr, target_sum_ptr, target_arg_ptr, draft_max_ptr, draft_sum_ptr, ints_ptr, floats_ptr,
        draft_floats_ptr, request, there, parents, node, slots, num_blocks, temperature, is_greedy, status, row, last,
        depth, mode, greedy, current, before, total, rest, DRAFT, BLOCKS,
    )  # fmt: skip
