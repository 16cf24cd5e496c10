"""Typical wrong answers to E02.ridge."""

import math

from specdec_labs.grade.zoo import wrong


@wrong(
    "E02.ridge",
    "ridge_tokens",
    "balances_16_bit_weights",
    "your function counts one flop a weight. A multiply-add is two, and peak rates of data sheets count both.",
)
def one_flop_a_weight(peak_flops: float, bandwidth: float, bytes_per_weight: float) -> float:
    return peak_flops * bytes_per_weight / bandwidth


@wrong(
    "E02.ridge",
    "ridge_tokens",
    "balances_other_widths",
    "your function returns peak / bandwidth, flops per byte. With weights of 2 bytes and 2 flops a weight that happens "
    "to be the number of tokens; with any other width it is not.",
)
def flops_per_byte(peak_flops: float, bandwidth: float, bytes_per_weight: float) -> float:
    return peak_flops / bandwidth


@wrong(
    "E02.ridge",
    "ridge_tokens",
    "balances_16_bit_weights",
    "your ratio is upside down: a faster memory should bring the ridge nearer, a faster chip should move it away.",
)
def upside_down(peak_flops: float, bandwidth: float, bytes_per_weight: float) -> float:
    return bandwidth * bytes_per_weight / (2 * peak_flops)


@wrong(
    "E02.ridge",
    "ridge_tokens",
    "balances_16_bit_weights",
    "your function divides by the bytes of a weight. Smaller weights are read sooner, so fewer tokens fit in "
    "that time.",
)
def divides_by_the_width(peak_flops: float, bandwidth: float, bytes_per_weight: float) -> float:
    return peak_flops / (2 * bandwidth * bytes_per_weight)


@wrong(
    "E02.ridge",
    "ridge_tokens",
    "is_not_rounded",
    "your function rounds to a whole number of tokens; the crossing itself is asked for.",
)
def rounds_up(peak_flops: float, bandwidth: float, bytes_per_weight: float) -> float:
    return float(math.ceil(peak_flops * bytes_per_weight / (2 * bandwidth)))


@wrong(
    "E02.ridge",
    "ridge_tokens",
    "balances_16_bit_weights",
    "your number is eight times too large: `bytes_per_weight` is in bytes, not in bits.",
)
def takes_bits_for_bytes(peak_flops: float, bandwidth: float, bytes_per_weight: float) -> float:
    return peak_flops * 8 * bytes_per_weight / (2 * bandwidth)
