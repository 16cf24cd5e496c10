"""Version 1 of tree verification: one program a request, and the laws themselves in memory. No speed claims.

Every row that a walk enters gets a copy of p and of q, and every refusal rewrites both, exactly as the scalar rules
say it. A row is read twice for its law (largest, sum) and once more to write it, a refusal reads and writes p twice,
and one multiprocessor does all of it for a request. Version 2 keeps the law in two numbers (`tree_laws_triton`).
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.decision_triton import accept_uniforms
from specdec_kernels.row_stats_triton import (
    DRAFT_LOGITS,
    NO_DRAFT_ROWS,
    address,
    shifted_exp,
    temperature_of,
)
from specdec_kernels.tree_laws_triton import NONE, WITHOUT_REPLACEMENT
from specdec_kernels.tree_traversal_triton import child_weight, weight_after
from specdec_kernels.verify_chain_early_triton import draft_law, row_noise, scan_row


@triton.jit
def whole_tree(tokens_ptr, parents_ptr, cu_num_draft_ptr, request, slots, vocab, NODES: tl.constexpr):
    """(start, tokens, parents, node) of one request as tiles [NODES]; what is no node has parent -2."""
    node = tl.arange(0, NODES)
    start = tl.load(cu_num_draft_ptr + request)
    drafted = tl.minimum(tl.load(cu_num_draft_ptr + request + 1) - start, slots - 1)
    tokens = tl.load(tokens_ptr + start + node, mask=node < drafted, other=-1)
    ended = tl.cumsum(tl.where((tokens < 0) | (tokens >= vocab), 1, 0), axis=0)
    parents = tl.load(parents_ptr + start + node, mask=node < drafted, other=-2)
    return start, tokens, tl.where(ended == 0, parents, -2).to(tl.int32), node


@triton.jit
def child_behind(parents, node, row, after):
    """The first child of `row` behind node `after`, or NONE."""
    return tl.min(tl.where((parents == row - 1) & (node > after), node, NONE), axis=0)


@triton.jit
def entry_of(tile, node, index):
    """The entry of a tile at `index`."""
    return tl.sum(tl.where(node == index, tile, 0), axis=0)


@triton.jit
def enter_row(
    target_ptr, draft_ptr, p_ptr, q_ptr, base, draft_base, has_children, vocab, temperature, DRAFT: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes the law of a row, and that of its children, to `p_ptr` and `q_ptr`; gives the row's argmax."""
    lanes = tl.arange(0, BLOCK)
    t_max, best, t_sum = scan_row(target_ptr, base, vocab, temperature, BLOCK)
    for first in range(0, vocab, BLOCK):
        tokens = first + lanes
        x = tl.load(target_ptr + base + tokens, mask=tokens < vocab, other=float("-inf")).to(tl.float32)
        tl.store(p_ptr + tokens, shifted_exp(x, t_max, temperature) / t_sum, mask=tokens < vocab)
    if DRAFT != NO_DRAFT_ROWS:
        # without children there is no draft row: an empty vocabulary is scanned instead
        drafted = tl.where(has_children, vocab, 0)
        d_max, d_sum = t_max, t_sum
        if DRAFT == DRAFT_LOGITS:
            d_max, _, d_sum = scan_row(draft_ptr, draft_base, drafted, temperature, BLOCK)
        for first in range(0, drafted, BLOCK):
            tokens = first + lanes
            q = draft_law(draft_ptr, draft_base, tokens, tokens < vocab, d_max, d_sum, temperature, DRAFT)
            tl.store(q_ptr + tokens, q, mask=tokens < vocab)
    # other threads read what this one wrote
    tl.debug_barrier()
    return best


