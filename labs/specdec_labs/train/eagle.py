"""The task of an EAGLE head: the target's next state and law, over one step or several of its own."""

from typing import Any

from jaxtyping import Bool, Float
import torch
from torch import Tensor
import torch.nn.functional as F

from specdec_core.models.eagle import EagleHead, shifted
from specdec_core.models.trainable import Passes
from specdec_labs.train.frozen_target import CutLaws, FrozenTarget
from specdec_labs.train.records import RecordBatch, Records, padded, record_batch
from specdec_labs.train.settings import TrainSettings

_MEASURED = 48
MEASURED_STEPS = 4
_KEPT = 0.7


class EagleTask:
    """One layer on a frozen target; loss: soft cross-entropy over the cut plus smooth L1 on the state.

    `steps_ahead` above 1 trains on the head's own states too, as it meets them while drafting; not before the share
    `ahead_after` of the run is over, since further passes cost time and teach little while the first is poor.
    """

    def __init__(
        self,
        ffn_width: int,
        target: FrozenTarget,
        records: Records,
        settings: TrainSettings,
        *,
        steps_ahead: int = 1,
        ahead_after: float = 0.0,
        regression: float = 0.1,
    ) -> None:
        """Raises ValueError for no step, a share outside 0..1, or a negative weight of the regression."""
        if steps_ahead < 1 or regression < 0:
            raise ValueError(
                f"steps_ahead is {steps_ahead} and regression {regression}; expected at least 1, and at least 0"
            )
        if not 0 <= ahead_after <= 1:
            raise ValueError(f"ahead_after is {ahead_after}; expected a share of the run between 0 and 1")
        head = EagleHead(target.module.config, ffn_width=ffn_width, seed=settings.seed)
        with torch.no_grad():
            # the head's last norm writes what the target's last norm does
            head.norm.weight.copy_(target.module.model.norm.weight)
            # it begins as the state it was fed: in the space the target's vocabulary reads, near the state after it
            head.join.weight[:, : head.config.width] += _KEPT * torch.eye(head.config.width)
        self.module = head.to(target.device)
        self._target, self._records, self._settings = target, records, settings
        self._measured: CutLaws | None = None
        self._steps_ahead, self._ahead_after, self._regression = steps_ahead, ahead_after, regression

    def loss(self, step: int) -> Tensor:
        settings = self._settings
        batch = record_batch(
            self._records.train, seed=settings.seed, step=step, batch=settings.batch, length=settings.length
        )
        ahead = self._steps_ahead if step >= self._ahead_after * settings.steps else 1
        states, made, counted = self._passes(batch, ahead)
        # the head reads a row for each entry of its vocabulary: only rows that count are worth it
        answers = counted[0]
        following = states[:, 1:-1][answers]
        wanted = self._target.renormalised(following).exp()
        total = torch.zeros((), device=self._target.device)
        for own, mask in zip(made, counted):
            kept = mask[answers]
            found = own[answers][kept]
            guess = self._target.cut_logits(found).log_softmax(dim=-1)
            entropy = -(wanted[kept] * guess).sum(dim=-1)
            distance = F.smooth_l1_loss(found, following[kept], reduction="none").mean(dim=-1)
            total = total + (entropy + self._regression * distance).mean()
        return total / ahead

    def evaluate(self) -> dict[str, float]:
        """By step of a draft: agreement with the target's argmax, acceptance at temperature 1; tokens per round.

        `chain4` is exact for greedy answers: what a chain of four drafts would emit per round, on every row.
        """
        records = self._records.held_out[:_MEASURED]
        batch = padded(records, self._settings.length)
        greedy = torch.tensor([record.temperature == 0 for record in records])
        states, made, counted = self._passes(batch, MEASURED_STEPS)
        answers = counted[0]
        if self._measured is None:
            self._measured = self._target.laws(states[:, 1:-1][answers])
        inside, best = self._measured.inside.exp(), self._measured.argmax
        wanted = self._measured.renormalised.exp()
        figures, agreements = {}, []
        for step, (own, mask) in enumerate(zip(made, counted), start=1):
            guess, kept = self._target.cut_logits(own[answers]).log_softmax(dim=-1), mask[answers]
            if step == 1:
                # beside the loss of training: a gap between the two says that the text is too little
                figures["loss1"] = -float((wanted * guess).sum(dim=-1).mean())
            law = guess.exp()
            agree = law.argmax(dim=-1) == best
            figures[f"agree{step}"] = float(agree[kept].float().mean())
            figures[f"alpha{step}"] = float(torch.minimum(law, inside).sum(dim=-1)[kept].mean())
            agreements.append(torch.zeros_like(answers).masked_scatter(answers, agree))
        if bool(greedy.any()):
            figures["chain4"] = _chain_length(agreements, counted, greedy.to(states.device))
        return figures

    def identity(self) -> dict[str, Any]:
        shape = {"ffn_width": self.module.config.ffn_width, "cut": len(self._target.vocabulary)}
        learnt = {"steps_ahead": self._steps_ahead, "ahead_after": self._ahead_after, "regression": self._regression}
        return {"kind": "eagle", **shape, **learnt, **self._records.identity()}

    def _passes(
        self, batch: RecordBatch, steps: int
    ) -> tuple[Float[Tensor, "batch rows width"], list[Tensor], list[Bool[Tensor, "batch pairs"]]]:
        """The target's states, and for each step of a draft the head's states and the rows that count.

        Row j of a step continues the pair (state j, token j + 1): it stands for state j + 1 and token j + 2, and
        counts when that token is the answer's. At step s it was fed its own state s - 1 rows before.
        """
        states = self._target.batch_states(batch)
        embeddings = self._target.embeddings(batch.tokens[:, 1:-1])
        answer = batch.answer[:, 2:].to(states.device)
        passes: Passes = []
        fed, made, counted = states[:, :-2], [], []
        for step in range(steps):
            own = self.module(fed, embeddings, passes)
            mask = answer.clone()
            mask[:, :step] = False
            made.append(own)
            counted.append(mask)
            fed = shifted(own)
        return states, made, counted


def _chain_length(agreements: list[Tensor], counted: list[Tensor], greedy: Bool[Tensor, " batch"]) -> float:
    """Tokens per round of a greedy chain, the target's own included: 1 + the sum over depths of P(all agree so far).

    A draft that starts behind row j has its step s on row j + s - 1. Rows too near the end for the whole chain are
    left out, so that every depth is measured on the same starts.
    """
    rows = agreements[0].shape[1] - len(agreements) + 1
    if rows < 1:
        return 1.0
    alive = torch.ones_like(agreements[0][:, :rows])
    starts = alive & greedy[:, None]
    for step, mask in enumerate(counted):
        # padding behind the answer has no next token to agree on
        starts = starts & mask[:, step : step + rows]
    total = starts.float().sum().clamp(min=1.0)
    length = 1.0
    for step, agree in enumerate(agreements):
        alive = alive & agree[:, step : step + rows]
        length += float((alive & starts).float().sum() / total)
    return length
