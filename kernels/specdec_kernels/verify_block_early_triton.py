"""Version 1 of block verification: one program a request scans the vocabulary for every prefix. No speed claims.

A target row is read three times before its excess is summed, and the row of the draw twice more.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.decision_triton import accept_uniforms
from specdec_kernels.row_stats_triton import DRAFT_LOGITS, NO_DRAFT_ROWS, address, shifted_exp, temperature_of
from specdec_kernels.verify_chain_early_triton import draft_law, race_row, scan_row


@triton.jit
def excess_of_row(
    target_ptr, draft_ptr, base, draft_base, vocab, weight, token, t_max, t_sum, d_max, d_sum, temperature,
    DRAFT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum of max(weight * p - q, 0) over the vocabulary."""
    total = temperature * 0.0
    lanes = tl.arange(0, BLOCK)
    for first in range(0, vocab, BLOCK):
        tokens = first + lanes
        inside = tokens < vocab
        x = tl.load(target_ptr + base + tokens, mask=inside, other=float("-inf")).to(tl.float32)
        p = shifted_exp(x, t_max, temperature) / t_sum
        if DRAFT == NO_DRAFT_ROWS:
            q = tl.where(tokens == token, 1.0, 0.0)
        else:
            q = draft_law(draft_ptr, draft_base, tokens, inside, d_max, d_sum, temperature, DRAFT)
        total += tl.sum(tl.maximum(weight * p - q, 0.0), axis=0)
    return total


@triton.jit
def row_laws(
    target_ptr, draft_ptr, base, draft_base, vocab, temperature, DRAFT: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """(target m and S, draft m and S, argmax) of one slot."""
    t_max, argmax, t_sum = scan_row(target_ptr, base, vocab, temperature, BLOCK)
    d_max, d_sum = t_max, t_sum
    if DRAFT == DRAFT_LOGITS:
        d_max, _, d_sum = scan_row(draft_ptr, draft_base, vocab, temperature, BLOCK)
    return t_max, t_sum, d_max, d_sum, argmax


@triton.jit
def finish_block_v1(
    target_ptr, draft_ptr, draft_tokens_ptr, keys_ptr, exponentials_ptr, num_accepted_ptr, is_bonus_ptr,
    next_token_ptr, emitted_ptr, target_stride, draft_stride, slots, vocab, request, start, kept, recovering, scale,
    temperature, is_greedy, DRAFT: tl.constexpr, GIVEN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Draws the token behind the kept prefix and writes the outcome."""
    refused = tl.load(draft_tokens_ptr + start + kept, mask=recovering, other=-1)
    base, draft_base = address(start + request + kept, target_stride), address(start + kept, draft_stride)
    t_max, answer, t_sum = scan_row(target_ptr, base, vocab, temperature, BLOCK)
    if is_greedy == 0:
        d_max, d_sum = t_max, t_sum
        if DRAFT == DRAFT_LOGITS:
            d_max, _, d_sum = scan_row(draft_ptr, draft_base, tl.where(recovering, vocab, 0), temperature, BLOCK)
            d_sum = tl.where(recovering, d_sum, 1.0)
        answer = race_row(
            target_ptr, draft_ptr, keys_ptr, exponentials_ptr, request, base, draft_base, vocab, kept, recovering,
            refused, scale, t_max, t_sum, d_max, d_sum, temperature, DRAFT, GIVEN, BLOCK,
        )  # fmt: skip
    tl.store(next_token_ptr + request, answer)
    tl.store(num_accepted_ptr + request, kept)
    tl.store(is_bonus_ptr + request, recovering == 0)
    for place in range(slots):
        token = tl.load(draft_tokens_ptr + start + place, mask=place < kept, other=-1)
        tl.store(emitted_ptr + request * slots + place, tl.where(place == kept, answer, token))


@triton.jit
def verify_block_v1_kernel(
    target_ptr, draft_ptr, draft_tokens_ptr, cu_num_draft_ptr, temperature_ptr, keys_ptr, uniforms_ptr,
    exponentials_ptr, num_accepted_ptr, is_bonus_ptr, next_token_ptr, emitted_ptr, target_stride, draft_stride,
    slots, vocab, DRAFT: tl.constexpr, GIVEN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Grid: (requests,). Walks up through the weights; keeps the last prefix that passed. Arguments as in chain v1."""
    request = tl.program_id(0).to(tl.int64)
    start = tl.load(cu_num_draft_ptr + request)
    most = tl.minimum(tl.load(cu_num_draft_ptr + request + 1) - start, slots - 1)
    temperature, is_greedy = temperature_of(temperature_ptr, request, request >= 0)
    slot = start * 0
    kept = start * 0
    weight = temperature * 0.0 + 1.0
    scale = weight
    greedy_on = slot >= 0
    recovering = slot < 0
    going = slot < most
    while going:
        token = tl.load(draft_tokens_ptr + start + slot)
        if (token >= 0) & (token < vocab):
            base, draft_base = address(start + request + slot, target_stride), address(start + slot, draft_stride)
            t_max, t_sum, d_max, d_sum, argmax = row_laws(
                target_ptr, draft_ptr, base, draft_base, vocab, temperature, DRAFT, BLOCK
            )
            p = shifted_exp(tl.load(target_ptr + base + token).to(tl.float32), t_max, temperature) / t_sum
            q = p * 0.0 + 1.0
            if DRAFT != NO_DRAFT_ROWS:
                q = draft_law(draft_ptr, draft_base, token, token >= 0, d_max, d_sum, temperature, DRAFT)
            total = excess_of_row(
                target_ptr, draft_ptr, base, draft_base, vocab, weight, token, t_max, t_sum, d_max, d_sum,
                temperature, DRAFT, BLOCK,
            )  # fmt: skip
            # prefix `slot` is judged with the coin of its last draft; the empty prefix always passes
            u = accept_uniforms(keys_ptr, uniforms_ptr, request, start, tl.maximum(slot - 1, 0), slot >= 0, GIVEN)
            passes = (slot == 0) | (u * (total + (1.0 - weight)) < total)
            greedy_on = greedy_on & (token == argmax)
            kept = tl.where(is_greedy, kept + greedy_on.to(tl.int64), tl.where(passes, slot, kept))
            scale = tl.where(passes, weight, scale)
            mass = weight * p
            weight = tl.where(mass >= q, tl.where(mass > 0, 1.0, 0.0), mass / tl.where(mass < q, q, 1.0))
            slot += 1
            going = slot < most
        else:
            going = slot < 0
    # the whole draft has a coin too, and its prefix is the longest
    u = accept_uniforms(keys_ptr, uniforms_ptr, request, start, tl.maximum(slot - 1, 0), slot > 0, GIVEN)
    keeps_all = (slot == 0) | (u < weight)
    kept = tl.where(is_greedy, kept, tl.where(keeps_all, slot, kept))
    recovering = kept < slot
    finish_block_v1(
        target_ptr, draft_ptr, draft_tokens_ptr, keys_ptr, exponentials_ptr, num_accepted_ptr, is_bonus_ptr,
        next_token_ptr, emitted_ptr, target_stride, draft_stride, slots, vocab, request, start, kept, recovering, scale,
        temperature, is_greedy, DRAFT, GIVEN, BLOCK,
    )  # fmt: skip
