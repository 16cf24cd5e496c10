"""Checks that every kind of coins makes on the weights of a draw."""

from fractions import Fraction

import numpy as np
import torch

from specdec_core.coins.protocol import Weights


def as_float64(weights: Weights) -> np.ndarray:
    """The weights as a float64 vector, checked.

    Raises:
        ValueError: not one-dimensional, a weight negative, infinite or NaN (the first index is named), or all zero.
    """
    if isinstance(weights, torch.Tensor):
        values = weights.detach().to(device="cpu", dtype=torch.float64).numpy()
    else:
        values = np.asarray([float(weight) for weight in weights], dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"weights has shape {tuple(values.shape)}; expected one dimension, a weight per index")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        index = int(bad.argmax())
        raise ValueError(f"weights[{index}] is {values[index]}; weights are finite and not negative")
    if not values.any():
        raise ValueError("weights has no positive entry: there is nothing to draw")
    return values


def as_fractions(weights: Weights) -> list[Fraction]:
    """The weights as exact numbers, checked.

    Raises:
        ValueError: a float (its exact value is not what was meant), a negative weight, or all zero.
    """
    exact = [exact_mass(weight, "weights") for weight in weights]
    if any(weight < 0 for weight in exact):
        raise ValueError(f"weights is {exact}; weights are not negative")
    if not any(exact):
        raise ValueError("weights has no positive entry: there is nothing to draw")
    return exact


def exact_mass(mass: object, name: str) -> Fraction:
    """`mass` as a Fraction. ValueError for a float or a tensor."""
    if isinstance(mass, Fraction):
        return mass
    if isinstance(mass, int) and not isinstance(mass, bool):
        return Fraction(mass)
    raise ValueError(
        f"{name} holds {mass!r}; enumeration is exact and takes Fraction or int, not {type(mass).__name__}"
    )
