"""E02: the bandwidth wall. What a forward pass waits for, and how many tokens it takes for free.

Units: flops, bytes, flops per second, bytes per second, seconds.
"""


# %% E02.memory_bound: what a pass waits for
def pass_seconds(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> float:
    """Seconds of a pass that does `flops` and moves `bytes_moved`, both at full rate and at the same time.

    >>> pass_seconds(2.0, 6.0, 4.0, 3.0)
    2.0
    """
    return max(flops / peak_flops, bytes_moved / bandwidth)


# Speculation gains more where decoding is "memory-bound" or where it is "compute-bound"?
GAINS_MORE = "memory-bound"


# %% E02.ridge: how many tokens a pass takes for free
def ridge_tokens(peak_flops: float, bandwidth: float, bytes_per_weight: float) -> float:
    """Tokens per pass at which the arithmetic of the weights takes as long as reading them; not rounded.

    Each token costs 2 flops a weight (multiply and add); the weights are read once a pass, however many tokens it has.

    >>> ridge_tokens(8.0, 1.0, 2)
    8.0
    """
    return peak_flops * bytes_per_weight / (2 * bandwidth)
