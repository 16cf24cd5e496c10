"""Several drafts at once on the same text: one pass of the target serves them all, so that they can be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from specdec_core.models.llama import LlamaConfig
from specdec_core.models.trainable import TrainableLlama
from specdec_labs.data.sources import Domain
from specdec_labs.train.distillation import acceptance_figures, loss_named
from specdec_labs.train.language_model import HELD_OUT_WINDOWS
from specdec_labs.train.settings import TrainSettings
from specdec_labs.train.streams import DOMAINS, Streams, fixed_windows, windows


@dataclass(frozen=True, slots=True)
class Variant:
    """A draft's shape, and the loss it learns with."""

    shape: LlamaConfig
    loss: str = "kl"


class VariantsTask:
    """Every variant learns the target's law on the same windows, each with its own loss.

    The losses are added, and the gradient is clipped over all of them together. Figures are named NAME/FIGURE_DOMAIN.
    """

    def __init__(
        self,
        variants: Mapping[str, Variant],
        target: TrainableLlama,
        target_sha256: str,
        streams: Streams,
        settings: TrainSettings,
        *,
        domains: Sequence[Domain] = DOMAINS,
        device: torch.device | str = "cpu",
    ) -> None:
        """Raises ValueError for no variant, another vocabulary than the target, or an unknown loss."""
        if not variants:
            raise ValueError("variants is empty; name at least one")
        for name, variant in variants.items():
            if variant.shape.vocab_size != target.config.vocab_size:
                raise ValueError(
                    f"variant {name!r} has {variant.shape.vocab_size} ids, the target {target.config.vocab_size}; "
                    "expected the same"
                )
        self._losses = {name: loss_named(variant.loss) for name, variant in variants.items()}
        self.module = nn.ModuleDict(
            {name: TrainableLlama(variant.shape, seed=settings.seed) for name, variant in variants.items()}
        ).to(device)
        self._target = target.to(device).requires_grad_(False)
        self._variants, self._target_sha256 = dict(variants), target_sha256
        self._streams, self._settings, self._device = streams, settings, device
        self._domains = tuple(domains)

    def draft(self, name: str) -> TrainableLlama:
        """The draft of that name as it stands."""
        module = self.module[name]
        assert isinstance(module, TrainableLlama)
        return module

    def loss(self, step: int) -> Tensor:
        settings, training = self._settings, [self._streams.ids["train", domain] for domain in self._domains]
        tokens = windows(training, seed=settings.seed, step=step, batch=settings.batch, length=settings.length)
        target = self._target_law(tokens)
        total = torch.zeros((), device=self._device)
        for name, measure in self._losses.items():
            total = total + measure(target, self._law(name, tokens)).mean()
        return total

    def evaluate(self) -> dict[str, float]:
        figures = {}
        for domain in DOMAINS:
            held_out = self._streams.ids["held_out", domain]
            tokens = fixed_windows(held_out, count=HELD_OUT_WINDOWS, length=self._settings.length)
            target = self._target_law(tokens)
            for name in self._variants:
                found = acceptance_figures(target, self._law(name, tokens))
                figures |= {f"{name}/{figure}_{domain}": value for figure, value in found.items()}
        return figures

    def identity(self) -> dict[str, Any]:
        variants = {name: {"loss": v.loss, **asdict(v.shape)} for name, v in self._variants.items()}
        learnt = {"target_sha256": self._target_sha256, "domains": list(self._domains)}
        return {"kind": "variants", "variants": variants, **learnt, **self._streams.identity()}

    def _target_law(self, tokens: Tensor) -> Tensor:
        with torch.no_grad():
            return self._target.logits(self._target(tokens.to(self._device))).float().log_softmax(dim=-1)

    def _law(self, name: str, tokens: Tensor) -> Tensor:
        draft = self.draft(name)
        return draft.logits(draft(tokens.to(self._device))).float().log_softmax(dim=-1)
