"""Exponential noise as machines make it: the law of E, given by the uniforms it is made from and how it is stored."""

from collections.abc import Callable
from dataclasses import dataclass
import math

from jaxtyping import Float64
import torch
from torch import Tensor

Values = Float64[Tensor, "*shape"]


@dataclass(frozen=True, slots=True)
class Noise:
    """A way to make a standard exponential E; `cdf(x)` is P(E <= x), exactly, for x >= 0."""

    name: str
    cdf: Callable[[Values], Values]


def continuous() -> Noise:
    """The ideal: P(E <= x) = 1 - exp(-x)."""
    return Noise("ideal", lambda x: -torch.expm1(-x))


def lab_noise() -> Noise:
    """This library's: E = -log1p(-u), u = (k + 1/2) / 2^32, at most 1 - 2^-24."""
    largest, cells = -math.log(2.0**-24), 2.0**32

    def cdf(x: Values) -> Values:
        below = (cells * -torch.expm1(-x) + 0.5).floor_() / cells
        return below.masked_fill_(x >= largest, 1.0)

    return Noise("-log1p(-u), u = (k + 1/2) 2^-32", cdf)


def minus_log(bits: int, name: str = "") -> Noise:
    """E = -log(u) with u = k / 2^bits, k from 0: small E come from u near 1, where the grid is coarse."""
    cells = 2.0**bits
    return Noise(name or f"-log(u), u = k 2^-{bits}", lambda x: 1.0 - (cells * torch.exp(-x)).ceil_() / cells)


def minus_log_of_rest(bits: int) -> Noise:
    """E = -log(1 - u) with u = k / 2^bits, k from 0: E = 0 occurs, and wins for whatever token gets it."""
    cells = 2.0**bits

    def cdf(x: Values) -> Values:
        return ((cells * -torch.expm1(-x)).floor_() + 1).clamp_(max=cells) / cells

    return Noise(f"-log(1 - u), u = k 2^-{bits}", cdf)


def stored_as(dtype: torch.dtype) -> Noise:
    """A good E rounded to nearest in `dtype` (float16 or bfloat16): coarse everywhere, but fine near 0."""
    name = str(dtype).removeprefix("torch.")
    bits = torch.int16

    def cdf(x: Values) -> Values:
        # positive floats are ordered as their bit patterns are
        rounded = x.to(dtype)
        below = (rounded.view(bits) - (rounded.to(x.dtype) > x).to(bits)).clamp_(min=0)
        above = (below + 1).view(dtype).to(x.dtype)
        # an E up to half way to the next value is stored as at most x
        return -torch.expm1(-(below.view(dtype).to(x.dtype) + above) / 2)

    return Noise(f"good E stored in {name}", cdf)
