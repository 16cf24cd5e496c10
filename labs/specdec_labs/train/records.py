"""A target's own text as training batches."""

from collections.abc import Sequence
from dataclasses import dataclass
import hashlib
import itertools
from pathlib import Path
from typing import Any

from jaxtyping import Bool, Int
import numpy as np
import torch
from torch import Tensor

from specdec_core.models.protocol import Tokenizer
from specdec_core.prompts import overlaps
from specdec_labs.data.generate import GENERATE_HINT, check_same
from specdec_labs.data.manifest import read_manifest
from specdec_labs.data.shards import Record, read_records

_HELD_OUT_EVERY = 20


@dataclass(frozen=True, slots=True, eq=False)
class RecordBatch:
    """Sequences padded with zeros on the right; `answer[b, t]` is True where token t of sequence b is the answer's.

    `records` are what they were taken from; of record b the first `cuts[b]` tokens were left out.
    """

    tokens: Int[Tensor, "batch rows"]
    answer: Bool[Tensor, "batch rows"]
    records: tuple[Record, ...]
    cuts: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Records to train on and, by whole requests, to measure on. `sha256` is that of all their ids."""

    train: tuple[Record, ...]
    held_out: tuple[Record, ...]
    target_sha256: str
    sha256: str

    def identity(self) -> dict[str, Any]:
        """What decides a curve over these records."""
        count = len(self.train) + len(self.held_out)
        return {"target_sha256": self.target_sha256, "records": count, "records_sha256": self.sha256}

    def answer_tokens(self) -> int:
        """Tokens of the answers that are trained on."""
        return sum(len(record.tokens) - record.prompt_length for record in self.train)


def load_records(folder: Path, tokenizer: Tokenizer, target_sha256: str, *, count: int | None = None) -> Records:
    """The first `count` usable records of the shards in `folder`, all of them by default.

    Shards are only appended to, so the first `count` stay the same while more are made. Records without an answer,
    and those that repeat an evaluation prompt, are left out before counting.

    Raises:
        ValueError: text of another model than the target (both hashes are named), or too few records.
    """
    manifest = read_manifest(folder, GENERATE_HINT)
    check_same(folder, {"model_sha256": manifest.get("model_sha256")}, {"model_sha256": target_sha256})
    usable = (
        record
        for record in read_records(folder)
        if record.finish != "no_prompt" and not overlaps(tokenizer.decode(record.tokens[: record.prompt_length]))
    )
    found = tuple(itertools.islice(usable, count))
    train = tuple(record for record in found if record.index % _HELD_OUT_EVERY)
    held_out = tuple(record for record in found if record.index % _HELD_OUT_EVERY == 0)
    if not train or not held_out or (count is not None and len(found) < count):
        raise ValueError(
            f"{folder}: {len(found)} usable records, {len(held_out)} of them held out; "
            f"expected {count or 'some of each'} - {GENERATE_HINT}"
        )
    digest = hashlib.sha256()
    for record in found:
        digest.update(np.array([record.index, record.prompt_length, *record.tokens], dtype="<i4").tobytes())
    return Records(train, held_out, target_sha256, digest.hexdigest())


def record_batch(records: Sequence[Record], *, seed: int, step: int, batch: int, length: int) -> RecordBatch:
    """The batch of a step: every record once an epoch, in an order drawn from (seed, epoch)."""
    chosen = []
    for place in range(step * batch, (step + 1) * batch):
        epoch, index = divmod(place, len(records))
        chosen.append(records[_order(seed, epoch, len(records))[index]])
    return padded(chosen, length)


def _order(seed: int, epoch: int, count: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(count)


def padded(records: Sequence[Record], length: int) -> RecordBatch:
    """These records, each cut to `length` tokens: of a longer one the start of the prompt goes first."""
    rows = min(length, max(len(record.tokens) for record in records))
    tokens, answer = (
        torch.zeros(len(records), rows, dtype=torch.long),
        torch.zeros(len(records), rows, dtype=torch.bool),
    )
    cuts = tuple(max(0, len(record.tokens) - rows) for record in records)
    for place, (record, cut) in enumerate(zip(records, cuts)):
        kept = record.tokens[cut:]
        tokens[place, : len(kept)] = torch.tensor(kept)
        answer[place, max(0, record.prompt_length - cut) : len(kept)] = True
    return RecordBatch(tokens, answer, tuple(records), cuts)
