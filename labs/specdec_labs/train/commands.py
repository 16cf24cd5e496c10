"""What `specdec train` does: put a task together, train it, export it, write the report."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from specdec_core.models.llama_folder import load_trainable, weights_hash
from specdec_labs.data.sources import Domain
from specdec_labs.train import defaults, shapes
from specdec_labs.train.checkpoint import load_checkpoint
from specdec_labs.train.draft import DraftTask
from specdec_labs.train.eagle import EagleTask
from specdec_labs.train.export import export_head, export_llama
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
    """What all commands share. None keeps the default of the command.

    `prepared` is told how many of the records whose states were missing are done.
    """

    folder: Path
    steps: int | None = None
    minutes: float | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    begin_with: Path | None = None
    rate: float | None = None
    prepared: Callable[[int, int], None] = lambda done, missing: None

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
        # 0 is no default: the settings refuse it by name
        chosen_steps = default.steps if self.steps is None else self.steps
        rate = default.rate if self.rate is None else self.rate
        return replace(default, steps=chosen_steps, rate=rate, seed=self.seed, precision=chosen)


def train_tiny(options: RunOptions, streams_folder: Path, domains: tuple[Domain, ...], report: Report) -> str:
    """The tiny target on the corpus; exported as a folder. A line that says what came of it."""
    streams = load_streams(streams_folder)

    def make(settings: TrainSettings) -> LanguageModelTask:
        return LanguageModelTask(shapes.TINY_TARGET, streams, settings, domains=domains, device=options.place())

    task, outcome, settings = _run(options, defaults.TINY_TARGET, make, "tiny target", report)
    return export_llama(options.folder, task, outcome, settings, tokenizer=streams_folder / TOKENIZER)


def train_tiny_draft(
    options: RunOptions, streams_folder: Path, target: Path, loss: str, domains: tuple[Domain, ...], report: Report
) -> str:
    """The tiny draft on the law of the target in that folder."""
    streams = load_streams(streams_folder)
    digest = weights_hash(target)
    check_tokenizer(target / TOKENIZER, streams_folder / TOKENIZER)
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

    task, outcome, settings = _run(options, defaults.TINY_DRAFT, make, "tiny draft", report)
    return export_llama(options.folder, task, outcome, settings, tokenizer=streams_folder / TOKENIZER)


def train_smollm2_draft(options: RunOptions, records: Path, count: int | None, loss: str, report: Report) -> str:
    """A small draft of SmolLM2 on its own text; exported as a folder with the full tied head."""
    teacher = _teacher(options, records, count)
    config = shapes.smollm2_draft(teacher.config)

    def make(settings: TrainSettings) -> RecordDraftTask:
        return RecordDraftTask(config, teacher.target, teacher.records, settings, loss=loss)

    task, outcome, settings = _run(options, defaults.SMOLLM2_DRAFT, make, "draft of SmolLM2", report)
    return export_llama(options.folder, task, outcome, settings, vocabulary=teacher.target.vocabulary)


def train_medusa(options: RunOptions, records: Path, count: int | None, heads: int, report: Report) -> str:
    """Medusa heads of SmolLM2 on its own text; exported as one file."""
    teacher = _teacher(options, records, count)

    def make(settings: TrainSettings) -> MedusaTask:
        return MedusaTask(heads, teacher.target, teacher.records, settings)

    task, outcome, settings = _run(options, defaults.MEDUSA, make, "Medusa heads of SmolLM2", report)
    return export_head(options.folder, "medusa", {"heads": heads}, task, outcome, settings, teacher)


def train_eagle(
    options: RunOptions,
    records: Path,
    count: int | None,
    report: Report,
    *,
    ffn_width: int,
    steps_ahead: int,
    ahead_after: float,
) -> str:
    """An EAGLE head of SmolLM2 on its own text; exported as one file."""
    teacher = _teacher(options, records, count)

    def make(settings: TrainSettings) -> EagleTask:
        return EagleTask(
            ffn_width, teacher.target, teacher.records, settings, steps_ahead=steps_ahead, ahead_after=ahead_after
        )

    task, outcome, settings = _run(options, defaults.EAGLE, make, "EAGLE head of SmolLM2", report)
    return export_head(options.folder, "eagle", {"ffn_width": ffn_width}, task, outcome, settings, teacher)


def _teacher(options: RunOptions, records: Path, count: int | None) -> Teacher:
    """SmolLM2 and its records; a run that goes on keeps the number of records it began with."""
    found = load_checkpoint(options.folder)
    if count is None and found is not None:
        count = found.description["task"].get("records")
    precision = options.settings(defaults.EAGLE).precision
    return smollm2_teacher(records, count=count, device=options.place(), precision=precision, progress=options.prepared)


def _run(
    options: RunOptions, default: TrainSettings, make: Callable[[TrainSettings], Task], title: str, report: Report
) -> tuple[Task, Outcome, TrainSettings]:
    options.folder.mkdir(parents=True, exist_ok=True)
    settings = with_steps(options.settings(default), options.folder, make, minutes=options.minutes)
    task = make(settings)
    outcome = train(task, settings, options.folder, begin_with=options.begin_with, progress=report)
    write_report(options.folder, title, outcome.trained, outcome)
    return task, outcome, settings


def check_tokenizer(target: Path, streams: Path) -> None:
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
