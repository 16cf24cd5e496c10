"""A language model with a stopwatch around its forwards."""

import time

from jaxtyping import Bool, Int
import torch
from torch import Tensor

from specdec_core.models.protocol import ForwardOutput, KVCache, LanguageModel


class TimedModel:
    """`model`, adding up the wall time of its forwards in `seconds`."""

    def __init__(self, model: LanguageModel) -> None:
        self.vocab_size = model.vocab_size
        self.max_length = model.max_length
        self.device = model.device
        self.dtype = model.dtype
        self.seconds = 0.0
        self._model = model

    def new_cache(self, capacity: int) -> KVCache:
        """The model's own cache."""
        return self._model.new_cache(capacity)

    def forward(
        self,
        tokens: Int[Tensor, " rows"],
        positions: Int[Tensor, " rows"] | None = None,
        mask: Bool[Tensor, "rows total"] | None = None,
        *,
        cache: KVCache,
        last_only: bool = False,
    ) -> ForwardOutput:
        """The model's forward, waited for."""
        start = time.perf_counter()
        output = self._model.forward(tokens, positions, mask, cache=cache, last_only=last_only)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.seconds += time.perf_counter() - start
        return output
