"""The task of a draft model: the target's law on the same text."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specdec_core.models.llama import LlamaConfig
from specdec_core.models.trainable import TrainableLlama
from specdec_labs.data.sources import Domain
from specdec_labs.train.distillation import acceptance_figures, loss_named
from specdec_labs.train.language_model import HELD_OUT_WINDOWS
from specdec_labs.train.settings import TrainSettings
from specdec_labs.train.streams import Streams, fixed_windows, windows


class DraftTask:
    """A small Llama learns the law of a frozen one, token by token, on windows of the training streams."""

    def __init__(
        self,
        config: LlamaConfig,
        target: TrainableLlama,
        target_sha256: str,
        streams: Streams,
        settings: TrainSettings,
        *,
        loss: str = "kl",
        domains: Sequence[Domain] = ("prose", "code"),
        device: torch.device | str = "cpu",
    ) -> None:
        """Raises ValueError for another vocabulary than the target's, an unknown loss, or too long windows."""
        if config.vocab_size != target.config.vocab_size:
            raise ValueError(
                f"the draft has {config.vocab_size} ids, the target {target.config.vocab_size}; expected the same"
            )
        if settings.length > min(config.max_length, target.config.max_length):
            raise ValueError(
                f"length is {settings.length}; the draft reads {config.max_length} tokens and the target "
                f"{target.config.max_length}"
            )
        self.module = TrainableLlama(config, seed=settings.seed).to(device)
        self._target = target.to(device).requires_grad_(False)
        self._target_sha256, self._streams, self._settings = target_sha256, streams, settings
        self._loss_name, self._loss = loss, loss_named(loss)
        self._domains, self._device = tuple(domains), device
        self._training = [streams.ids["train", domain] for domain in domains]

    def loss(self, step: int) -> Tensor:
        settings = self._settings
        tokens = windows(self._training, seed=settings.seed, step=step, batch=settings.batch, length=settings.length)
        target, draft = self._laws(tokens)
        return self._loss(target, draft).mean()

    def evaluate(self) -> dict[str, float]:
        figures = {}
        for domain in ("prose", "code"):
            held_out = self._streams.ids["held_out", domain]
            target, draft = self._laws(fixed_windows(held_out, count=HELD_OUT_WINDOWS, length=self._settings.length))
            found = acceptance_figures(target, draft)
            figures |= {f"{name}_{domain}": value for name, value in found.items()}
        return figures

    def identity(self) -> dict[str, Any]:
        config = self.module.config
        shape = {"width": config.width, "layers": config.layers, "heads": config.heads, "ffn_width": config.ffn_width}
        learnt = {"loss": self._loss_name, "target_sha256": self._target_sha256, "domains": list(self._domains)}
        return {"kind": "draft", **shape, **learnt, **self._streams.identity()}

    def _laws(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of target and draft after every token."""
        tokens = tokens.to(self._device)
        with torch.no_grad():
            target = self._target.logits(self._target(tokens)).float().log_softmax(dim=-1)
        return target, self.module.logits(self.module(tokens)).float().log_softmax(dim=-1)
