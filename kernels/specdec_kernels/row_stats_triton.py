"""Rows of logits in two levels: what each block of the vocabulary contributes, and how blocks combine.

A row is never normalised in memory. A block leaves its largest logit m_b, the sum s_b of exp((x - m_b) / T) and the
place of m_b; the row's normaliser is m = max m_b and S = sum s_b exp((m_b - m) / T), and p(x) = exp((x - m) / T) / S.
Every function works on tiles [ROWS, BLOCK]: ROWS = 1 for a large vocabulary, many requests a program for a small one.
"""

# a kernel is not Python: types of its tensors exist only while it is compiled
# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false
import triton
import triton.language as tl

NO_DRAFT_ROWS = tl.constexpr(0)
DRAFT_LOGITS = tl.constexpr(1)
DRAFT_PROBS = tl.constexpr(2)
COUNT = tl.constexpr(1)  # of COUNT_READS: how often each score is read
MARK = tl.constexpr(2)  # and by which program of the launch
GREEDY_BELOW = tl.constexpr(1e-5)  # as specdec_core.warp.GREEDY_BELOW


@triton.jit
def address(row, stride):
    """Where a row starts, in elements, as int64: 14,135 rows of 151,936 logits pass 2^31."""
    return row.to(tl.int64) * stride


@triton.jit
def load_scores(scores_ptr, offsets, inside, reads_ptr, padding: tl.constexpr, COUNT_READS: tl.constexpr):
    """Scores in float32, `padding` outside.

    COUNT_READS is 0, COUNT (every element read is counted in `reads_ptr`) or MARK (the reading program's number, from
    1 on, is left there; in one launch no element is read by two programs).
    """
    if COUNT_READS == COUNT:
        tl.atomic_add(reads_ptr + offsets, 1, mask=inside)
    elif COUNT_READS == MARK:
        number = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1) + 1
        tl.store(reads_ptr + offsets, number, mask=inside)
    return tl.load(scores_ptr + offsets, mask=inside, other=padding).to(tl.float32)


@triton.jit
def shifted_exp(x, largest, temperature):
    """exp((x - largest) / temperature); 0 for x = -inf, also where the largest is -inf."""
    return tl.exp((x - tl.where(largest == float("-inf"), 0.0, largest)) / temperature)


@triton.jit
def temperature_of(temperature_ptr, request, there):
    """(temperature, is_greedy); a greedy row gets temperature 1, which nothing depends on."""
    temperature = tl.load(temperature_ptr + request, mask=there, other=1.0)
    is_greedy = temperature < GREEDY_BELOW
    return tl.where(is_greedy, 1.0, temperature), is_greedy


@triton.jit
def store_block_stats(max_ptr, sum_ptr, at, x, temperature, live):
    """Leaves (m_b, s_b) of a tile of scores at `at` [ROWS], and gives m_b."""
    largest = tl.max(x, axis=1)
    tl.store(max_ptr + at, largest, mask=live)
    tl.store(sum_ptr + at, tl.sum(shifted_exp(x, largest[:, None], temperature[:, None]), axis=1), mask=live)
    return largest


