"""Typical wrong answers to E08.excess. Each is the smallest change to the solution that makes the mistake."""

import triton
import triton.language as tl

from specdec_labs.grade.zoo import WrongAnswer


def _kernel(answer: object, name: str, caught_by: str, says: str) -> WrongAnswer:
    return WrongAnswer(
        name=name, task="E08.excess", replaces="excess_kernel", caught_by=caught_by, says=says, answer=answer
    )


def plain_function(p_ptr, q_ptr, out_ptr, vocab, BLOCK):
    """The residual of the first row, on the host."""
    excess = (p_ptr[:vocab] - q_ptr[:vocab]).clamp(min=0)
    out_ptr[:vocab] = excess / excess.sum()


@triton.jit
def not_normalised(p_ptr, q_ptr, out_ptr, vocab, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    inside = lanes < vocab
    p = tl.load(p_ptr + row * vocab + lanes, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * vocab + lanes, mask=inside, other=0.0)
    excess = tl.maximum(p - q, 0.0)
    tl.store(out_ptr + row * vocab + lanes, tl.where(tl.sum(excess, axis=0) > 0, excess, p), mask=inside)


@triton.jit
def both_sides(p_ptr, q_ptr, out_ptr, vocab, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    inside = lanes < vocab
    p = tl.load(p_ptr + row * vocab + lanes, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * vocab + lanes, mask=inside, other=0.0)
    excess = tl.abs(p - q)
    total = tl.sum(excess, axis=0)
    law = tl.where(total > 0, excess / tl.where(total > 0, total, 1.0), p)
    tl.store(out_ptr + row * vocab + lanes, law, mask=inside)


@triton.jit
def loads_without_a_mask(p_ptr, q_ptr, out_ptr, vocab, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    p = tl.load(p_ptr + row * vocab + lanes)
    q = tl.load(q_ptr + row * vocab + lanes)
    excess = tl.maximum(p - q, 0.0)
    total = tl.sum(excess, axis=0)
    law = tl.where(total > 0, excess / tl.where(total > 0, total, 1.0), p)
    tl.store(out_ptr + row * vocab + lanes, law, mask=lanes < vocab)


@triton.jit
def forgets_the_row(p_ptr, q_ptr, out_ptr, vocab, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    inside = lanes < vocab
    p = tl.load(p_ptr + lanes, mask=inside, other=0.0)
    q = tl.load(q_ptr + lanes, mask=inside, other=0.0)
    excess = tl.maximum(p - q, 0.0)
    total = tl.sum(excess, axis=0)
    law = tl.where(total > 0, excess / tl.where(total > 0, total, 1.0), p)
    tl.store(out_ptr + lanes, law, mask=inside)


@triton.jit
def strides_by_the_block(p_ptr, q_ptr, out_ptr, vocab, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    inside = (lanes < vocab) & (row * BLOCK + lanes < tl.num_programs(0) * vocab)
    p = tl.load(p_ptr + row * BLOCK + lanes, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * BLOCK + lanes, mask=inside, other=0.0)
    excess = tl.maximum(p - q, 0.0)
    total = tl.sum(excess, axis=0)
    law = tl.where(total > 0, excess / tl.where(total > 0, total, 1.0), p)
    tl.store(out_ptr + row * BLOCK + lanes, law, mask=inside)


@triton.jit
def divides_by_zero(p_ptr, q_ptr, out_ptr, vocab, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    inside = lanes < vocab
    p = tl.load(p_ptr + row * vocab + lanes, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * vocab + lanes, mask=inside, other=0.0)
    excess = tl.maximum(p - q, 0.0)
    total = tl.sum(excess, axis=0)
    # what 0/0 becomes on a GPU; the interpreter would warn
    law = tl.where(total > 0, excess / tl.where(total > 0, total, 1.0), float("nan"))
    tl.store(out_ptr + row * vocab + lanes, law, mask=inside)


@triton.jit
def stores_without_a_mask(p_ptr, q_ptr, out_ptr, vocab, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    inside = lanes < vocab
    p = tl.load(p_ptr + row * vocab + lanes, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * vocab + lanes, mask=inside, other=0.0)
    excess = tl.maximum(p - q, 0.0)
    total = tl.sum(excess, axis=0)
    law = tl.where(total > 0, excess / tl.where(total > 0, total, 1.0), p)
    tl.store(out_ptr + row * vocab + lanes, law)


PLAIN_FUNCTION = _kernel(
    plain_function,
    "plain_function",
    "is_a_kernel",
    "this is a function of tensors. The task asks for a kernel: @triton.jit, pointers, one program a row.",
)
NOT_NORMALISED = _kernel(
    not_normalised, "not_normalised", "row_is_the_residual", "your rows sum to beta; divide by their sum."
)
BOTH_SIDES = _kernel(
    both_sides,
    "both_sides",
    "row_is_the_residual",
    "your kernel spreads |p - q|: tokens with p < q must get nothing. tl.maximum(p - q, 0).",
)
NO_LOAD_MASK = _kernel(
    loads_without_a_mask,
    "loads_without_a_mask",
    "padding_lanes_stay_out",
    "your loads have no mask: the lanes behind the row read what lies there, and the sum counts it.",
)
NO_ROW = _kernel(
    forgets_the_row,
    "forgets_the_row",
    "rows_are_their_own",
    "every program of yours works on the first row: add row * vocab to the pointers.",
)
BLOCK_STRIDE = _kernel(
    strides_by_the_block,
    "strides_by_the_block",
    "rows_are_their_own",
    "your rows lie BLOCK apart; in memory they lie `vocab` apart, side by side.",
)
NAN = _kernel(
    divides_by_zero,
    "divides_by_zero",
    "equal_laws_fall_back_to_p",
    "where p = q your row is 0/0, NaN. Guard the divisor and put p there.",
)
NO_STORE_MASK = _kernel(
    stores_without_a_mask,
    "stores_without_a_mask",
    "writes_nothing_else",
    "your store has no mask: it writes behind the row, into the next one or into somebody else's memory.",
)
