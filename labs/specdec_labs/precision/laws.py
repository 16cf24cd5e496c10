"""The laws that precision is measured on, and the distance between two laws."""

from jaxtyping import Float64
import torch
from torch import Tensor

LARGEST_LOGIT = 20.0
"""What rounding logits costs depends on their size: bfloat16 values in [16, 32) are 0.125 apart."""

Law = Float64[Tensor, " vocab"]


def zipf_logits(vocab: int, exponent: float) -> Law:
    """Logits of the law with mass proportional to rank^-exponent, rank 1 first, the largest at `LARGEST_LOGIT`.

    Raises:
        ValueError: a vocabulary of less than 2 tokens.
    """
    if vocab < 2:
        raise ValueError(f"vocab is {vocab}; expected at least 2 tokens")
    return LARGEST_LOGIT - exponent * torch.arange(1, vocab + 1, dtype=torch.float64).log()


def zipf(vocab: int, exponent: float) -> Law:
    """The law itself, in float64."""
    return torch.softmax(zipf_logits(vocab, exponent), dim=-1)


def total_variation(one: Law, other: Law) -> float:
    """Half the sum of absolute differences: the largest difference in the probability of any event."""
    return float((one - other).abs().sum() / 2)


def normalised(weights: Tensor) -> Law:
    """The law that a draw from these weights has, in float64."""
    wide = weights.to(torch.float64)
    return wide / wide.sum()
