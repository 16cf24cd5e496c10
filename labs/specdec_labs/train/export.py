"""What a run leaves behind: weights as files that load without the run, and a card that says what they are."""

from dataclasses import asdict
import json
from pathlib import Path
import shutil
from typing import Any

import torch
from torch import Tensor

from specdec_core.hardware import describe_hardware
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.head_file import HeadFile, read_safetensors, write_head
from specdec_core.models.llama_folder import WEIGHTS, save_llama
from specdec_core.models.shipped import CARD, CUT, TOKENIZER
from specdec_core.models.trainable import TrainableLlama
from specdec_core.whole_file import write_whole
from specdec_labs.data.manifest import file_hash
from specdec_labs.train.loop import Outcome, Task
from specdec_labs.train.settings import TrainSettings, matrix_products
from specdec_labs.train.smollm2 import Teacher


def export_llama(
    folder: Path,
    task: Task,
    outcome: Outcome,
    settings: TrainSettings,
    *,
    tokenizer: Path | None = None,
    vocabulary: CutVocabulary | None = None,
) -> str:
    """`folder/model`: weights in float16, config, card, tokenizer or the ids proposed; its figures as a line."""
    assert isinstance(task.module, TrainableLlama)
    model = folder / "model"
    save_llama(task.module, model)
    if tokenizer is not None:
        shutil.copyfile(tokenizer, model / TOKENIZER)
    if vocabulary is not None:
        write_whole(model / CUT, json.dumps(vocabulary.ids, separators=(",", ":")) + "\n")
    stored, _ = read_safetensors(model / WEIGHTS)
    card = _card(task, outcome, settings, stored, file_hash(model / WEIGHTS))
    write_whole(model / CARD, json.dumps(card, indent=1) + "\n")
    return f"{model}: {_figures(card['held_out'])}"


def export_head(
    folder: Path,
    kind: str,
    shape: dict[str, int],
    task: Task,
    outcome: Outcome,
    settings: TrainSettings,
    teacher: Teacher,
) -> str:
    """`folder/KIND.safetensors`, weights in float16, and a card beside it; its figures as a line."""
    path, tensors = folder / f"{kind}.safetensors", dict(task.module.state_dict())
    about = {"trained": outcome.trained, "steps": len(outcome.curve)}
    vocabulary = teacher.target.vocabulary
    write_head(path, HeadFile(kind, shape, teacher.records.target_sha256, vocabulary, about, tensors))
    stored, _ = read_safetensors(path)
    card = _card(task, outcome, settings, {name: stored[name] for name in tensors}, file_hash(path))
    card["target_sha256"] = teacher.records.target_sha256
    card["answer_tokens"] = teacher.records.answer_tokens()
    write_whole(folder / CARD, json.dumps(card, indent=1) + "\n")
    return f"{path}: {_figures(card['held_out'])}"


def _card(
    task: Task, outcome: Outcome, settings: TrainSettings, stored: dict[str, Tensor], sha256: str
) -> dict[str, Any]:
    """`held_out` is measured with the weights as the file has them, `before_rounding` is the run's last figure."""
    with torch.no_grad():
        for name, tensor in task.module.state_dict().items():
            tensor.copy_(stored[name])
        device = next(task.module.parameters()).device
        with matrix_products(settings.precision, device):
            held_out = task.evaluate()
    card = {
        "sha256": sha256,
        "parameters": sum(tensor.numel() for tensor in stored.values()),
        "stored_as": "float16",
        "trained": outcome.trained,
        "settings": asdict(settings),
        "steps": len(outcome.curve),
        "seed": settings.seed,
        "held_out": held_out,
        "before_rounding": {k: v for k, v in (outcome.evaluations or [{}])[-1].items() if k != "step"},
        "learning_curve": outcome.evaluations,
        "hardware": describe_hardware(),
    }
    if "target_sha256" in outcome.trained:
        card["target_sha256"] = outcome.trained["target_sha256"]
    return card


def _figures(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
