"""The corpus on disk: documents by source and split, a manifest with hashes."""

from collections.abc import Callable, Iterator, Sequence
import json
from pathlib import Path
from typing import Any, Literal

from specdec_core.whole_file import write_whole
from specdec_labs.data.manifest import check_file, file_hash, read_manifest, write_manifest
from specdec_labs.data.packages import Unpacked, unpack
from specdec_labs.data.readers import Document
from specdec_labs.data.sources import SOURCES, Domain, Source

Split = Literal["train", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "held_out")

FETCH_HINT = "make it with `specdec data fetch`"
SAMPLE = Path(__file__).parent / "sample"
"""A corpus of under 200 KB that comes with the repository."""
_NOT_TEXT = "nouns"


def fetch(
    folder: Path, *, sources: Sequence[Source] = SOURCES, progress: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Downloads, reads and splits the sources; returns the manifest, which is also written last.

    `folder/packages` keeps the archives, so that a second call needs no network. A source whose files are already
    listed and unchanged is not read again.

    Raises:
        ValueError: a source cannot be had or read; what was finished before stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, Any] = {}
    for source in sources:
        unpacked = unpack(source, folder / "packages")
        done[source.name] = _write_source(folder, source, unpacked)
        splits = done[source.name]["splits"]
        sizes = ", ".join(f"{split} {entry['documents']:,} / {entry['bytes']:,} B" for split, entry in splits.items())
        progress(f"{source.name} {unpacked.version}: {sizes}")
    manifest = {"format": 1, "sources": done}
    write_manifest(folder, manifest)
    return manifest


def _write_source(folder: Path, source: Source, unpacked: Unpacked) -> dict[str, Any]:
    splits: dict[str, list[Document]] = {"train": [], "held_out": []}
    for document in source.read(unpacked.folder):
        splits["held_out" if source.held_out(document.name) else "train"].append(document)
    entries = {}
    for split, documents in splits.items():
        path = folder / split / f"{source.name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        write_whole(path, "".join(document_line(document) for document in documents))
        entries[split] = {
            "file": path.relative_to(folder).as_posix(),
            "sha256": file_hash(path),
            "documents": len(documents),
            "bytes": sum(len(document.text.encode()) for document in documents),
        }
    return {
        "domain": source.domain,
        "package": source.package or "python",
        "version": unpacked.version,
        "archive_sha256": unpacked.sha256,
        "as_recorded": source.sha256 is None or unpacked.sha256 == source.sha256,
        "licence": source.licence,
        "splits": entries,
    }


def document_line(document: Document) -> str:
    """A document as a line of JSON."""
    return json.dumps({"name": document.name, "text": document.text}, ensure_ascii=False) + "\n"


def documents(folder: Path, split: Split, *, domain: Domain | None = None) -> Iterator[Document]:
    """The documents of a split, checked against the manifest; of one domain when it is named.

    Raises:
        ValueError: no manifest, or a file that is not the one listed: it names both hashes.
    """
    manifest = read_manifest(folder, FETCH_HINT)
    for name, entry in manifest["sources"].items():
        if name != _NOT_TEXT and domain in (None, entry["domain"]):
            yield from source_documents(folder, name, split)


def source_documents(folder: Path, name: str, split: Split) -> Iterator[Document]:
    """The documents of one source. ValueError as `documents`, or when the manifest lacks the source."""
    sources = read_manifest(folder, FETCH_HINT)["sources"]
    if name not in sources:
        raise ValueError(f"{folder}: the corpus has no source {name!r}, only {', '.join(sources)}; {FETCH_HINT}")
    entry = sources[name]["splits"][split]
    path = folder / entry["file"]
    check_file(path, entry["sha256"], FETCH_HINT)
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield Document(**json.loads(line))
