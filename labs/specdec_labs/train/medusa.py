"""The task of Medusa heads: tokens further ahead, from the state of the present one."""

from typing import Any

from jaxtyping import Float, Int
import torch
from torch import Tensor

from specdec_core.models.medusa import IGNORED, MedusaHeads, medusa_labels
from specdec_labs.train.frozen_target import FrozenTarget
from specdec_labs.train.records import RecordBatch, Records, padded, record_batch
from specdec_labs.train.settings import TrainSettings

_DECAY = 0.8  # weight of a head relative to the one before: what is further ahead is harder and used less
_RANKS = (1, 3, 10)
_MEASURED = 48


class MedusaTask:
    """Heads on a frozen target's states learn the target's law some tokens ahead, over the cut vocabulary."""

    def __init__(self, heads: int, target: FrozenTarget, records: Records, settings: TrainSettings) -> None:
        self.module = MedusaHeads(heads, target.module.config.width).to(target.device)
        self._measured: Tensor | None = None
        self._heads, self._target, self._records, self._settings = heads, target, records, settings

    def loss(self, step: int) -> Tensor:
        settings = self._settings
        batch = record_batch(
            self._records.train, seed=settings.seed, step=step, batch=settings.batch, length=settings.length
        )
        states, pairs = self._pairs(batch)
        # heads guess the same tokens from different rows: each law is worked out once
        rows, place = torch.cat([row for _, row in pairs]).unique(return_inverse=True)
        wanted = self._target.renormalised(states[rows]).exp()
        total, weights = torch.zeros((), device=self._target.device), 0.0
        for head, ((guessed, _), at) in enumerate(zip(pairs, place.split([len(row) for _, row in pairs]))):
            if not len(at):
                continue
            guess = self._target.cut_logits(guessed).log_softmax(dim=-1)
            weight = _DECAY**head
            total = total - weight * (wanted[at] * guess).sum(dim=-1).mean()
            weights += weight
        return total / max(weights, 1.0)

    def evaluate(self) -> dict[str, float]:
        """For each head (counted from 1) how often the target's most probable token is among its first 1, 3, 10."""
        batch = padded(self._records.held_out[:_MEASURED], self._settings.length)
        figures = {}
        states, pairs = self._pairs(batch)
        rows, place = torch.cat([row for _, row in pairs]).unique(return_inverse=True)
        if self._measured is None:
            self._measured = self._target.laws(states[rows]).argmax
        for head, ((guessed, _), at) in enumerate(zip(pairs, place.split([len(row) for _, row in pairs])), start=1):
            best = self._target.cut_logits(guessed).topk(max(_RANKS), dim=-1).indices
            hits = best == self._measured[at][:, None]
            figures |= {f"head{head}_top{rank}": float(hits[:, :rank].any(dim=-1).float().mean()) for rank in _RANKS}
        return figures

    def identity(self) -> dict[str, Any]:
        vocabulary = {"cut": len(self._target.vocabulary)}
        return {"kind": "medusa", "heads": self._heads, **vocabulary, **self._records.identity()}

    def _pairs(self, batch: RecordBatch) -> tuple[Float[Tensor, "all_rows width"], list[tuple[Tensor, Tensor]]]:
        """The target's states, and for each head what it makes and which of those states it is to speak for.

        Head k reads row t and speaks for row t + 1 + k: the one just before the token it guesses.
        """
        states = self._target.batch_states(batch)
        made, pairs, length = self.module(states), [], states.shape[1]
        for head, labels in enumerate(batch_labels(batch, self._heads)):
            sequence, row = torch.nonzero(labels.to(states.device) != IGNORED, as_tuple=True)
            pairs.append((made[head][sequence, row], sequence * length + row + 1 + head))
        return states.flatten(0, 1), pairs


def batch_labels(batch: RecordBatch, heads: int) -> Int[Tensor, "heads batch rows"]:
    """`medusa_labels` of every sequence, its padding left out."""
    labels = torch.full((heads, *batch.tokens.shape), IGNORED, dtype=torch.long)
    for place, answer in enumerate(batch.answer):
        inside = torch.nonzero(answer)[:, 0]
        if len(inside):
            first, end = int(inside[0]), int(inside[-1]) + 1
            labels[:, place, :end] = medusa_labels(batch.tokens[place, :end], first, heads)
    return labels
