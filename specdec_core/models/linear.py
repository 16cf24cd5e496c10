"""A matrix product that is fast for the few rows of a decoding or verify pass."""

from jaxtyping import Float
import torch
from torch import Tensor
import torch.nn.functional as F

_ROWS_HINT = 16  # the block layout oneDNN picks for this many rows serves all of `_PACKED_ROWS`
_PACKED_ROWS = range(2, 33)


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN's packed float32 product is there for this weight."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()


class Linear:
    """y = x Wᵀ, without a bias.

    On a CPU in float32 a second copy of the weight is kept in oneDNN's block layout and used for 2 to 32 rows: the
    BLAS behind `F.linear` reads the weight once per two or three rows there, so that verifying five tokens would
    cost twice one step. A single row is memory-bound and fastest through `F.linear`; a long prompt is bound by
    arithmetic, gains little, and is more accurate through `F.linear` (it sums long rows in parts).
    """

    def __init__(self, weight: Float[Tensor, "out inner"], *, pack: bool = True) -> None:
        self.weight = weight
        self._packed: Tensor | None = None
        if pack and can_pack(weight):
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS_HINT)

    def __call__(self, x: Float[Tensor, "rows inner"]) -> Float[Tensor, "rows out"]:
        if self._packed is None or x.shape[0] not in _PACKED_ROWS:
            return F.linear(x, self.weight)
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, None, "none", [], "")
