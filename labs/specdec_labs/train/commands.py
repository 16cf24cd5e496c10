"""What `specdec train` does: put a task together, train it, export it, write the report."""

from collections.abc import Callable
from dataclasses import dataclass, replace
import json
from pathlib import Path
import shutil
from typing import Any

import torch

from specdec_core.models.head_file import HeadFile, write_head
from specdec_core.models.llama_folder import load_trainable, save_llama, weights_hash
from specdec_core.models.trainable import TrainableLlama
from specdec_core.whole_file import write_whole
from specdec_labs.data.sources import Domain
from specdec_labs.train import defaults, shapes
from specdec_labs.train.checkpoint import load_checkpoint
from specdec_labs.train.draft import DraftTask
from specdec_labs.train.eagle import EagleTask
from specdec_labs.train.language_model import LanguageModelTask
from specdec_labs.train.loop import Outcome, Progress, Task, train
from specdec_labs.train.medusa import MedusaTask
from specdec_labs.train.pace import with_steps
from specdec_labs.train.record_draft import RecordDraftTask
from specdec_labs.train.report import write_report
from specdec_labs.train.settings import TrainSettings
from specdec_labs.train.smollm2 import Teacher, smollm2_teacher
from specdec_labs.train.streams import TOKENIZER, load_streams

Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What all commands share. None keeps the default of the command."""

    folder: Path
    steps: int | None = None
    minutes: float | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"

    def place(self) -> torch.device:
        """The device. ValueError when it is not there."""
        if self.device not in ("cpu", "cuda", "auto"):
            raise ValueError(f"device is {self.device!r}; expected cpu, cuda or auto")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device is 'cuda', but torch sees no CUDA device here; use cpu or auto")
        return torch.device("cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu")

    def settings(self, default: TrainSettings) -> TrainSettings:
        """The command's settings with what was given."""
        from specdec_labs.data.batch_decoder import product_dtype

        able = str(product_dtype(self.place())).removeprefix("torch.")
        chosen = able if self.precision == "auto" else self.precision
        return replace(default, steps=self.steps or default.steps, seed=self.seed, precision=chosen)


def train_tiny(options: RunOptions, streams_folder: Path, domains: tuple[Domain, ...], report: Report) -> str:
    """The tiny target on the corpus; exported as a folder. A line that says what came of it."""
    streams = load_streams(streams_folder)

    def make(settings: TrainSettings) -> LanguageModelTask:
        return LanguageModelTask(shapes.TINY_TARGET, streams, settings, domains=domains, device=options.place())

    task, outcome = _run(options, defaults.TINY_TARGET, make, "tiny target", report)
    return _export_llama(options.folder, task, outcome, streams_folder / TOKENIZER)


def train_tiny_draft(
    options: RunOptions, streams_folder: Path, target: Path, loss: str, domains: tuple[Domain, ...], report: Report
) -> str:
    """The tiny draft on the law of the target in that folder."""
    streams = load_streams(streams_folder)
    digest = weights_hash(target)
    _check_tokenizer(target / TOKENIZER, streams_folder / TOKENIZER)
    teacher = load_trainable(target)

    def make(settings: TrainSettings) -> DraftTask:
        return DraftTask(
            shapes.TINY_DRAFT,
            teacher,
            digest,
            streams,
            settings,
            loss=loss,
            domains=domains,
            device=options.place(),
        )

    task, outcome = _run(options, defaults.TINY_DRAFT, make, "tiny draft", report)
    return _export_llama(options.folder, task, outcome, streams_folder / TOKENIZER)


def train_smollm2_draft(options: RunOptions, records: Path, count: int | None, loss: str, report: Report) -> str:
    """A small draft of SmolLM2 on its own text; exported as a folder with the full tied head."""
    teacher = _teacher(options, records, count)
    config = shapes.smollm2_draft(teacher.config)

    def make(settings: TrainSettings) -> RecordDraftTask:
        return RecordDraftTask(config, teacher.target, teacher.records, settings, loss=loss)

    task, outcome = _run(options, defaults.SMOLLM2_DRAFT, make, "draft of SmolLM2", report)
    return _export_llama(options.folder, task, outcome, None)


