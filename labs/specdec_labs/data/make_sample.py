"""The committed sample: the first documents of each public-domain source, cut at a paragraph, and code of this lab.

The standard library is left out: its licence would have to come with it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import specdec_core
from specdec_core.whole_file import write_whole
from specdec_labs.data.corpus import FETCH_HINT, SPLITS, Split, document_line, source_documents
from specdec_labs.data.manifest import file_hash, read_manifest, write_manifest
from specdec_labs.data.readers import Document

# bytes of each source; under 200 KB in all
_TRAIN = {"austen": 45_000, "sqlite": 15_000, "bible": 10_000, "jargon": 10_000, "devil": 5_000, "nouns": 1_000}
_HELD_OUT = {"austen": 15_000, "sqlite": 5_000}
_SIZES: dict[Split, dict[str, int]] = {"train": _TRAIN, "held_out": _HELD_OUT}
_CODE: dict[Split, tuple[str, ...]] = {
    "train": ("engine.py", "laws.py", "cache.py", "session.py", "speed_formulas.py", "metrics.py"),
    "held_out": ("residual.py", "draft.py"),
}
_SHORTEST = 500


def make_sample(corpus: Path, folder: Path) -> int:
    """Writes the sample of the corpus into `folder`; its size in bytes.

    Raises:
        ValueError: the corpus is missing or changed.
    """
    sources = {}
    for name, entry in read_manifest(corpus, FETCH_HINT)["sources"].items():
        if name in _TRAIN:
            found = {split: _first(corpus, name, split, sizes) for split, sizes in _SIZES.items()}
            sources[name] = {**entry, "splits": _write(folder, name, found)}
    about = {"domain": "code", "package": "specdec-lab", "licence": "Apache-2.0 (this repository)"}
    package = Path(specdec_core.__file__).parent
    code = {split: [Document(name, (package / name).read_text("utf-8")) for name in _CODE[split]] for split in SPLITS}
    sources["lab"] = {**about, "splits": _write(folder, "lab", code)}
    write_manifest(folder, {"format": 1, "sources": sources})
    return sum(path.stat().st_size for path in folder.iterdir())


def _write(folder: Path, name: str, documents: Mapping[Any, list[Document]]) -> dict[str, dict[str, Any]]:
    """The files of one source; all in one folder, so that they count as data of the package."""
    splits = {}
    for split, found in documents.items():
        path = folder / f"{split}-{name}.jsonl"
        write_whole(path, "".join(document_line(document) for document in found))
        size = sum(len(document.text.encode()) for document in found)
        splits[split] = {"file": path.name, "sha256": file_hash(path), "documents": len(found), "bytes": size}
    return splits


def _first(corpus: Path, name: str, split: Split, sizes: dict[str, int]) -> list[Document]:
    chosen: list[Document] = []
    left = sizes.get(name, 0)
    for document in source_documents(corpus, name, split):
        if left < _SHORTEST:
            break
        text = document.text[:left]
        if len(text) < len(document.text):
            # a whole paragraph or line at the end
            text = text[: max(text.rfind("\n\n"), text.rfind("\n"), 0)] or text
        if text.strip():
            chosen.append(Document(document.name, text))
            left -= len(text.encode())
    return chosen
