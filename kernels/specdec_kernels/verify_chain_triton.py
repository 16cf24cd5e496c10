"""The decision of chain verification, version 3: all drafts of a request are judged at once.

The first refusal is a minimum over the drafts, so nothing is walked; ROWS requests share a program. Before it runs
`local_stats_kernel`, after it `race_kernel` and `finish_kernel`. Versions 1 and 2 are in `verify_chain_early_triton`.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

from specdec_kernels.decision_triton import pick, slot_masses, store_prefix
from specdec_kernels.race_triton import BONUS, GREEDY, RECOVER, store_plan


@triton.jit
def decide_chain_kernel(
    draft_ptr,  # [drafts, vocab] probabilities; read only when DRAFT is DRAFT_PROBS
    draft_tokens_ptr,  # [drafts] int64
    cu_num_draft_ptr,
    temperature_ptr,
    target_max_ptr,  # what local_stats_kernel wrote, likewise the next six
    target_sum_ptr,
    target_arg_ptr,
    draft_max_ptr,
    draft_sum_ptr,
    target_at_token_ptr,
    draft_at_token_ptr,
    draft_reads_ptr,
    keys_ptr,  # [requests, 3] int64
    uniforms_ptr,  # [drafts] float32; read only when GIVEN
    plan_ints_ptr,  # written, for race_kernel
    plan_floats_ptr,
    num_accepted_ptr,  # [requests] int64, written
    is_bonus_ptr,  # [requests] bool, written
    emitted_ptr,  # [requests, slots] int64, written
    draft_stride,
    num_requests,
    slots,
    vocab,
    num_blocks,
    DRAFT: tl.constexpr,
    GIVEN: tl.constexpr,
    COUNT_READS: tl.constexpr,
    ROWS: tl.constexpr,
    SLOTS: tl.constexpr,  # slots, rounded up to a power of two
    BLOCKS: tl.constexpr,  # num_blocks, likewise
):
    """v3. Grid: (ceil(requests / ROWS),). Reads 20 bytes a (slot, block); tiles are [ROWS, SLOTS, BLOCKS]."""
    request = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    slot = tl.arange(0, SLOTS)
    there = request < num_requests
    token, valid, is_greedy, argmax, p, q, u, t_max, t_sum, d_max, d_sum = slot_masses(
        draft_ptr, draft_tokens_ptr, cu_num_draft_ptr, temperature_ptr, target_max_ptr, target_sum_ptr,
        target_arg_ptr, draft_max_ptr, draft_sum_ptr, target_at_token_ptr, draft_at_token_ptr, draft_reads_ptr,
        keys_ptr, uniforms_ptr, draft_stride, num_requests, slots, vocab, num_blocks, request, slot, DRAFT, GIVEN,
        COUNT_READS, ROWS, SLOTS, BLOCKS,
    )  # fmt: skip
    keep = valid & tl.where(is_greedy[:, None], token == argmax, u * q < p)

    kept = tl.min(tl.where(keep, SLOTS, slot[None, :]), axis=1)
    here = slot[None, :] == kept[:, None]
    is_bonus = pick(valid.to(tl.int32), here) == 0
    store_prefix(emitted_ptr, num_accepted_ptr, is_bonus_ptr, request, there, slot, slots, kept, is_bonus, token)
    mode = tl.where(is_greedy, GREEDY, tl.where(is_bonus, BONUS, RECOVER))
    last = pick(tl.where(is_greedy[:, None], argmax, token.to(tl.int32)), here)
    store_plan(
        plan_ints_ptr, plan_floats_ptr, request, there, kept, mode, last, 1.0, pick(t_max, here), pick(t_sum, here),
        pick(d_max, here), pick(d_sum, here),
    )  # fmt: skip
