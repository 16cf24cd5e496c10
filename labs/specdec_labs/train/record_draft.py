"""The task of a small draft model for a target with a large vocabulary, on the target's own text."""

from typing import Any

from jaxtyping import Float
import torch
from torch import Tensor
import torch.nn.functional as F

from specdec_core.models.llama import LlamaConfig
from specdec_core.models.trainable import TrainableLlama
from specdec_labs.train.distillation import acceptance_figures, loss_named
from specdec_labs.train.frozen_target import FrozenTarget
from specdec_labs.train.records import RecordBatch, Records, padded, record_batch
from specdec_labs.train.settings import TrainSettings

_MEASURED = 48


class RecordDraftTask:
    """A small Llama with the target's whole vocabulary learns the target's law over the cut one.

    Its embedding starts as the target's, reduced to its own width (the leading singular directions), so that ids it
    rarely meets are not strangers. It is exported with its full tied head; a drafter may propose over the cut alone.
    """

    def __init__(
        self,
        config: LlamaConfig,
        target: FrozenTarget,
        records: Records,
        settings: TrainSettings,
        *,
        loss: str = "kl",
    ) -> None:
        """Raises ValueError for another vocabulary than the target's or an unknown loss."""
        if config.vocab_size != target.module.config.vocab_size:
            raise ValueError(
                f"the draft has {config.vocab_size} ids, the target {target.module.config.vocab_size}; "
                "expected the same"
            )
        module = TrainableLlama(config, seed=settings.seed)
        with torch.no_grad():
            embedding = target.embeddings(torch.arange(config.vocab_size)[None])[0].cpu()
            module.model.embed_tokens.weight.copy_(reduced(embedding, config.width))
        self.module = module.to(target.device)
        self._target, self._records, self._settings = target, records, settings
        self._loss_name, self._loss = loss, loss_named(loss)
        self._index = target.vocabulary.index.to(target.device)

    def loss(self, step: int) -> Tensor:
        settings = self._settings
        batch = record_batch(
            self._records.train, seed=settings.seed, step=step, batch=settings.batch, length=settings.length
        )
        states, draft = self._answers(batch)
        return self._loss(self._target.renormalised(states), draft).mean()

    def evaluate(self) -> dict[str, float]:
        """Acceptance on held-out answers at temperature 1 and 0, with proposals over the cut."""
        batch = padded(self._records.held_out[:_MEASURED], self._settings.length)
        states, draft = self._answers(batch)
        laws = self._target.laws(states)
        figures = acceptance_figures(laws.inside, draft)
        # the target's most probable token may lie outside the cut, where nothing is proposed
        agree = (laws.argmax == draft.argmax(dim=-1)).float()
        return {**figures, "greedy_alpha": float(agree.mean())}

    def identity(self) -> dict[str, Any]:
        config = self.module.config
        shape = {"width": config.width, "layers": config.layers, "ffn_width": config.ffn_width}
        vocabulary = {"cut": len(self._target.vocabulary)}
        return {"kind": "draft", **shape, **vocabulary, "loss": self._loss_name, **self._records.identity()}

    def _answers(self, batch: RecordBatch) -> tuple[Float[Tensor, "rows width"], Float[Tensor, "rows cut"]]:
        """Of every row whose next token is the answer's: the target's state, and the draft's log-probabilities."""
        counted = batch.answer[:, 1:].to(self._target.device)
        states = self.module(batch.tokens[:, :-1].to(self._target.device))[counted]
        logits = F.linear(states, self.module.model.embed_tokens.weight[self._index]).float()
        return self._target.batch_states(batch)[:, :-1][counted], logits.log_softmax(dim=-1)


def reduced(embedding: Tensor, width: int) -> Tensor:
    """The embedding in its `width` leading singular directions, at the scale of a fresh one (deviation 0.02)."""
    _, vectors = torch.linalg.eigh(embedding.T @ embedding)
    narrow = embedding @ vectors[:, -width:].flip(-1)
    return narrow * (0.02 / narrow.std())
