"""Medusa heads: each guesses one token further ahead from the same state of the target.

Head k (counted from 0) reads the state of row t and guesses token t + 2 + k; the target's own head gives t + 1.
Source: Cai et al. 2401.10774, Medusa-1 (the target stays as it is).
"""

from jaxtyping import Float, Int
import torch
from torch import Tensor, nn
import torch.nn.functional as F

IGNORED = -100
"""Label of a row that carries no loss, as `torch.nn.functional.cross_entropy` has it."""


class MedusaHeads(nn.Module):
    """`heads` residual layers h + SiLU(W h + b); the target's head turns their results into logits."""

    def __init__(self, heads: int, width: int) -> None:
        """Every layer starts as the identity, so that each head begins as a copy of the target's.

        Raises:
            ValueError: no head.
        """
        super().__init__()
        if heads < 1:
            raise ValueError(f"heads is {heads}; expected at least 1")
        self.width = width
        self.layers = nn.ModuleList(nn.utils.skip_init(nn.Linear, width, width) for _ in range(heads))
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "heads *rows width"]:
        """The states the target's head is to read, one set a head."""
        return torch.stack([states + F.silu(layer(states)).float() for layer in self.layers])


def medusa_labels(tokens: Int[Tensor, " rows"], prompt_length: int, heads: int) -> Int[Tensor, "heads rows"]:
    """What head k is to say at row t: token t + 2 + k, where that belongs to the answer; `IGNORED` elsewhere.

    The state of a prompt row is used as soon as the token it predicts lies in the answer.
    """
    rows = tokens.shape[0]
    labels = torch.full((heads, rows), IGNORED, dtype=torch.long, device=tokens.device)
    for head in range(heads):
        ahead = 2 + head
        first = max(0, prompt_length - ahead)
        if first + ahead < rows:
            labels[head, first : rows - ahead] = tokens[first + ahead :]
    return labels
