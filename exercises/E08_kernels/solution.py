"""E08: one Triton kernel.

Without a GPU the kernel runs in Triton's interpreter: set TRITON_INTERPRET=1 before triton is imported. `specdec check`
does that by itself; in a notebook it is the first cell's job.
"""

import triton
import triton.language as tl


# %% E08.excess: the residual of many rows in one launch
@triton.jit
def excess_kernel(p_ptr, q_ptr, out_ptr, vocab, BLOCK: tl.constexpr):
    """Row r of `out` becomes max(p - q, 0) of row r, divided by its sum; p itself where nothing is left.

    p, q, out: [rows, vocab] float32, rows side by side. Grid: (rows,), a program a row. BLOCK is a power of two and at
    least `vocab`: lanes from `vocab` on belong to no token, and nothing may be read or written there.
    """
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < vocab
    p = tl.load(p_ptr + row * vocab + lanes, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * vocab + lanes, mask=inside, other=0.0)
    excess = tl.maximum(p - q, 0.0)
    total = tl.sum(excess, axis=0)
    law = tl.where(total > 0, excess / tl.where(total > 0, total, 1.0), p)
    tl.store(out_ptr + row * vocab + lanes, law, mask=inside)
