"""A draft whose vocabulary is as wide as the target's."""

from jaxtyping import Bool, Float, Int
import torch
from torch import Tensor
import torch.nn.functional as F

from specdec_core.models.protocol import ForwardOutput, KVCache, LanguageModel


class ResizedVocabulary:
    """`model` with logits cut or padded (-inf, so never proposed) to `vocab_size` columns.

    Models of one family often differ in padded ids at the end. An id the model does not know is fed to it as its
    last one: as a draft it then merely guesses worse, which leaves the output law as it is.
    """

    def __init__(self, model: LanguageModel, vocab_size: int) -> None:
        if vocab_size < 1:
            raise ValueError(f"vocab_size is {vocab_size}; expected at least 1")
        self.model = model
        self.vocab_size = vocab_size
        self.max_length = model.max_length
        self.device = model.device
        self.dtype = model.dtype

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
        """The model's forward with resized logits. ValueError for ids outside `vocab_size` and as the model's."""
        if tokens.numel() and int(tokens.max()) >= self.vocab_size:
            raise ValueError(f"tokens holds {int(tokens.max())}; expected 0..{self.vocab_size - 1}")
        known = tokens.clamp(max=self.model.vocab_size - 1)
        output = self.model.forward(known, positions, mask, cache=cache, last_only=last_only)
        return ForwardOutput(self._resized(output.logits), output.hidden)

    def _resized(self, logits: Float[Tensor, "rows own"]) -> Float[Tensor, "rows vocab"]:
        missing = self.vocab_size - logits.shape[1]
        return F.pad(logits, (0, missing), value=-torch.inf) if missing > 0 else logits[:, : self.vocab_size]