@triton.jit
def take_out_token(
    p_ptr, q_ptr, token, scale, vocab, DRAFT: tl.constexpr, REPLACE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """p becomes max(scale p - q, 0), normalised, if anything is left of it; q loses the token.

    Gives the sum before normalising, and whether q has anything left (always, when it loses nothing).
    """
    lanes = tl.arange(0, BLOCK)
    total = scale * 0.0
    rest = total
    for first in range(0, vocab, BLOCK):
        tokens = first + lanes
        inside = tokens < vocab
        p = tl.load(p_ptr + tokens, mask=inside, other=0.0)
        if DRAFT == NO_DRAFT_ROWS:
            excess = tl.where(tokens == token, 0.0, scale * p)
        else:
            q = tl.load(q_ptr + tokens, mask=inside, other=0.0)
            excess = tl.maximum(scale * p - q, 0.0)
            rest += tl.sum(tl.where(tokens == token, 0.0, q), axis=0)
        total += tl.sum(excess, axis=0)
    for first in range(0, vocab, BLOCK):
        tokens = first + lanes
        inside = tokens < vocab
        p = tl.load(p_ptr + tokens, mask=inside, other=0.0)
        if DRAFT == NO_DRAFT_ROWS:
            excess = tl.where(tokens == token, 0.0, scale * p)
        else:
            q = tl.load(q_ptr + tokens, mask=inside, other=0.0)
            excess = tl.maximum(scale * p - q, 0.0)
            if REPLACE == WITHOUT_REPLACEMENT:
                left = tl.where(tokens == token, 0.0, q) / tl.where(rest > 0, rest, 1.0)
                tl.store(q_ptr + tokens, left, mask=inside)
        tl.store(p_ptr + tokens, tl.where(total > 0, excess / tl.where(total > 0, total, 1.0), p), mask=inside)
    tl.debug_barrier()
    has_more = total == total
    if (REPLACE == WITHOUT_REPLACEMENT) & (DRAFT != NO_DRAFT_ROWS):
        has_more = rest > 0
    return total, has_more


@triton.jit
def race_law(
    p_ptr, keys_ptr, exponentials_ptr, request, ahead, slot, vocab, GIVEN: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The winner of the race over a law in memory."""
    lanes = tl.arange(0, BLOCK)
    best = tl.load(p_ptr) * 0.0 - 1.0
    winner = request * 0
    for first in range(0, vocab, BLOCK):
        tokens = first + lanes
        inside = tokens < vocab
        weights = tl.load(p_ptr + tokens, mask=inside, other=0.0)
        noise = row_noise(keys_ptr, exponentials_ptr, request, ahead, slot, tokens, inside, vocab, GIVEN, BLOCK)
        score = tl.where(weights > 0, weights / noise, -1.0)
        here = tl.max(score, axis=0)
        winner = tl.where(here > best, tl.min(tl.where(score == here, tokens, vocab), axis=0).to(tl.int64), winner)
        best = tl.maximum(best, here)
    return winner


@triton.jit
def store_outcome(
    num_accepted_ptr, is_bonus_ptr, next_token_ptr, emitted_ptr, path_ptr, request, slots, nodes, parents, node, row,
    depth, is_bonus, token,
):  # fmt: skip
    """Writes the verdict, the accepted path from its end up to the root."""
    for place in range(depth + 1, slots):
        tl.store(emitted_ptr + request * slots + place, -1)
        tl.store(path_ptr + request * (slots - 1) + place - 1, -1)
    place = depth
    current = row
    while place > 0:
        tl.store(path_ptr + request * (slots - 1) + place - 1, (current - 1).to(tl.int64))
        tl.store(emitted_ptr + request * slots + place - 1, entry_of(nodes, node, current - 1))
        current = entry_of(parents, node, current - 1) + 1
        place -= 1
    tl.store(emitted_ptr + request * slots + depth, token)
    tl.store(next_token_ptr + request, token)
    tl.store(num_accepted_ptr + request, depth.to(tl.int64))
    tl.store(is_bonus_ptr + request, is_bonus)


@triton.jit
def verify_tree_recursive_v1_kernel(
    target_ptr, draft_ptr, draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, temperature_ptr, keys_ptr, uniforms_ptr,
    exponentials_ptr, law_ptr, draft_law_ptr, num_accepted_ptr, is_bonus_ptr, next_token_ptr, emitted_ptr, path_ptr,
    target_stride, draft_stride, slots, vocab, DRAFT: tl.constexpr, GIVEN: tl.constexpr, REPLACE: tl.constexpr,
    NODES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid: (requests,). `law` and `draft_law` are [requests, slots, vocab] float32, one row a request is used."""
    request = tl.program_id(0).to(tl.int64)
    start, nodes, parents, node = whole_tree(
        draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, request, slots, vocab, NODES
    )
    temperature, is_greedy = temperature_of(temperature_ptr, request, request >= 0)
    p_at, q_at = law_ptr + address(request * slots, vocab), draft_law_ptr + address(request * slots, vocab)
    row = tl.sum(node * 0, axis=0)
    depth = row
    first = row
    answer = request * 0
    going = row == 0
    while going:
        first = child_behind(parents, node, row, -1)
        answer = enter_row(
            target_ptr, draft_ptr, p_at, q_at, address(start + request + row, target_stride),
            address(start + tl.where(first == NONE, 0, first), draft_stride), first != NONE, vocab, temperature,
            DRAFT, BLOCK,
        )  # fmt: skip
        child = first
        going = row < 0
        looking = child != NONE
        while looking:
            token = entry_of(nodes, node, child)
            p = tl.load(p_at + token)
            q = p * 0.0 + 1.0
            if DRAFT != NO_DRAFT_ROWS:
                q = tl.load(q_at + token)
            u = accept_uniforms(keys_ptr, uniforms_ptr, request, start, child, child >= 0, GIVEN)
            keep = tl.where(is_greedy, token == answer, u * q < p)
            following = child_behind(parents, node, row, child)
            has_more = child >= 0
            if (keep == 0) & (is_greedy == 0):
                _, has_more = take_out_token(p_at, q_at, token, p * 0.0 + 1.0, vocab, DRAFT, REPLACE, BLOCK)
            row = tl.where(keep, child + 1, row)
            depth += keep.to(tl.int32)
            going = keep
            looking = (keep == 0) & has_more & (following != NONE)
            child = following
    if is_greedy == 0:
        slot = row * 8 + tl.where(first == NONE, 3, 2)
        answer = race_law(p_at, keys_ptr, exponentials_ptr, request, 0, slot, vocab, GIVEN, BLOCK)
    store_outcome(
        num_accepted_ptr, is_bonus_ptr, next_token_ptr, emitted_ptr, path_ptr, request, slots, nodes, parents, node,
        row, depth, first == NONE, answer,
    )  # fmt: skip


@triton.jit
def verify_tree_target_only_v1_kernel(
    target_ptr, draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, temperature_ptr, keys_ptr, law_ptr, num_accepted_ptr,
    is_bonus_ptr, next_token_ptr, emitted_ptr, path_ptr, target_stride, slots, vocab, NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid: (requests,). A draw at each row of the walk, and the child that has it."""
    request = tl.program_id(0).to(tl.int64)
    start, nodes, parents, node = whole_tree(
        draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, request, slots, vocab, NODES
    )
    temperature, is_greedy = temperature_of(temperature_ptr, request, request >= 0)
    p_at = law_ptr + address(request * slots, vocab)
    row = tl.sum(node * 0, axis=0)
    depth = row
    drawn = request * 0
    going = row == 0
    while going:
        drawn = enter_row(
            target_ptr, target_ptr, p_at, p_at, address(start + request + row, target_stride), start * 0, row < 0,
            vocab, temperature, NO_DRAFT_ROWS, BLOCK,
        )  # fmt: skip
        if is_greedy == 0:
            # `sample` is keyed by the position in the text alone; its purpose code is 4, its node 0
            drawn = race_law(p_at, keys_ptr, law_ptr, request, depth, 4, vocab, False, BLOCK)
        child = tl.min(tl.where((parents == row - 1) & (nodes == drawn), node, NONE), axis=0)
        going = child != NONE
        row = tl.where(going, child + 1, row)
        depth += going.to(tl.int32)
    store_outcome(
        num_accepted_ptr, is_bonus_ptr, next_token_ptr, emitted_ptr, path_ptr, request, slots, nodes, parents, node,
        row, depth, child_behind(parents, node, row, -1) == NONE, drawn,
    )  # fmt: skip


@triton.jit
def verify_tree_traversal_v1_kernel(
    target_ptr, draft_ptr, draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, temperature_ptr, keys_ptr, uniforms_ptr,
    exponentials_ptr, law_ptr, draft_law_ptr, rows_ptr, num_accepted_ptr, is_bonus_ptr, next_token_ptr, emitted_ptr,
    path_ptr, target_stride, draft_stride, slots, vocab, DRAFT: tl.constexpr, GIVEN: tl.constexpr,
    REPLACE: tl.constexpr, NODES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid: (requests,). `rows` [requests, 2, slots] float32: weight and argmax of the rows above the walk."""
    request = tl.program_id(0).to(tl.int64)
    start, nodes, parents, node = whole_tree(
        draft_tokens_ptr, parents_ptr, cu_num_draft_ptr, request, slots, vocab, NODES
    )
    temperature, is_greedy = temperature_of(temperature_ptr, request, request >= 0)
    rows_at = rows_ptr + request * slots * 2
    row = tl.sum(node * 0, axis=0)
    depth, last = row, row - 1
    weight = temperature * 0.0 + 1.0
    answer = request * 0
    enters, going = row == 0, row == 0
    while going:
        at = address(request * slots + row, vocab)
        p_at, q_at = law_ptr + at, draft_law_ptr + at
        if enters:
            first = child_behind(parents, node, row, -1)
            answer = enter_row(
                target_ptr, draft_ptr, p_at, q_at, address(start + request + row, target_stride),
                address(start + tl.where(first == NONE, 0, first), draft_stride), first != NONE, vocab, temperature,
                DRAFT, BLOCK,
            )  # fmt: skip
        child = child_behind(parents, node, row, last)
        u = accept_uniforms(keys_ptr, uniforms_ptr, request, start, tl.maximum(row - 1, 0), row > 0, GIVEN)
        # a node without further children is a leaf: accepted with its weight, the root always
        accepted = (child == NONE) & ((row == 0) | tl.where(is_greedy, weight > 0, u < weight))
        going = accepted == 0
        enters = child != NONE
        tl.store(rows_at + row, weight)
        tl.store(rows_at + slots + row, answer.to(tl.float32))
        tl.debug_barrier()
        if enters:
            token = entry_of(nodes, node, child)
            p = tl.load(p_at + token)
            q = p * 0.0 + 1.0
            if DRAFT != NO_DRAFT_ROWS:
                q = tl.load(q_at + token)
            weight = tl.where(is_greedy, tl.where(token == answer, weight, 0.0), child_weight(weight, p, q))
            row, last, depth = child + 1, child * 0 - 1, depth + 1
        elif going:
            last, token, depth = row - 1, entry_of(nodes, node, row - 1), depth - 1
            row = entry_of(parents, node, last) + 1
            weight = tl.load(rows_at + row)
            answer = tl.load(rows_at + slots + row).to(tl.int64)
            if is_greedy == 0:
                at = address(request * slots + row, vocab)
                total, has_more = take_out_token(
                    law_ptr + at, draft_law_ptr + at, token, weight, vocab, DRAFT, REPLACE, BLOCK
                )
                # q has nothing left to have drawn another child from
                weight, last = weight_after(weight, total), tl.where(has_more, last, NODES)
    is_bonus = last < 0
    if is_greedy == 0:
        p_at = law_ptr + address(request * slots + row, vocab)
        slot = row * 8 + tl.where(is_bonus, 3, 2)
        answer = race_law(p_at, keys_ptr, exponentials_ptr, request, 0, slot, vocab, GIVEN, BLOCK)
    store_outcome(
        num_accepted_ptr, is_bonus_ptr, next_token_ptr, emitted_ptr, path_ptr, request, slots, nodes, parents, node,
        row, depth, is_bonus, answer,
    )  # fmt: skip
