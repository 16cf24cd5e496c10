"""Philox 4x32-10 words of a whole vocabulary, in Triton. Imported only where Triton is installed.

Reads nothing and writes 4 bytes a token: the key is a handful of scalars, so the kernel is bound by its stores.
"""

# a kernel is not Python: types of its tensors exist only while it is compiled
# pyright: reportGeneralTypeIssues=false
import triton
import triton.language as tl


@triton.jit
def token_words(seed_lo, seed_hi, length, request, slot, block):
    """Four uint32 words for each counter in `block` (uint32): those of the tokens 4 * block .. 4 * block + 3.

    The scalars are the key of `specdec_core.coins.noise.NoiseKey`; `slot` is node * 8 + purpose code.
    """
    seed = (seed_hi.to(tl.uint64) << 32) | seed_lo.to(tl.uint64)
    zero = block * 0
    return tl.philox(seed, block, zero + length.to(tl.uint32), zero + request.to(tl.uint32), zero + slot.to(tl.uint32))


# every scalar changes from round to round: specialising on a value (1, a multiple of 16) would compile again
@triton.jit(do_not_specialize=["seed_lo", "seed_hi", "length", "request", "slot", "num_tokens"])
def noise_words_kernel(
    words_ptr,  # [num_tokens] uint32, written
    seed_lo,
    seed_hi,
    length,
    request,
    slot,
    num_tokens,
    BLOCK: tl.constexpr,  # counters a program owns; it writes the words of 4 * BLOCK tokens
):
    """Grid: (ceil(num_tokens / (4 * BLOCK)),)."""
    program = tl.program_id(0)
    block = (program * BLOCK + tl.arange(0, BLOCK)).to(tl.uint32)
    w0, w1, w2, w3 = token_words(seed_lo, seed_hi, length, request, slot, block)
    # interleaving twice puts word j of counter i at 4 * i + j, so one contiguous store writes the tokens in order
    words = tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3))
    tokens = program.to(tl.int64) * (4 * BLOCK) + tl.arange(0, 4 * BLOCK)
    tl.store(words_ptr + tokens, words, mask=tokens < num_tokens)
