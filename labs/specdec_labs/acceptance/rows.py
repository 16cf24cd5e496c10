"""What a model says at every place of a text, from one pass over it."""

from collections.abc import Sequence

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.models.protocol import LanguageModel


def answer_logits(model: LanguageModel, tokens: Sequence[int], prompt_length: int) -> Float[Tensor, "answer vocab"]:
    """Row i: the logits for the i-th token of the answer, after the prompt and the answer's tokens before it."""
    cache = model.new_cache(len(tokens))
    if prompt_length > 1:
        model.forward(torch.tensor(tokens[: prompt_length - 1]), cache=cache, last_only=True)
    return model.forward(torch.tensor(tokens[prompt_length - 1 : -1]), cache=cache).logits


def answer_states(model: LanguageModel, tokens: Sequence[int], prompt_length: int) -> Float[Tensor, "rows width"]:
    """The state the head reads at every token but the last, the prompt's included.

    Raises:
        ValueError: a model that gives no states.
    """
    cache = model.new_cache(len(tokens))
    output = model.forward(torch.tensor(tokens[:-1]), cache=cache, last_only=True)
    if output.hidden is None:
        raise ValueError("the target gives no hidden states; Medusa and EAGLE cannot be replayed on it")
    return output.hidden
