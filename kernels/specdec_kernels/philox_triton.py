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


@triton.jit
def key_words(seed, length, request, slot, block):
    """`token_words` where every argument is a tile of one shape, the seed's 64 bits in an int64."""
    return tl.philox(seed.to(tl.uint64), block, length.to(tl.uint32), request.to(tl.uint32), slot.to(tl.uint32))


@triton.jit
def uniform_of(word):
    """The uniform of an accept, k / 2^32, in float32; below 1, so that u * q < q."""
    return tl.minimum(word.to(tl.float32) * (1.0 / 4294967296.0), 1.0 - 1.0 / 16777216.0)


@triton.jit
def exponential_of(word):
    """-log1p(-u) with u = (k + 1/2) / 2^32, at most 1 - 2^-24: float32, with a relative error of a few 2^-24.

    Below 1/4 the logarithm of a number near 1 would lose the digits of u: there it is 2 atanh(u / (2 - u)), whose
    series is cut at a relative 4e-8. Above, 1 - u is taken from the complement of k, exactly.
    """
    u = (word.to(tl.float32) + 0.5) * (1.0 / 4294967296.0)
    s = u / (2.0 - u)
    square = s * s
    near_zero = 2.0 * s * (1.0 + square * (1.0 / 3 + square * (1.0 / 5 + square * (1.0 / 7 + square * (1.0 / 9)))))
    rest = ((word ^ 0xFFFFFFFF).to(tl.float32) + 0.5) * (1.0 / 4294967296.0)
    return tl.where(u < 0.25, near_zero, -tl.log(tl.maximum(rest, 1.0 / 16777216.0)))


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
