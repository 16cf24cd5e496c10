"""The law of an exponential race with quantised noise, by integration: no sampling, so that small losses show."""

from jaxtyping import Float64
import torch
from torch import Tensor

from specdec_labs.precision.laws import Law
from specdec_labs.precision.noise import Noise

STEP = 0.02
_LINEAR_TO, _END = 8.0, 60.0
_TOKENS_AT_ONCE = 4096


def race_law(weights: Law, noise: Noise, *, step: float = STEP) -> Law:
    """P(token i has the smallest E_i / weight_i), normalised, for independent E of `noise`.

    With S_j(t) = P(E_j / w_j > t), it is the sum over t of P(E_i / w_i = t) times the product of the other S_j(t). Time
    is cut into bins of `step`; in a bin the product is taken as log-linear, or as jumping half way. For the ideal noise
    the result is `weights` to about step^2 / 12; a token that can win at few times only is off by up to step / 2 of its
    own share, with errors of either sign.

    Shapes: `weights` sums to 1. Ties have no weight: scores of two tokens coincide only by chance.
    """
    edges = _edges(step)
    drawn = torch.empty(len(weights), len(edges) - 1, dtype=torch.float32)
    log_survival = torch.zeros(len(edges), dtype=torch.float64)
    for start in range(0, len(weights), _TOKENS_AT_ONCE):
        own = noise.cdf(weights[start : start + _TOKENS_AT_ONCE, None] * edges)
        survival = (1 - own).clamp_(min=1e-300)
        log_survival += survival.log().sum(dim=0)
        # what E = 0 wins, it wins before anyone else
        own[:, 0] = 0
        drawn[start : start + len(own)] = own.diff(dim=-1) / ((survival[:, 1:] + survival[:, :-1]) / 2)
    law = (drawn @ _bin_means(log_survival).to(torch.float32)).to(torch.float64)
    return law / law.sum()


def _edges(step: float) -> Float64[Tensor, " edges"]:
    linear = torch.arange(round(_LINEAR_TO / step), dtype=torch.float64) * step
    return torch.cat([linear, torch.logspace(0, 1, 60, base=_END / _LINEAR_TO, dtype=torch.float64) * _LINEAR_TO])


def _bin_means(logs: Float64[Tensor, " edges"]) -> Float64[Tensor, " bins"]:
    """The mean of exp(f) over each bin: log-linear between the edges, half and half where f jumps."""
    values, fall = logs.exp(), logs[:-1] - logs[1:]
    is_smooth = (fall > 1e-6) & (fall < 0.5)
    means = (values[:-1] - values[1:]) / fall.masked_fill(~is_smooth, 1.0)
    return torch.where(is_smooth, means, (values[:-1] + values[1:]) / 2)


def tail_mass(law: Law, rank: int) -> float:
    """Mass of the tokens behind the first `rank`, for a law in order of rank."""
    return float(law[rank:].sum())
