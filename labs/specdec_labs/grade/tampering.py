"""Notices when the files that grading rests on change while a submission runs."""

from collections.abc import Iterator, Mapping
import hashlib
from pathlib import Path

import specdec_core
from specdec_labs.exercises import find_clone

_PACKAGES = (Path(specdec_core.__file__).parent, Path(__file__).resolve().parents[1])


def fingerprints() -> dict[Path, str]:
    """A hash of every file of the exercises (where a clone is at hand) and of every module of the lab."""
    found = {}
    for path in _files():
        try:
            found[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            found[path] = f"unreadable: {error.strerror}"
    return found


def changed_since(before: Mapping[Path, str]) -> list[str]:
    """The files that are new, gone or different, by their path below the clone."""
    now = fingerprints()
    clone = find_clone()
    paths = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    return [str(path.relative_to(clone) if clone and path.is_relative_to(clone) else path) for path in paths]


def _files() -> Iterator[Path]:
    clone = find_clone()
    if clone is not None:
        yield from (path for path in (clone / "exercises").rglob("*") if path.suffix != ".pyc" and path.is_file())
    for package in _PACKAGES:
        yield from package.rglob("*.py")
