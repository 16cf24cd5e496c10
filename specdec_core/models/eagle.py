"""An EAGLE head: one layer that continues the target's states instead of its tokens.

Row t is fed the pair (state of token t, token t + 1) and gives the state of token t + 1, from which the target's own
head draws token t + 2. Source: Li et al. 2401.15077 (EAGLE), 2503.01840 (training over several steps).
"""

from dataclasses import replace

from jaxtyping import Float, Int
import torch
from torch import Tensor, nn

from specdec_core.models.llama import LlamaConfig
from specdec_core.models.trainable import Block, Norm, Passes, initialise, rotation_table


class EagleHead(nn.Module):
    """Two norms, a matrix that joins state and embedding, one Llama layer, and a norm.

    The norms bring the two halves to one scale; the last one gives states of the size the target's head expects.
    """

    def __init__(self, target: LlamaConfig, *, ffn_width: int, seed: int = 0) -> None:
        """Fresh weights from `seed` for a target of that shape; `ffn_width` is the layer's own."""
        super().__init__()
        self.config = replace(target, layers=1, ffn_width=ffn_width)
        with torch.device("meta"):
            self.state_norm = Norm(target.width, target.norm_eps)
            self.embedding_norm = Norm(target.width, target.norm_eps)
            self.join = nn.Linear(2 * target.width, target.width, bias=False)
            self.layer = Block(self.config)
            self.norm = Norm(target.width, target.norm_eps)
        self.to_empty(device="cpu")
        initialise(self, seed, layers=1)

    def forward(
        self,
        states: Float[Tensor, "batch rows width"],
        embeddings: Float[Tensor, "batch rows width"],
        passes: Passes | None = None,
    ) -> Float[Tensor, "batch rows width"]:
        """The state of the token after each pair; `passes` as in `Attention.forward`."""
        both = torch.cat((self.state_norm(states), self.embedding_norm(embeddings)), dim=-1)
        rotation = rotation_table(self.config, states.shape[1], states.device)
        return self.norm(self.layer(self.join(both).float(), rotation, passes))


def eagle_pairs(
    states: Float[Tensor, "rows width"], tokens: Int[Tensor, " rows_and_one"]
) -> tuple[Float[Tensor, "rows width"], Int[Tensor, " rows"]]:
    """The pairs (state of token t, token t + 1): the first token has no pair, the pending last one has no state yet.

    Raises:
        ValueError: not exactly one token more than states.
    """
    if tokens.shape[0] != states.shape[0] + 1:
        raise ValueError(
            f"{states.shape[0]} states and {tokens.shape[0]} tokens; expected one token more: each state goes with "
            "the token after its own"
        )
    return states, tokens[1:]


def shifted(states: Float[Tensor, "batch rows width"]) -> Float[Tensor, "batch rows width"]:
    """A pass's states as the next is fed them: row j gets what row j - 1 made; row 0, which has none, keeps its own."""
    return torch.cat((states[:, :1], states[:, :-1]), dim=1)
