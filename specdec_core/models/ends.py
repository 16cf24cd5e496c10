"""The two matrices a drafter borrows from its target: the embedding of tokens, and the head that reads states."""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from specdec_core.models.protocol import LanguageModel


def ends_of(target: LanguageModel) -> tuple[Float[Tensor, "vocab width"], Float[Tensor, "vocab width"]]:
    """Embedding and head of a `Llama` or an `HFModel`; the same tensor twice when they are tied.

    Raises:
        ValueError: a model without states of its own (a toy), or a head with a bias.
    """
    model: Any = target
    if hasattr(model, "weights"):
        return model.weights.embedding, model.weights.head.weight
    if not hasattr(model, "model") or not hasattr(model.model, "get_output_embeddings"):
        raise ValueError(
            f"target is a {type(target).__name__}, which has no embedding and head to share; use a Llama or an HFModel"
        )
    head = model.model.get_output_embeddings()
    if getattr(head, "bias", None) is not None:
        raise ValueError(f"the head of {type(model.model).__name__} has a bias; drafters share heads without one")
    return model.model.get_input_embeddings().weight.detach(), head.weight.detach()
