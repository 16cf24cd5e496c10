"""Typical wrong answers to E02.memory_bound."""

from specdec_labs.grade.zoo import WrongAnswer, wrong


@wrong(
    "E02.memory_bound",
    "pass_seconds",
    "overlaps_at_the_ridge",
    "your function adds the two times. A GPU reads the next weights while it multiplies with the last ones: the pass "
    "takes the larger of the two.",
)
def adds_the_times(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> float:
    return flops / peak_flops + bytes_moved / bandwidth


@wrong(
    "E02.memory_bound",
    "pass_seconds",
    "waits_for_memory",
    "your function returns the smaller of the two times; the pass is over when the slower one is.",
)
def takes_the_faster(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> float:
    return min(flops / peak_flops, bytes_moved / bandwidth)


@wrong(
    "E02.memory_bound",
    "pass_seconds",
    "waits_for_memory",
    "your function counts the arithmetic alone, as if memory were free. For one token at a time it is the memory that "
    "takes the time.",
)
def arithmetic_alone(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> float:
    return flops / peak_flops


@wrong(
    "E02.memory_bound",
    "pass_seconds",
    "waits_for_arithmetic",
    "your function counts the bytes alone. With enough tokens in a pass the arithmetic takes longer than the reading.",
)
def memory_alone(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> float:
    return bytes_moved / bandwidth


@wrong(
    "E02.memory_bound",
    "pass_seconds",
    "waits_for_memory",
    "your function returns milliseconds; seconds are asked for.",
)
def in_milliseconds(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> float:
    return 1000 * max(flops / peak_flops, bytes_moved / bandwidth)


COMPUTE_BOUND = WrongAnswer(
    name="says_compute_bound",
    task="E02.memory_bound",
    replaces="GAINS_MORE",
    caught_by="names_the_regime",
    says="in a compute-bound pass every extra token costs its full share of time, so five tokens take five times as "
    "long as one. In a memory-bound pass they ride along while the weights are read.",
    answer="compute-bound",
)
