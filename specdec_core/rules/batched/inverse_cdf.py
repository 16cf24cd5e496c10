"""Inverse-CDF draws from many laws: the very decisions of `specdec_core.coins.inverse_cdf`."""

from jaxtyping import Float64, Int64
import torch
from torch import Tensor

from specdec_core.rules.batched.laws import Laws

_BLOCK = 256


def draw_by_inverse_cdf(
    laws: Laws, v: Float64[Tensor, " laws"]
) -> tuple[Int64[Tensor, " laws"], Float64[Tensor, " laws"]]:
    """For each law the index at v, and its weight up to a factor; a weight that is not positive means: none was drawn.

    Small laws are added up one by one, as the scalar function does. Large ones are searched coarsely first.
    """
    tokens, weights = torch.empty_like(v, dtype=torch.int64), torch.empty_like(v)
    if not (laws.is_large and v.device.type == "cpu"):
        for part, group in laws:
            tokens[part], weights[part] = _exact(group.values(), v[part])
        return tokens, weights
    tokens, weights = coarse_search(laws, v)
    for law in torch.nonzero(tokens < 0)[:, 0].tolist():
        part = slice(law, law + 1)
        tokens[part], weights[part] = _exact(laws.make(part).values(), v[part])
    return tokens, weights


def _exact(
    weights: Float64[Tensor, "rows vocab"], v: Float64[Tensor, " rows"]
) -> tuple[Int64[Tensor, " rows"], Float64[Tensor, " rows"]]:
    """The lowest index whose running sum exceeds v times the total, or the last positive one; and its weight.

    Equal to the scalar function to the last bit: both add one by one from the left, and a zero changes no sum.
    """
    running = weights.cumsum(-1)
    place = torch.searchsorted(running, v[:, None] * running[:, -1:], right=True)[:, 0]
    beyond = torch.nonzero(place == weights.shape[1])[:, 0]
    if len(beyond):
        last = (weights[beyond] > 0).flip(-1).to(torch.uint8).argmax(-1)
        place[beyond] = weights.shape[1] - 1 - last
    # a NaN or inf anywhere in the row ends up in its last sum
    return place, torch.where(running[:, -1].isfinite(), weights.gather(1, place[:, None])[:, 0], torch.nan)


def coarse_search(laws: Laws, v: Float64[Tensor, " laws"]) -> tuple[Int64[Tensor, " laws"], Float64[Tensor, " laws"]]:
    """As `draw_by_inverse_cdf` where no rounding can change the answer; index -1 for the other laws.

    With n weights of sum S, the sums of blocks here are off by less than (2^-24 + n 2^-53) S, and the running sums of
    the scalar function, which divides the weights first, by less than n 2^-53 S; so are the thresholds. An index whose
    two bounds are further than (2^-22 + 8 n 2^-53) S from v S is therefore the answer of both. At n = 50,000 that
    leaves out about one draw in 50.
    """
    bounds = _block_sums(laws).cumsum(1)
    total = bounds[:, -1]
    threshold = v * total
    block = torch.searchsorted(bounds, threshold[:, None], right=True).clamp_(max=bounds.shape[1] - 1)
    before = torch.where(block > 0, bounds.gather(1, (block - 1).clamp_(min=0)), 0.0)
    tokens = _BLOCK * block + torch.arange(_BLOCK)
    inside = laws.entries(torch.arange(laws.count), tokens.clamp(max=laws.vocab - 1))
    inside = torch.where(tokens < laws.vocab, inside, 0.0)
    running = torch.cat((before, before + inside.cumsum(1)), 1)
    place = torch.searchsorted(running, threshold[:, None], right=True).clamp_(min=1, max=_BLOCK)
    margin = (2.0**-22 + 8 * laws.vocab * 2.0**-53) * total
    # NaN fails both comparisons
    clear = threshold - running.gather(1, place - 1)[:, 0] > margin
    clear &= running.gather(1, place)[:, 0] - threshold > margin
    return torch.where(clear, tokens.gather(1, place - 1)[:, 0], -1), inside.gather(1, place - 1)[:, 0]


def _block_sums(laws: Laws) -> Float64[Tensor, "laws blocks"]:
    whole = laws.vocab // _BLOCK
    sums = torch.empty(laws.count, -(-laws.vocab // _BLOCK), dtype=torch.float64)
    for law, into in enumerate(sums[:, :whole].unbind()):
        row = laws.rough(law)
        torch.sum(row[: whole * _BLOCK].view(whole, _BLOCK), 1, dtype=torch.float64, out=into)
        if whole < sums.shape[1]:
            sums[law, whole] = row[whole * _BLOCK :].sum(dtype=torch.float64)
    return sums
