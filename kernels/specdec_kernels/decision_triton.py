"""What every decision kernel needs: the mass of each draft, its uniform, and the way outcomes are written."""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.philox_triton import key_words, uniform_of
from specdec_kernels.row_stats_triton import (
    DRAFT_LOGITS,
    DRAFT_PROBS,
    address,
    load_scores,
    normaliser,
    shifted_exp,
    temperature_of,
)


@triton.jit
def accept_uniforms(keys_ptr, uniforms_ptr, request, start, slot, inside, GIVEN: tl.constexpr):
    """The uniform of each drafted slot; `request`, `start` and `slot` are tiles of one shape."""
    if GIVEN:
        u = tl.load(uniforms_ptr + start + slot, mask=inside, other=0.0)
    else:
        at = keys_ptr + request * 3
        seed = tl.load(at, mask=inside, other=0)
        sample = tl.load(at + 1, mask=inside, other=0)
        length = tl.load(at + 2, mask=inside, other=0)
        # purpose code of specdec_core.coins.noise: accept 1; word 0 of token 0
        word, _, _, _ = key_words(seed, length, sample, slot * 8 + 1, (slot * 0).to(tl.uint32))
        u = uniform_of(word)
    return u


@triton.jit
def draft_masses(
    draft_ptr, draft_at_token_ptr, draft_reads_ptr, offsets, entry, inside, d_max, d_sum, temperature,
    DRAFT: tl.constexpr, COUNT_READS: tl.constexpr,
):  # fmt: skip
    """q of each drafted token; 1 for a deterministic proposal."""
    if DRAFT == DRAFT_LOGITS:
        y = tl.load(draft_at_token_ptr + entry, mask=inside, other=float("-inf"))
        q = shifted_exp(y, d_max, temperature) / d_sum
    elif DRAFT == DRAFT_PROBS:
        q = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, 0.0, COUNT_READS)
    else:
        q = tl.where(inside, 1.0, 1.0)
    return q


@triton.jit
def store_prefix(emitted_ptr, num_accepted_ptr, is_bonus_ptr, request, there, slot, slots, kept, is_bonus, token):
    """Writes the outcome of each request, every place of it: the drafts kept, -1 behind them."""
    tl.store(num_accepted_ptr + request, kept.to(tl.int64), mask=there)
    tl.store(is_bonus_ptr + request, is_bonus, mask=there)
    at = (request * slots)[:, None] + slot[None, :]
    inside = there[:, None] & (slot < slots)[None, :]
    tl.store(emitted_ptr + at, tl.where(slot[None, :] < kept[:, None], token, -1), mask=inside)


@triton.jit
def pick(values, here):
    """The value of each request at the slot that `here` marks, from [ROWS, SLOTS] to [ROWS]."""
    return tl.sum(tl.where(here, values, 0), axis=1)


@triton.jit
def slot_masses(
    draft_ptr, draft_tokens_ptr, cu_num_draft_ptr, temperature_ptr, target_max_ptr, target_sum_ptr, target_arg_ptr,
    draft_max_ptr, draft_sum_ptr, target_at_token_ptr, draft_at_token_ptr, draft_reads_ptr, keys_ptr, uniforms_ptr,
    draft_stride, num_requests, slots, vocab, num_blocks, request, slot, DRAFT: tl.constexpr, GIVEN: tl.constexpr,
    COUNT_READS: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """What a decision needs of every (request, slot), as tiles [ROWS, SLOTS], from the blocks of local_stats_kernel.

    (token, whether it is a draft, is_greedy [ROWS], argmax, p, q, u, target m and S, draft m and S).
    """
    there = request < num_requests
    start = tl.load(cu_num_draft_ptr + request, mask=there, other=0)
    drafted = tl.load(cu_num_draft_ptr + request + 1, mask=there, other=0) - start
    one_temperature, is_greedy = temperature_of(temperature_ptr, request, there)
    temperature = one_temperature[:, None]
    entry = (request * slots)[:, None] + slot[None, :]
    live = there[:, None] & (slot[None, :] <= drafted[:, None]) & (slot[None, :] < slots)
    block = tl.arange(0, BLOCKS)[None, None, :]
    at = address(entry, num_blocks)[:, :, None] + block
    # a request with more drafts than there are slots is cut, so that nothing is written behind its row
    is_draft = live & (slot[None, :] < drafted[:, None]) & (slot[None, :] < slots - 1)
    token = tl.load(draft_tokens_ptr + start[:, None] + slot[None, :], mask=is_draft, other=-1)
    valid = (token >= 0) & (token < vocab)
    # behind padding nothing was written
    begun = tl.cumsum(tl.where(is_draft & (valid == 0), 1, 0), axis=1)
    live = live & ((begun == 0) | (is_draft & (valid == 0) & (begun == 1)))
    valid = valid & live

    inside = live[:, :, None] & (block < num_blocks)
    block_max, t_max, t_sum = normaliser(target_max_ptr, target_sum_ptr, at, inside, temperature[:, :, None])
    places = tl.load(target_arg_ptr + at, mask=inside, other=2147483647)
    argmax = tl.min(tl.where(block_max == t_max, places, 2147483647), axis=2)
    t_max = tl.reshape(t_max, (ROWS, SLOTS))
    x = tl.load(target_at_token_ptr + entry, mask=valid, other=float("-inf"))
    p = shifted_exp(x, t_max, temperature) / t_sum
    d_max, d_sum = t_max, t_sum
    # what a greedy request would need of its draft was never written
    sampled = valid & (is_greedy == 0)[:, None]
    if DRAFT == DRAFT_LOGITS:
        inside = inside & sampled[:, :, None]
        _, d_max, d_sum = normaliser(draft_max_ptr, draft_sum_ptr, at, inside, temperature[:, :, None])
        d_max = tl.reshape(d_max, (ROWS, SLOTS))
    offsets = address(start[:, None] + slot[None, :], draft_stride) + token
    q = draft_masses(
        draft_ptr, draft_at_token_ptr, draft_reads_ptr, offsets, entry, sampled, d_max, d_sum, temperature,
        DRAFT, COUNT_READS,
    )  # fmt: skip
    zero = slot[None, :] * 0 + request[:, None] * 0
    u = accept_uniforms(
        keys_ptr, uniforms_ptr, request[:, None] + zero, start[:, None] + zero, slot[None, :] + zero, sampled, GIVEN
    )
    return token, valid, is_greedy, argmax, p, q, u, t_max, t_sum, d_max, d_sum
