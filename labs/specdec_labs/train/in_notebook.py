"""A draft for the tiny target, trained while you watch: on the text that comes with the lab, in minutes on a CPU."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
import tempfile

import numpy as np
import torch

from specdec_core.models.byte_bpe import TextTokenizer, load_text_tokenizer
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_folder import load_trainable, weights_hash
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.shipped import FOLDER, TINY_TARGET, TOKENIZER
from specdec_core.models.trainable import TrainableLlama, reader_of
from specdec_labs.data.batch_decoder import product_dtype
from specdec_labs.data.corpus import SAMPLE, SPLITS, documents
from specdec_labs.data.manifest import MANIFEST, file_hash
from specdec_labs.train.draft import DraftTask
from specdec_labs.train.loop import Outcome, Progress, train
from specdec_labs.train.pace import with_steps
from specdec_labs.train.settings import TrainSettings
from specdec_labs.train.shapes import TINY_DRAFT
from specdec_labs.train.streams import DOMAINS, Streams

SETTINGS = TrainSettings(steps=300, batch=8, length=128, rate=4e-3, warmup=20, evaluate_every=25, save_every=100)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedDraft:
    """A draft that the engine takes, the figures before the first step, and the run.

    Figures are `alpha_prose`, `alpha_code` (temperature 1) and `greedy_alpha_prose`, `greedy_alpha_code`.
    """

    draft: Llama
    before: dict[str, float]
    outcome: Outcome

    @property
    def after(self) -> dict[str, float]:
        """The last figures."""
        return {name: value for name, value in self.outcome.evaluations[-1].items() if name != "step"}


def train_tiny_draft(
    *,
    minutes: float | None = 2.0,
    settings: TrainSettings | None = None,
    shape: LlamaConfig = TINY_DRAFT,
    loss: str = "tv",
    target: Path = FOLDER / TINY_TARGET,
    folder: Path | None = None,
    progress: Callable[[Progress], None] = lambda at: None,
) -> TrainedDraft:
    """A draft that learns the law of the target in that folder from 120 KB of text.

    The default loss is 1 - alpha itself: of the three it raises alpha fastest (docs/training.md).

    `settings` are by default `SETTINGS` in the format this processor multiplies in. `minutes` chooses the steps by the
    pace of this machine; None takes those of the settings. With a `folder` the run
    is kept there, and goes on there after a Ctrl-C.

    Raises:
        ValueError: as `DraftTask` and `train`.
    """
    if settings is None:
        able = str(product_dtype(torch.device("cpu"))).removeprefix("torch.")
        settings = replace(SETTINGS, precision=able)
    tokenizer = load_text_tokenizer(target / TOKENIZER)
    streams, teacher = sample_streams(tokenizer, target / TOKENIZER), load_trainable(target)
    digest = weights_hash(target)
    with tempfile.TemporaryDirectory() as scratch:
        run = folder or Path(scratch)

        def make(chosen: TrainSettings) -> DraftTask:
            return DraftTask(shape, teacher, digest, streams, chosen, loss=loss)

        chosen = with_steps(settings, run, make, minutes=minutes)
        task = make(chosen)
        with torch.no_grad():
            before = task.evaluate()
        outcome = train(task, chosen, run, progress=progress)
    assert isinstance(task.module, TrainableLlama)
    return TrainedDraft(llama_from_tensors(task.module.config, reader_of(task.module), tied=True), before, outcome)


def sample_streams(tokenizer: TextTokenizer, tokenizer_file: Path, corpus: Path = SAMPLE) -> Streams:
    """The sample corpus in the ids of a tokenizer that is there already."""
    ids = {}
    for split in SPLITS:
        for domain in DOMAINS:
            stream: list[int] = []
            for document in documents(corpus, split, domain=domain):
                stream += [tokenizer.start_id, *tokenizer.encode(document.text)]
            ids[split, domain] = np.array(stream, dtype="<u2")
    return Streams(tokenizer, file_hash(tokenizer_file), file_hash(corpus / MANIFEST), ids)
