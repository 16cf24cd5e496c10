"""The two quantities of one draft: how often it is kept, and the law it is redrawn from when it is not.

p is the target's law, q the draft's (Leviathan et al. 2211.17192; Chen et al. 2302.01318 use the letters the
other way round). Every function takes a law as a float tensor or as a sequence of exact Fractions.
"""

from collections.abc import Sequence
from fractions import Fraction
import math
from typing import overload

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.arguments import check_whole

Law = Float[Tensor, " vocab"] | Sequence[Fraction]


def mass(law: Law, token: int) -> float | Fraction:
    """The probability of one token, as a number.

    Raises:
        ValueError: a token outside the law, or a mass that is negative or not finite.
    """
    _check_place(law, token)
    value = float(law[token].detach()) if isinstance(law, Tensor) else law[token]
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"token {token} has mass {value}; a probability is finite and not negative")
    return value


def acceptance(p: Law, q: Law) -> float | Fraction:
    """Probability that a token drawn from q is kept: sum min(p, q) = 1 - TV(p, q)."""
    check_same_vocab(p, q)
    if isinstance(p, Tensor) and isinstance(q, Tensor):
        return _finite_sum(torch.minimum(wide(p), wide(q)))
    return sum((min(p_x, q_x) for p_x, q_x in zip(exact_law(p), exact_law(q))), Fraction(0))


@overload
def residual(p: Tensor, q: Tensor) -> Tensor: ...


@overload
def residual(p: Sequence[Fraction], q: Sequence[Fraction]) -> Sequence[Fraction]: ...


@overload
def residual(p: Law, q: Law) -> Law: ...


def residual(p: Law, q: Law) -> Law:
    """max(p - q, 0), normalised: the law of the token that replaces a refused draft.

    With p = q nothing is left; no draft can be refused then, and the answer is p itself, never NaN. A float
    law comes back in float64 (float32 where the device has no float64).

    Raises:
        ValueError: a batch of laws, laws of different length, a NaN in one of them, or inf in p.
    """
    check_same_vocab(p, q)
    if isinstance(p, Tensor) and isinstance(q, Tensor):
        return _normalised((wide(p) - wide(q)).clamp_(min=0), p)
    exact_p, exact_q = exact_law(p), exact_law(q)
    return _normalised_exact([max(p_x - q_x, Fraction(0)) for p_x, q_x in zip(exact_p, exact_q)], exact_p)


@overload
def residual_of_one_hot(p: Tensor, token: int) -> Tensor: ...


@overload
def residual_of_one_hot(p: Law, token: int) -> Law: ...


def residual_of_one_hot(p: Law, token: int) -> Law:
    """`residual(p, q)` for a deterministic proposal, q one-hot at `token`: p without that token, normalised."""
    mass(p, token)
    if isinstance(p, Tensor):
        excess = wide(p).clone()
        excess[token] = 0
        return _normalised(excess, p)
    return _normalised_exact([Fraction(0) if x == token else p_x for x, p_x in enumerate(p)], p)


def scaled_excess(p: Law, q: Law, scale: float | Fraction) -> tuple[Law, float | Fraction]:
    """max(scale * p - q, 0) and its sum, not normalised: the residual of a prefix kept with weight `scale`."""
    check_same_vocab(p, q)
    if isinstance(p, Tensor) and isinstance(q, Tensor):
        excess = (wide(p) * float(scale) - wide(q)).clamp_(min=0)
        return excess, _finite_sum(excess)
    exact = [max(Fraction(scale) * p_x - q_x, Fraction(0)) for p_x, q_x in zip(exact_law(p), exact_law(q))]
    return exact, sum(exact, Fraction(0))


def divided(law: Law, number: float | Fraction) -> Law:
    """The law divided by a number; not times its inverse, which is infinite for the smallest numbers."""
    if isinstance(law, Tensor):
        return law / float(number)
    return [value / Fraction(number) for value in law]


def one_hot(like: Law, token: int) -> Law:
    """The law that is 1 at `token`, of the kind and length of `like`."""
    _check_place(like, token)
    if isinstance(like, Tensor):
        law = torch.zeros_like(like)
        law[token] = 1
        return law
    return [Fraction(x == token) for x in range(len(like))]


@overload
def without(law: Sequence[Fraction], token: int) -> Sequence[Fraction] | None: ...


@overload
def without(law: Law, token: int) -> Law | None: ...


def without(law: Law, token: int) -> Law | None:
    """The law with `token` removed and renormalised; None when nothing is left."""
    _check_place(law, token)
    if isinstance(law, Tensor):
        rest = wide(law).clone()
        rest[token] = 0
        total = _finite_sum(rest)
        return rest / total if total > 0 else None
    exact = [Fraction(0) if x == token else value for x, value in enumerate(law)]
    total = sum(exact, Fraction(0))
    return [value / total for value in exact] if total > 0 else None


def check_same_vocab(p: Law, q: Law) -> None:
    """ValueError unless both are one law each, with the same number of tokens."""
    check_one_law(p, "p")
    check_one_law(q, "q")
    if len(p) != len(q):
        raise ValueError(f"q has vocab {len(q)}, p has {len(p)}; pad the shorter law with zeros or map its ids first")


def check_one_law(law: Law, name: str = "law") -> None:
    """ValueError for a batch of laws: one function call looks at one draft."""
    dimensions = getattr(law, "ndim", None)
    if dimensions is None:
        dimensions = 2 if len(law) and isinstance(law[0], Sequence) else 1
    if dimensions != 1:
        came = f"shape {tuple(law.shape)}" if isinstance(law, Tensor) else f"{dimensions} dimensions"
        raise ValueError(f"{name} has {came}; expected one law, [vocab] - call the function for each row")


def _check_place(law: Law, token: int) -> None:
    check_one_law(law)
    if not 0 <= check_whole("token", token) < len(law):
        raise ValueError(f"token {token} is outside the vocabulary; the law has ids 0..{len(law) - 1}")


def exact_law(law: Law) -> Sequence[Fraction]:
    """The law, which must be a sequence of exact numbers. ValueError for a tensor."""
    if isinstance(law, Tensor):
        raise ValueError("p and q are of different kinds; give two float tensors or two sequences of Fractions")
    return law


def wide(law: Tensor) -> Tensor:
    """The law in float64, or float32 where the device has no float64; no gradient runs through a decision."""
    return law.detach().to(torch.float32 if law.device.type == "mps" else torch.float64)


def _finite_sum(masses: Tensor) -> float:
    total = float(masses.sum())
    if not math.isfinite(total):
        raise ValueError("p or q holds NaN or inf; laws are finite - check the logits they were made from")
    return total


def _normalised(excess: Tensor, fallback: Tensor) -> Tensor:
    total = _finite_sum(excess)
    return excess / total if total > 0 else wide(fallback)


def _normalised_exact(excess: list[Fraction], fallback: Sequence[Fraction]) -> list[Fraction]:
    total = sum(excess, Fraction(0))
    return [value / total for value in excess] if total > 0 else list(fallback)
