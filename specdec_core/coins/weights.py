"""Checks that every kind of coins makes on the weights of a draw."""

from fractions import Fraction

from jaxtyping import Float64, Int64
import numpy as np
from numpy import ndarray
import torch

from specdec_core.coins.protocol import Weights


def support(weights: Weights) -> tuple[Int64[ndarray, " support"], Float64[ndarray, " support"]]:
    """The indices of positive weight, increasing, and their weights in float64, checked.

    Raises:
        ValueError: not one-dimensional, a weight negative, infinite or NaN (the first index is named), or all zero.
    """
    if isinstance(weights, torch.Tensor):
        if weights.ndim != 1:
            raise ValueError(f"weights has shape {tuple(weights.shape)}; expected one dimension, a weight per index")
        dense = weights.detach().cpu().to(torch.float64).numpy()
    else:
        dense = np.asarray([float(weight) for weight in weights], dtype=np.float64)
    # NaN and negative weights are nonzero, so looking at the nonzero ones alone misses no fault
    indices = np.flatnonzero(dense)
    values = dense[indices]
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        place = int(bad.argmax())
        raise ValueError(f"weights[{indices[place]}] is {values[place]}; weights are finite and not negative")
    if len(indices) == 0:
        raise ValueError("weights has no positive entry: there is nothing to draw")
    return indices, values


def as_fractions(weights: Weights) -> list[Fraction]:
    """The weights as exact numbers, checked.

    Raises:
        ValueError: a float (its exact value is not what was meant), a negative weight, or all zero.
    """
    exact = [exact_mass(weight, "weights") for weight in weights]
    if any(weight.numerator < 0 for weight in exact):
        raise ValueError(f"weights is {exact}; weights are not negative")
    if not any(weight.numerator for weight in exact):
        raise ValueError("weights has no positive entry: there is nothing to draw")
    return exact


def exact_mass(mass: object, name: str) -> Fraction:
    """`mass` as a Fraction. ValueError for a float or a tensor."""
    if isinstance(mass, Fraction):
        return mass
    if isinstance(mass, int) and not isinstance(mass, bool):
        return Fraction(mass)
    raise ValueError(f"{name} holds {mass!r}; enumeration is exact: Fraction or int, not {type(mass).__name__}")
