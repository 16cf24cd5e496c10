"""The task of a small target: the next token of the corpus."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
import torch.nn.functional as F

from specdec_core.models.llama import LlamaConfig
from specdec_core.models.trainable import TrainableLlama
from specdec_labs.data.sources import Domain
from specdec_labs.train.settings import TrainSettings
from specdec_labs.train.streams import Streams, fixed_windows, windows

HELD_OUT_WINDOWS = 16


class LanguageModelTask:
    """A `TrainableLlama` on windows of the training streams; evaluated in nats per token, by domain."""

    def __init__(
        self,
        config: LlamaConfig,
        streams: Streams,
        settings: TrainSettings,
        *,
        domains: Sequence[Domain] = ("prose", "code"),
        device: torch.device | str = "cpu",
    ) -> None:
        """Raises ValueError for windows longer than the model reads, or another vocabulary than the model's."""
        if settings.length > config.max_length:
            raise ValueError(f"length is {settings.length}, the model reads at most {config.max_length} tokens")
        if streams.tokenizer.vocab_size != config.vocab_size:
            raise ValueError(
                f"the streams' tokenizer has {streams.tokenizer.vocab_size} ids, the model {config.vocab_size}; "
                "make the streams again, or another model"
            )
        self.module = TrainableLlama(config, seed=settings.seed).to(device)
        self._streams, self._settings, self._domains, self._device = streams, settings, tuple(domains), device
        self._training = [streams.ids["train", domain] for domain in domains]

    def loss(self, step: int) -> Tensor:
        settings = self._settings
        tokens = windows(
            self._training, seed=settings.seed, step=step, batch=settings.batch, length=settings.length + 1
        )
        return next_token_loss(self.module, tokens.to(self._device))

    def evaluate(self) -> dict[str, float]:
        figures = {}
        for domain in ("prose", "code"):
            held_out = fixed_windows(
                self._streams.ids["held_out", domain], count=HELD_OUT_WINDOWS, length=self._settings.length + 1
            )
            figures[f"loss_{domain}"] = float(next_token_loss(self.module, held_out.to(self._device)))
        return figures

    def identity(self) -> dict[str, Any]:
        config = self.module.config
        shape = {"width": config.width, "layers": config.layers, "heads": config.heads, "ffn_width": config.ffn_width}
        return {"kind": "language model", **shape, "domains": list(self._domains), **self._streams.identity()}


def next_token_loss(model: TrainableLlama, tokens: Tensor) -> Tensor:
    """Mean negative log-probability, in nats, of each token after the first."""
    logits = model.logits(model(tokens[:, :-1]))
    return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
