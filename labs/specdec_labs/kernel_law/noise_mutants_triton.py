"""Kernels with a mistake in their noise: read twice, or keyed by position.

Each is the real function but for one line (a test compares them). Imported only where Triton is installed, and run by
its interpreter: a compiled kernel would not notice that a helper was exchanged.
"""

# pyright: reportGeneralTypeIssues=false, reportOptionalOperand=false, reportArgumentType=false
import triton
import triton.language as tl

from specdec_kernels.philox_triton import exponential_of, key_words, uniform_of
from specdec_kernels.row_stats_triton import address


@triton.jit
def tile_exponentials(
    keys_ptr, exponentials_ptr, request, row, is_bonus, there, vocab, GIVEN: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The recovery reads the noise that drew the refused draft (purpose code 0 in place of 2)."""
    if GIVEN:
        tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        offsets = address(request, vocab)[:, None] + tokens[None, :]
        noise = tl.load(exponentials_ptr + offsets, mask=there[:, None] & (tokens < vocab)[None, :], other=1.0)
    else:
        at = keys_ptr + request * 3
        seed = tl.load(at, mask=there, other=0)[:, None]
        sample = tl.load(at + 1, mask=there, other=0)[:, None]
        length = tl.load(at + 2, mask=there, other=0)[:, None]
        # purpose codes of specdec_core.coins.noise: recover 2, bonus 3
        slot = (row * 8 + tl.where(is_bonus, 3, 0))[:, None]
        block = tl.program_id(1) * (BLOCK // 4) + tl.arange(0, BLOCK // 4)[None, :]
        zero = tl.zeros((ROWS, BLOCK // 4), dtype=tl.int64)
        w0, w1, w2, w3 = key_words(
            seed + zero, (length + zero), (sample + zero), (slot + zero), (block + zero).to(tl.uint32)
        )
        noise = exponential_of(tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3)))
    return noise


@triton.jit
def accept_uniforms(keys_ptr, uniforms_ptr, request, start, slot, inside, GIVEN: tl.constexpr):
    """The coin belongs to the position in the text: a refused position meets it again in the next round."""
    if GIVEN:
        u = tl.load(uniforms_ptr + start + slot, mask=inside, other=0.0)
    else:
        at = keys_ptr + request * 3
        seed = tl.load(at, mask=inside, other=0)
        sample = tl.load(at + 1, mask=inside, other=0)
        length = tl.load(at + 2, mask=inside, other=0)
        # purpose code of specdec_core.coins.noise: accept 1; word 0 of token 0
        word, _, _, _ = key_words(seed, length + slot, sample, slot * 0 + 1, (slot * 0).to(tl.uint32))
        u = uniform_of(word)
    return u
