"""The training loop: one task, one curve, whatever happens in between."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
import math
from pathlib import Path
import time
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from specdec_labs.data.generate import check_same
from specdec_labs.train.checkpoint import Checkpoint, load_checkpoint, run_hash
from specdec_labs.train.settings import TrainSettings, matrix_products


class Task(Protocol):
    """What is trained. The batch of a step depends on (seed, step) alone, so that a stopped run can go on."""

    @property
    def module(self) -> nn.Module:
        """What is trained; frozen parts are not in it, or need no gradient."""
        ...

    def loss(self, step: int) -> Tensor:
        """The mean loss of that step's batch."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Figures on held-out text."""
        ...

    def identity(self) -> dict[str, Any]:
        """What is trained on what: kind, shape, data and hashes; a resumed run must have the same."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands; `seconds_left` is from the pace of this call."""

    step: int
    steps: int
    loss: float
    seconds_left: float
    evaluation: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run's curve: the loss of every step, and the evaluations with their steps; `trained` is what on what."""

    curve: list[float]
    evaluations: list[dict[str, Any]]
    seconds: float
    trained: dict[str, Any]


def train(
    task: Task,
    settings: TrainSettings,
    folder: Path,
    *,
    stop_after: int | None = None,
    begin_with: Path | None = None,
    progress: Callable[[Progress], None] = lambda line: None,
) -> Outcome:
    """Trains from the checkpoint in `folder`, or from the start, to the last step of `settings`.

    Ctrl-C saves and raises `KeyboardInterrupt`; after a kill at most `save_every` steps are done again. Either way
    the curve is the one of an unbroken run. `stop_after` ends this call after so many steps. `begin_with` is the folder
    of an earlier run whose weights the first step starts from, with a fresh optimiser.

    Raises:
        ValueError: the folder holds a run of another task or other settings, or began with other weights; they are
            named. Or `begin_with` holds no run, or one of another model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    description = {"task": task.identity(), "settings": asdict(settings)}
    if begin_with is not None:
        description["task"]["began_with"] = run_hash(begin_with)
    run = _Run(task, settings, folder, description)
    run.resume(begin_with)
    task.module.train()
    start, first = time.perf_counter(), run.step
    last = settings.steps if stop_after is None else min(settings.steps, first + stop_after)
    try:
        while run.step < last:
            loss, evaluation = run.advance()
            pace = (time.perf_counter() - start) / (run.step - first)
            progress(Progress(run.step, settings.steps, loss, pace * (settings.steps - run.step), evaluation))
    finally:
        run.save()
    return Outcome(run.curve, run.evaluations, time.perf_counter() - start, description["task"])


class _Run:
    """A run in memory."""

    def __init__(self, task: Task, settings: TrainSettings, folder: Path, description: dict[str, Any]) -> None:
        self.task, self.settings, self.folder, self.description = task, settings, folder, description
        self.step = 0
        self.curve: list[float] = []
        self.evaluations: list[dict[str, Any]] = []
        self._whole = True  # weights, curve and evaluations belong to the same step
        self._saved: int | None = None
        self._parameters = [parameter for parameter in task.module.parameters() if parameter.requires_grad]
        self._device = self._parameters[0].device
        # a vector (a norm, a bias) is not pulled towards zero
        matrices = [parameter for parameter in self._parameters if parameter.ndim > 1]
        vectors = [parameter for parameter in self._parameters if parameter.ndim <= 1]
        self._optimiser = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
            lr=settings.rate,
            betas=(0.9, settings.beta2),
        )

    def resume(self, begin_with: Path | None) -> None:
        found = load_checkpoint(self.folder)
        if found is None:
            earlier = None if begin_with is None else load_checkpoint(begin_with)
            if earlier is not None:
                earlier.copy_weights(self.task.module)
            return
        check_same(self.folder, found.description["task"], self.description["task"])
        check_same(self.folder, found.description["settings"], self.description["settings"])
        found.restore(self.task.module, self._optimiser)
        self.step, self.curve, self.evaluations = found.step, found.curve, found.evaluations
        self._saved = found.step

    def advance(self) -> tuple[float, dict[str, Any] | None]:
        """One step; the loss, and the figures when it was time for them."""
        for group in self._optimiser.param_groups:
            group["lr"] = self.settings.rate_at(self.step)
        with matrix_products(self.settings.precision, self._device):
            loss = self.task.loss(self.step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._parameters, self.settings.clip)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ValueError(f"the loss of step {self.step} is {value}; lower the rate ({self.settings.rate})")
        self._whole = False
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self.curve.append(value)
        self.step += 1
        evaluation = self._evaluate()
        self._whole = True
        if self.step % self.settings.save_every == 0:
            self.save()
        return value, evaluation

    def _evaluate(self) -> dict[str, Any] | None:
        if self.step % self.settings.evaluate_every and self.step != self.settings.steps:
            return None
        self.task.module.eval()
        try:
            with torch.no_grad(), matrix_products(self.settings.precision, self._device):
                figures = self.task.evaluate()
        finally:
            self.task.module.train()
        self.evaluations.append({"step": self.step, **figures})
        # a copy: what `progress` does with it must not reach the checkpoint
        return dict(self.evaluations[-1])

    def save(self) -> None:
        # an interrupt amid an update or an evaluation: the previous checkpoint is the one to go on from
        if self._saved == self.step or not self._whole:
            return
        state = Checkpoint.of(
            self.task.module,
            self._optimiser,
            step=self.step,
            description=self.description,
            evaluations=self.evaluations,
            curve=self.curve,
        )
        state.save(self.folder)
        self._saved = self.step
