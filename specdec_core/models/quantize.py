"""Round-to-nearest weight quantisation, group by group: what the weights become, as float32 again.

It shows what fewer bits do to the model's law. It makes nothing faster here: these products run in float. Speed needs
a kernel that reads packed integers, such as torchao's on CUDA.
"""

from dataclasses import replace
import math
from numbers import Integral

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.models.linear import Linear
from specdec_core.models.llama import LayerWeights, Llama

BITS = (8, 4, 3)
_SCALE_BITS = 16
_LARGEST_GROUP = 64


def round_to_nearest(weight: Float[Tensor, "out inner"], bits: int, group: int) -> Float[Tensor, "out inner"]:
    """The weight with each run of `group` entries of a row rounded to whole multiples of one scale.

    The scale is the largest magnitude of the run over 2^(bits - 1) - 1 (symmetric, no offset), so that an entry moves
    by at most half a scale.

    Raises:
        ValueError: bits that are not 2..8, or a group that does not divide the row.
    """
    if not isinstance(bits, Integral) or not 2 <= bits <= 8:
        raise ValueError(f"bits is {bits!r}; expected 2..8, a whole number")
    if not isinstance(group, Integral) or group < 1 or weight.shape[1] % group:
        raise ValueError(f"group is {group}; expected a divisor of the row length {weight.shape[1]}")
    runs = weight.unflatten(1, (-1, group)).float()
    largest = 2 ** (bits - 1) - 1
    scale = runs.abs().amax(dim=-1, keepdim=True) / largest
    # a run of zeros has no scale, and stays what it is
    steps = torch.where(scale > 0, runs / scale, 0.0).round().clamp(-largest, largest)
    return (steps * scale).flatten(1).to(weight.dtype)


def default_group(model: Llama, *, head: bool = False) -> int:
    """The largest group up to 64 that divides the rows of every matrix `quantized` rounds: 64 where they allow it."""
    names = ("qkv", "attention_out", "gate_up", "down")
    matrices = [getattr(layer, name) for layer in model.weights.layers for name in names]
    row = math.gcd(*(linear.weight.shape[1] for linear in (*matrices, *([model.weights.head] if head else []))))
    return max(group for group in range(1, _LARGEST_GROUP + 1) if row % group == 0)


def quantized(model: Llama, bits: int, group: int | None = None, *, head: bool = False) -> Llama:
    """A copy of the model with the products of every layer rounded, and with `head` that of the head; the rest stays.

    `group` None is `default_group`.

    Raises:
        ValueError: as `round_to_nearest`, naming the matrix.
    """

    size = default_group(model, head=head) if group is None else group

    def rounded(linear: Linear, name: str) -> Linear:
        try:
            return Linear(round_to_nearest(linear.weight, bits, size))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    def layer(index: int, weights: LayerWeights) -> LayerWeights:
        names = ("qkv", "attention_out", "gate_up", "down")
        return replace(weights, **{name: rounded(getattr(weights, name), f"layer {index}, {name}") for name in names})

    weights = replace(
        model.weights, layers=tuple(layer(index, part) for index, part in enumerate(model.weights.layers))
    )
    if head:
        weights = replace(weights, head=rounded(weights.head, "head"))
    return Llama(model.config, weights)


def bits_per_weight(bits: int, group: int) -> float:
    """Bits a weight takes when stored: its own and its share of a float16 scale."""
    return bits + _SCALE_BITS / group
