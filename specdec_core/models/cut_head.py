"""Draft models over a cut vocabulary, as language models over the target's ids: logits are -inf outside the cut.

The law made from such logits is zero outside the cut and sums to one inside it, so every rule stays exact.
"""

from dataclasses import replace

from jaxtyping import Bool, Float, Int
import torch
from torch import Tensor

from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.linear import Linear
from specdec_core.models.llama import Llama
from specdec_core.models.protocol import ForwardOutput, KVCache, LanguageModel


def spread_logits(logits: Float[Tensor, "rows cut"], vocabulary: CutVocabulary) -> Float[Tensor, "rows target"]:
    """Logits over the cut as logits over the target's ids, -inf elsewhere.

    Raises:
        ValueError: not one column for every id of the cut.
    """
    if logits.shape[-1] != len(vocabulary):
        raise ValueError(f"logits has {logits.shape[-1]} columns, the cut vocabulary {len(vocabulary)} ids")
    full = logits.new_full((logits.shape[0], vocabulary.target_size), -torch.inf)
    return full.index_copy_(-1, vocabulary.index.to(logits.device), logits)


class MappedVocabulary:
    """A model with ids of its own (`vocabulary.ids[i]` is the target's id of its id i) behind the target's ids.

    An id that it does not know is fed as `unknown`: as a draft it then merely guesses worse.
    """

    def __init__(self, model: LanguageModel, vocabulary: CutVocabulary, *, unknown: int = 0) -> None:
        if model.vocab_size != len(vocabulary):
            raise ValueError(f"model has {model.vocab_size} ids, the cut vocabulary maps {len(vocabulary)}")
        if not 0 <= unknown < model.vocab_size:
            raise ValueError(f"unknown is {unknown}; expected an id of the model, 0..{model.vocab_size - 1}")
        self.model, self.vocabulary = model, vocabulary
        self.vocab_size = vocabulary.target_size
        self.max_length, self.device, self.dtype = model.max_length, model.device, model.dtype
        inverse = vocabulary.inverse
        self._own = torch.where(inverse < 0, unknown, inverse).to(self.device)

    def new_cache(self, capacity: int) -> KVCache:
        """The model's own cache."""
        return self.model.new_cache(capacity)

    def forward(
        self,
        tokens: Int[Tensor, " rows"],
        positions: Int[Tensor, " rows"] | None = None,
        mask: Bool[Tensor, "rows total"] | None = None,
        *,
        cache: KVCache,
        last_only: bool = False,
    ) -> ForwardOutput:
        """The model's forward, ids mapped on the way in and logits spread on the way out. ValueError as the model's."""
        fed = tokens.to(self.device, torch.long)
        if fed.numel() and not 0 <= int(fed.min()) <= int(fed.max()) < self.vocab_size:
            raise ValueError(f"tokens holds an id outside the vocabulary; expected 0..{self.vocab_size - 1}")
        output = self.model.forward(self._own[fed], positions, mask, cache=cache, last_only=last_only)
        return ForwardOutput(spread_logits(output.logits, self.vocabulary), output.hidden)


class CutHead:
    """A `Llama` that reads every id and computes only the rows of its head that the cut needs.

    Raises:
        ValueError: a cut of another vocabulary.
    """

    def __init__(self, model: Llama, vocabulary: CutVocabulary) -> None:
        if model.vocab_size != vocabulary.target_size:
            raise ValueError(f"model has {model.vocab_size} ids, the cut is of {vocabulary.target_size}")
        weights = model.weights
        head = Linear(weights.head.weight[vocabulary.index.to(model.device)])
        self.model = Llama(model.config, replace(weights, head=head))
        self.vocabulary = vocabulary
        self.vocab_size, self.max_length = model.vocab_size, model.max_length
        self.device, self.dtype = model.device, model.dtype

    def new_cache(self, capacity: int) -> KVCache:
        """The model's own cache."""
        return self.model.new_cache(capacity)

    def forward(
        self,
        tokens: Int[Tensor, " rows"],
        positions: Int[Tensor, " rows"] | None = None,
        mask: Bool[Tensor, "rows total"] | None = None,
        *,
        cache: KVCache,
        last_only: bool = False,
    ) -> ForwardOutput:
        """The model's forward with logits over the target's ids, -inf outside the cut. ValueError as the model's."""
        output = self.model.forward(tokens, positions, mask, cache=cache, last_only=last_only)
        return ForwardOutput(spread_logits(output.logits, self.vocabulary), output.hidden)