def train_medusa(options: RunOptions, records: Path, count: int | None, heads: int, report: Report) -> str:
    """Medusa heads of SmolLM2 on its own text; exported as one file."""
    teacher = _teacher(options, records, count)

    def make(settings: TrainSettings) -> MedusaTask:
        return MedusaTask(heads, teacher.target, teacher.records, settings)

    task, outcome = _run(options, defaults.MEDUSA, make, "Medusa heads of SmolLM2", report)
    return _export_head(options.folder, "medusa", {"heads": heads}, task, outcome, teacher)


def train_eagle(
    options: RunOptions, records: Path, count: int | None, ffn_width: int, steps_ahead: int, report: Report
) -> str:
    """An EAGLE head of SmolLM2 on its own text; exported as one file."""
    teacher = _teacher(options, records, count)

    def make(settings: TrainSettings) -> EagleTask:
        return EagleTask(ffn_width, teacher.target, teacher.records, settings, steps_ahead=steps_ahead)

    task, outcome = _run(options, defaults.EAGLE, make, "EAGLE head of SmolLM2", report)
    return _export_head(options.folder, "eagle", {"ffn_width": ffn_width}, task, outcome, teacher)


def _teacher(options: RunOptions, records: Path, count: int | None) -> Teacher:
    """SmolLM2 and its records; a run that goes on keeps the number of records it began with."""
    found = load_checkpoint(options.folder)
    if count is None and found is not None:
        count = found.description["task"].get("records")
    precision = options.settings(defaults.EAGLE).precision
    return smollm2_teacher(records, count=count, device=options.place(), precision=precision)


def _run(
    options: RunOptions, default: TrainSettings, make: Callable[[TrainSettings], Task], title: str, report: Report
) -> tuple[Task, Outcome]:
    options.folder.mkdir(parents=True, exist_ok=True)
    settings = with_steps(options.settings(default), options.folder, make, minutes=options.minutes)
    task = make(settings)
    outcome = train(task, settings, options.folder, progress=report)
    write_report(options.folder, title, task.identity(), outcome)
    return task, outcome


def _card(task: Task, outcome: Outcome) -> dict[str, Any]:
    measured = outcome.evaluations[-1] if outcome.evaluations else {}
    return {"trained": task.identity(), "steps": len(outcome.curve), "held_out": measured}


def _export_llama(folder: Path, task: Task, outcome: Outcome, tokenizer: Path | None) -> str:
    assert isinstance(task.module, TrainableLlama)
    digest = save_llama(task.module, folder / "model")
    if tokenizer is not None:
        shutil.copyfile(tokenizer, folder / "model" / TOKENIZER)
    card = {**_card(task, outcome), "sha256": digest}
    write_whole(folder / "model" / "card.json", json.dumps(card, indent=1) + "\n")
    return f"{folder / 'model'}: {_figures(outcome)}"


def _export_head(folder: Path, kind: str, shape: dict[str, int], task: Task, outcome: Outcome, teacher: Teacher) -> str:
    path = folder / f"{kind}.safetensors"
    tensors = dict(task.module.state_dict())
    head = HeadFile(
        kind, shape, teacher.records.target_sha256, teacher.target.vocabulary, _card(task, outcome), tensors
    )
    write_head(path, head)
    return f"{path}: {_figures(outcome)}"


def _figures(outcome: Outcome) -> str:
    last = outcome.evaluations[-1] if outcome.evaluations else {}
    return ", ".join(f"{name} {value:.3f}" for name, value in last.items() if name != "step")


def _check_tokenizer(target: Path, streams: Path) -> None:
    """ValueError unless target and text were made with one tokenizer."""
    from specdec_labs.data.manifest import file_hash

    if not target.is_file():
        raise ValueError(f"{target}: no such file; the target's folder has no tokenizer beside the weights")
    left, right = file_hash(target), file_hash(streams)
    if left != right:
        raise ValueError(
            f"the target's tokenizer has sha256 {left}, the text's {right}; "
            "train the target again on this text, or take the text it was trained on"
        )
