"""The corpus as token streams on disk, and windows of them by (seed, step)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Int
import numpy as np
import torch
from torch import Tensor

from specdec_core.models.byte_bpe import TextTokenizer, load_text_tokenizer, train_byte_bpe
from specdec_labs.data.corpus import SPLITS, Split, documents
from specdec_labs.data.manifest import MANIFEST, check_file, file_hash, read_manifest, write_manifest
from specdec_labs.data.sources import Domain

DOMAINS: tuple[Domain, ...] = ("prose", "code")
VOCABULARY = 4096
STREAM_HINT = "make it with `specdec train tokens`"
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """Token ids of every split and domain, and the tokenizer that made them."""

    tokenizer: TextTokenizer
    tokenizer_sha256: str
    corpus_sha256: str
    ids: dict[tuple[Split, Domain], np.ndarray]

    def identity(self) -> dict[str, Any]:
        """What decides a curve over these streams."""
        return {"tokenizer_sha256": self.tokenizer_sha256, "corpus_sha256": self.corpus_sha256}


def make_streams(corpus: Path, folder: Path, *, vocabulary: int = VOCABULARY) -> Streams:
    """Trains the tokenizer on the training split of `corpus`, encodes everything, writes both below `folder`.

    Raises:
        ValueError: the corpus is missing or changed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = (document.text for domain in DOMAINS for document in documents(corpus, "train", domain=domain))
    train_byte_bpe(texts, vocabulary, folder / TOKENIZER)
    tokenizer = load_text_tokenizer(folder / TOKENIZER)
    files = {}
    for split in SPLITS:
        for domain in DOMAINS:
            path = folder / f"{split}-{domain}.u16"
            ids: list[int] = []
            for document in documents(corpus, split, domain=domain):
                ids += [tokenizer.start_id, *tokenizer.encode(document.text)]
            np.array(ids, dtype="<u2").tofile(path)
            files[path.name] = file_hash(path)
    write_manifest(
        folder,
        {
            "format": 1,
            "tokenizer_sha256": file_hash(folder / TOKENIZER),
            "corpus_sha256": file_hash(corpus / MANIFEST),
            "files": files,
        },
    )
    return load_streams(folder)


def load_streams(folder: Path) -> Streams:
    """What `make_streams` wrote. ValueError naming both hashes when a file is not the one in the manifest."""
    manifest = read_manifest(folder, STREAM_HINT)
    check_file(folder / TOKENIZER, manifest["tokenizer_sha256"], STREAM_HINT)
    ids = {}
    for split in SPLITS:
        for domain in DOMAINS:
            path = folder / f"{split}-{domain}.u16"
            check_file(path, manifest["files"][path.name], STREAM_HINT)
            ids[split, domain] = np.fromfile(path, dtype="<u2")
    tokenizer = load_text_tokenizer(folder / TOKENIZER)
    return Streams(tokenizer, manifest["tokenizer_sha256"], manifest["corpus_sha256"], ids)


def windows(
    streams: Sequence[np.ndarray], *, seed: int, step: int, batch: int, length: int
) -> Int[Tensor, "batch length"]:
    """`batch` windows of the streams, each chosen in proportion to its stream's length; a function of (seed, step).

    Raises:
        ValueError: a stream shorter than a window.
    """
    shortest = min(len(stream) for stream in streams)
    if shortest < length:
        raise ValueError(f"length is {length}, the shortest stream has {shortest} tokens; take a shorter length")
    generator = np.random.Generator(np.random.Philox(key=[seed, step]))
    starts = np.array([len(stream) - length + 1 for stream in streams])
    chosen = generator.choice(len(streams), size=batch, p=starts / starts.sum())
    rows = []
    for index in chosen:
        start = int(generator.integers(starts[index]))
        rows.append(streams[index][start : start + length].astype(np.int64))
    return torch.from_numpy(np.stack(rows))


def fixed_windows(stream: np.ndarray, *, count: int, length: int) -> Int[Tensor, "count length"]:
    """`count` windows spread evenly over the stream: what held-out figures are measured on."""
    if len(stream) < length:
        raise ValueError(f"length is {length}, the stream has {len(stream)} tokens; take a shorter length")
    starts = np.linspace(0, len(stream) - length, count).astype(int)
    return torch.from_numpy(np.stack([stream[start : start + length].astype(np.int64) for start in starts]))