@triton.jit
def store_at_token(value_ptr, entry, x, tokens, wanted, live, BLOCK: tl.constexpr):
    """The program whose block holds the wanted token leaves its score, so that nobody reads it again."""
    is_wanted = tokens[None, :] == wanted[:, None]
    here = live & (wanted // BLOCK == tl.program_id(1)) & (wanted >= 0)
    tl.store(value_ptr + entry, tl.sum(tl.where(is_wanted, x, 0.0), axis=1), mask=here)


@triton.jit
def normaliser(max_ptr, sum_ptr, at, inside, temperature):
    """(m_b, m, S) of the rows whose blocks lie at `at`, blocks on the last axis; that axis is kept in m, not in S."""
    block_max = tl.load(max_ptr + at, mask=inside, other=float("-inf"))
    block_sum = tl.load(sum_ptr + at, mask=inside, other=0.0)
    largest = tl.max(block_max, axis=-1, keep_dims=True)
    total = tl.sum(block_sum * shifted_exp(block_max, largest, temperature), axis=-1)
    # nothing is there for a dead row: 1 keeps its division defined
    return block_max, largest, tl.where(total > 0, total, 1.0)


@triton.jit
def local_stats_kernel(
    target_ptr,  # [rows, vocab] logits; request b owns rows cu[b] + b .. cu[b + 1] + b
    draft_ptr,  # [drafts, vocab] logits; not read unless DRAFT is DRAFT_LOGITS
    draft_tokens_ptr,  # [drafts] int64
    cu_num_draft_ptr,  # [requests + 1] int64
    temperature_ptr,  # [requests] float32
    target_max_ptr,  # [requests * slots, blocks] float32, written; likewise the next four
    target_sum_ptr,
    target_arg_ptr,  # int32
    draft_max_ptr,
    draft_sum_ptr,
    target_at_token_ptr,  # [requests * slots] float32, written: the logit of the drafted token
    draft_at_token_ptr,
    target_reads_ptr,  # int32, laid out as the logits, or None: only with COUNT_READS
    draft_reads_ptr,
    target_stride,
    draft_stride,
    num_requests,
    slots,  # largest number of drafts, plus 1
    vocab,
    num_blocks,
    DRAFT: tl.constexpr,
    COUNT_READS: tl.constexpr,
    ROWS: tl.constexpr,
    SLOTS: tl.constexpr,  # slots, rounded up to a power of two
    BLOCK: tl.constexpr,
):
    """Grid: (ceil(requests * slots / ROWS), blocks). Reads each logit of a live row once, writes 20 bytes a block.

    A program owns BLOCK tokens of ROWS (request, slot) pairs. A slot behind the drafts, or behind padding, is dead.
    """
    entry = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    request, slot = entry // slots, entry % slots
    there = request < num_requests
    start = tl.load(cu_num_draft_ptr + request, mask=there, other=0)
    drafted = tl.load(cu_num_draft_ptr + request + 1, mask=there, other=0) - start
    place = tl.arange(0, SLOTS)[None, :]
    is_earlier = there[:, None] & (place < slot[:, None]) & (place < drafted[:, None])
    earlier = tl.load(draft_tokens_ptr + start[:, None] + place, mask=is_earlier, other=0)
    ended = tl.max(((earlier < 0) | (earlier >= vocab)).to(tl.int32), axis=1)
    live = there & (slot <= drafted) & (ended == 0)
    wanted = tl.load(draft_tokens_ptr + start + slot, mask=live & (slot < drafted), other=-1)
    temperature, is_greedy = temperature_of(temperature_ptr, request, there)
    tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = address(entry, num_blocks) + tl.program_id(1)

    inside = live[:, None] & (tokens < vocab)[None, :]
    offsets = address(start + request + slot, target_stride)[:, None] + tokens[None, :]
    x = load_scores(target_ptr, offsets, inside, target_reads_ptr, float("-inf"), COUNT_READS)
    largest = store_block_stats(target_max_ptr, target_sum_ptr, at, x, temperature, live)
    # a padding lane is -inf and comes last, so it can tie with a row's -inf but never be the lowest index
    first = tl.min(tl.where(x == largest[:, None], tokens[None, :], vocab - 1), axis=1)
    tl.store(target_arg_ptr + at, first, mask=live)
    store_at_token(target_at_token_ptr, entry, x, tokens, wanted, live, BLOCK)
    if DRAFT == DRAFT_LOGITS:
        # a greedy request never looks at its draft's law
        live = live & (slot < drafted) & (wanted >= 0) & (wanted < vocab) & (is_greedy == 0)
        inside = live[:, None] & (tokens < vocab)[None, :]
        offsets = address(start + slot, draft_stride)[:, None] + tokens[None, :]
        x = load_scores(draft_ptr, offsets, inside, draft_reads_ptr, float("-inf"), COUNT_READS)
        store_block_stats(draft_max_ptr, draft_sum_ptr, at, x, temperature, live)
        store_at_token(draft_at_token_ptr, entry, x, tokens, wanted, live, BLOCK)
