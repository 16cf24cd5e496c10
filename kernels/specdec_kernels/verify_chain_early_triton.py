"""Versions 1 and 2 of chain verification: where version 3 comes from. They have no speed claims.

v1  One program a request scans the vocabulary for every draft in turn: three passes over a target row (largest, sum,
    race), two over a draft row and one more for the race. At batch 1 a single multiprocessor reads everything.
v2  `local_stats_kernel` reads all rows in parallel, once; then one program a request walks its drafts, combining the
    blocks of one row after the other; `race_kernel` and `finish_kernel` draw. Each step of the walk waits for memory.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.decision_triton import accept_uniforms
from specdec_kernels.philox_triton import exponential_of, key_words
from specdec_kernels.race_triton import BONUS, GREEDY, RECOVER, store_plan
from specdec_kernels.row_stats_triton import (
    DRAFT_LOGITS,
    DRAFT_PROBS,
    NO_DRAFT_ROWS,
    address,
    normaliser,
    shifted_exp,
    temperature_of,
)


@triton.jit
def scan_row(scores_ptr, base, vocab, temperature, BLOCK: tl.constexpr):
    """(largest, its lowest index, sum of exponentials) of the row that starts at `base`, block after block."""
    lanes = tl.arange(0, BLOCK)
    largest = temperature * 0.0 - float("inf")
    place = base * 0 + vocab - 1
    for first in range(0, vocab, BLOCK):
        tokens = first + lanes
        x = tl.load(scores_ptr + base + tokens, mask=tokens < vocab, other=float("-inf")).to(tl.float32)
        here = tl.max(x, axis=0)
        index = tl.min(tl.where(x == here, tokens, vocab - 1), axis=0)
        place = tl.where(here > largest, index.to(tl.int64), place)
        largest = tl.maximum(largest, here)
    total = temperature * 0.0
    for first in range(0, vocab, BLOCK):
        tokens = first + lanes
        x = tl.load(scores_ptr + base + tokens, mask=tokens < vocab, other=float("-inf")).to(tl.float32)
        total += tl.sum(shifted_exp(x, largest, temperature), axis=0)
    return largest, place, total


@triton.jit
def draft_law(draft_ptr, base, tokens, inside, d_max, d_sum, temperature, DRAFT: tl.constexpr):
    """q of a tile of tokens from the draft row at `base`."""
    if DRAFT == DRAFT_PROBS:
        q = tl.load(draft_ptr + base + tokens, mask=inside, other=0.0).to(tl.float32)
    else:
        y = tl.load(draft_ptr + base + tokens, mask=inside, other=float("-inf")).to(tl.float32)
        q = shifted_exp(y, d_max, temperature) / d_sum
    return q


@triton.jit
def row_noise(
    keys_ptr, exponentials_ptr, request, ahead, slot, tokens, inside, vocab, GIVEN: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The exponentials of some tokens for one draw: `slot` is node * 8 + purpose, `ahead` is added to the length."""
    if GIVEN:
        noise = tl.load(exponentials_ptr + address(request, vocab) + tokens, mask=inside, other=1.0)
    else:
        zero = tl.zeros((BLOCK,), dtype=tl.int64)
        seed, sample = tl.load(keys_ptr + request * 3) + zero, tl.load(keys_ptr + request * 3 + 1) + zero
        length = tl.load(keys_ptr + request * 3 + 2) + ahead + zero
        w0, w1, w2, w3 = key_words(seed, length, sample, slot + zero, (tokens // 4).to(tl.uint32))
        part = tokens % 4
        noise = exponential_of(tl.where(part == 0, w0, tl.where(part == 1, w1, tl.where(part == 2, w2, w3))))
    return noise


@triton.jit
def race_row(
    target_ptr, draft_ptr, keys_ptr, exponentials_ptr, request, base, draft_base, vocab, row, recovering, refused,
    scale, t_max, t_sum, d_max, d_sum, temperature, DRAFT: tl.constexpr, GIVEN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The winner of the race over one row; of p alone when no other weight is positive."""
    lanes = tl.arange(0, BLOCK)
    best = temperature * 0.0 - 1.0
    best_of_p = temperature * 0.0 - 1.0
    winner = base * 0
    fallback = base * 0
    for first in range(0, vocab, BLOCK):
        tokens = first + lanes
        inside = tokens < vocab
        x = tl.load(target_ptr + base + tokens, mask=inside, other=float("-inf")).to(tl.float32)
        p = shifted_exp(x, t_max, temperature) / t_sum
        if DRAFT == NO_DRAFT_ROWS:
            weights = tl.where(recovering & (tokens == refused), 0.0, p)
        else:
            q = draft_law(draft_ptr, draft_base, tokens, inside & recovering, d_max, d_sum, temperature, DRAFT)
            weights = tl.where(recovering, scale * p - q, p)
        noise = row_noise(
            keys_ptr, exponentials_ptr, request, 0, row * 8 + tl.where(recovering, 2, 3), tokens, inside, vocab,
            GIVEN, BLOCK,
        )  # fmt: skip
        score = tl.where(weights > 0, weights / noise, -1.0)
        here = tl.max(score, axis=0)
        winner = tl.where(here > best, tl.min(tl.where(score == here, tokens, vocab), axis=0).to(tl.int64), winner)
        best = tl.maximum(best, here)
        score = tl.where(p > 0, p / noise, -1.0)
        here = tl.max(score, axis=0)
        first_of_p = tl.min(tl.where(score == here, tokens, vocab), axis=0).to(tl.int64)
        fallback = tl.where(here > best_of_p, first_of_p, fallback)
        best_of_p = tl.maximum(best_of_p, here)
    return tl.where(best >= 0, winner, fallback)


@triton.jit
def keeps_draft(
    target_ptr, draft_ptr, keys_ptr, uniforms_ptr, request, start, slot, token, base, draft_base, vocab,
    temperature, is_greedy, DRAFT: tl.constexpr, GIVEN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Whether v1 keeps the draft at `slot`."""
    t_max, argmax, t_sum = scan_row(target_ptr, base, vocab, temperature, BLOCK)
    x = tl.load(target_ptr + base + token).to(tl.float32)
    p = shifted_exp(x, t_max, temperature) / t_sum
    if DRAFT == NO_DRAFT_ROWS:
        q = p * 0.0 + 1.0
    else:
        d_max, d_sum = t_max, t_sum
        if DRAFT == DRAFT_LOGITS:
            d_max, _, d_sum = scan_row(draft_ptr, draft_base, vocab, temperature, BLOCK)
        q = draft_law(draft_ptr, draft_base, token, token >= 0, d_max, d_sum, temperature, DRAFT)
    u = accept_uniforms(keys_ptr, uniforms_ptr, request, start, slot, slot >= 0, GIVEN)
    return tl.where(is_greedy, token == argmax, u * q < p)


@triton.jit
def verify_chain_v1_kernel(
    target_ptr, draft_ptr, draft_tokens_ptr, cu_num_draft_ptr, temperature_ptr, keys_ptr, uniforms_ptr,
    exponentials_ptr, num_accepted_ptr, is_bonus_ptr, next_token_ptr, emitted_ptr, target_stride, draft_stride,
    slots, vocab, DRAFT: tl.constexpr, GIVEN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """v1. Grid: (requests,). Arguments as in local_stats_kernel, decide_chain_kernel and race_kernel."""
    request = tl.program_id(0).to(tl.int64)
    start = tl.load(cu_num_draft_ptr + request)
    drafted = tl.minimum(tl.load(cu_num_draft_ptr + request + 1) - start, slots - 1)
    temperature, is_greedy = temperature_of(temperature_ptr, request, request >= 0)
    kept = start * 0
    going = kept < drafted
    refused = start * 0 - 1
    while going:
        token = tl.load(draft_tokens_ptr + start + kept)
        valid = (token >= 0) & (token < vocab)
        keep = valid
        if valid:
            keep = keeps_draft(
                target_ptr, draft_ptr, keys_ptr, uniforms_ptr, request, start, kept, token,
                address(start + request + kept, target_stride), address(start + kept, draft_stride), vocab,
                temperature, is_greedy, DRAFT, GIVEN, BLOCK,
            )  # fmt: skip
        refused = tl.where(valid & (keep == 0), token, refused)
        tl.store(emitted_ptr + request * slots + kept, token, mask=keep)
        kept += keep.to(tl.int64)
        going = keep & (kept < drafted)
    base, draft_base = address(start + request + kept, target_stride), address(start + kept, draft_stride)
    t_max, answer, t_sum = scan_row(target_ptr, base, vocab, temperature, BLOCK)
    recovering = refused >= 0
    if is_greedy == 0:
        d_max, d_sum = t_max, t_sum
        if DRAFT == DRAFT_LOGITS:
            # behind the last draft there is no draft row: an empty vocabulary is scanned instead
            d_max, _, d_sum = scan_row(draft_ptr, draft_base, tl.where(recovering, vocab, 0), temperature, BLOCK)
            d_sum = tl.where(recovering, d_sum, 1.0)
        answer = race_row(
            target_ptr, draft_ptr, keys_ptr, exponentials_ptr, request, base, draft_base, vocab, kept, recovering,
            refused, 1.0, t_max, t_sum, d_max, d_sum, temperature, DRAFT, GIVEN, BLOCK,
        )  # fmt: skip
    tl.store(next_token_ptr + request, answer)
    tl.store(num_accepted_ptr + request, kept)
    tl.store(is_bonus_ptr + request, recovering == 0)
    tl.store(emitted_ptr + request * slots + kept, answer)
    for place in range(kept + 1, slots):
        tl.store(emitted_ptr + request * slots + place, -1)


@triton.jit
def decide_chain_v2_kernel(
    draft_ptr, draft_tokens_ptr, cu_num_draft_ptr, temperature_ptr, target_max_ptr, target_sum_ptr, target_arg_ptr,
    draft_max_ptr, draft_sum_ptr, target_at_token_ptr, draft_at_token_ptr, keys_ptr, uniforms_ptr, plan_ints_ptr,
    plan_floats_ptr, num_accepted_ptr, is_bonus_ptr, emitted_ptr, draft_stride, slots, vocab, num_blocks,
    DRAFT: tl.constexpr, GIVEN: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """v2. Grid: (requests,). Arguments as in decide_chain_kernel."""
    request = tl.program_id(0).to(tl.int64)
    block = tl.arange(0, BLOCKS)
    start = tl.load(cu_num_draft_ptr + request)
    drafted = tl.minimum(tl.load(cu_num_draft_ptr + request + 1) - start, slots - 1)
    temperature, is_greedy = temperature_of(temperature_ptr, request, request >= 0)
    kept = start * 0
    going = kept >= 0
    recovering = kept < 0
    t_max, t_sum, d_max, d_sum = temperature, temperature, temperature, temperature
    last = start * 0
    while going:
        entry = request * slots + kept
        at, inside = address(entry, num_blocks) + block, block < num_blocks
        block_max, row_max, t_sum = normaliser(target_max_ptr, target_sum_ptr, at, inside, temperature)
        t_max = tl.max(row_max, axis=0)
        places = tl.load(target_arg_ptr + at, mask=inside, other=2147483647)
        argmax = tl.min(tl.where(block_max == row_max, places, 2147483647), axis=0)
        token = tl.load(draft_tokens_ptr + start + kept, mask=kept < drafted, other=-1)
        valid = (token >= 0) & (token < vocab)
        sampled = valid & (is_greedy == 0)
        p = (
            shifted_exp(tl.load(target_at_token_ptr + entry, mask=valid, other=float("-inf")), t_max, temperature)
            / t_sum
        )
        q = p * 0.0 + 1.0
        if DRAFT == DRAFT_LOGITS:
            _, row_max, d_sum = normaliser(draft_max_ptr, draft_sum_ptr, at, inside & sampled, temperature)
            d_max = tl.max(row_max, axis=0)
            y = tl.load(draft_at_token_ptr + entry, mask=sampled, other=float("-inf"))
            q = shifted_exp(y, d_max, temperature) / d_sum
        elif DRAFT == DRAFT_PROBS:
            q = tl.load(draft_ptr + address(start + kept, draft_stride) + token, mask=sampled, other=0.0).to(tl.float32)
        u = accept_uniforms(keys_ptr, uniforms_ptr, request, start, kept, sampled, GIVEN)
        keep = valid & tl.where(is_greedy, token == argmax, u * q < p)
        recovering = valid & (keep == 0)
        last = tl.where(is_greedy, argmax.to(tl.int64), token)
        tl.store(emitted_ptr + request * slots + kept, token, mask=keep)
        kept += keep.to(tl.int64)
        going = keep
    for place in range(kept, slots):
        tl.store(emitted_ptr + request * slots + place, -1)
    tl.store(num_accepted_ptr + request, kept)
    tl.store(is_bonus_ptr + request, recovering == 0)
    mode = tl.where(is_greedy, GREEDY, tl.where(recovering, RECOVER, BONUS))
    store_plan(
        plan_ints_ptr, plan_floats_ptr, request, request >= 0, kept.to(tl.int32), mode, last.to(tl.int32), 1.0,
        t_max, t_sum, d_max, d_sum,
    )  # fmt: skip
