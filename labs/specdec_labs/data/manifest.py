"""Files with their hashes: what was written, and whether it still is that."""

import hashlib
import json
from pathlib import Path
from typing import Any

from specdec_core.whole_file import write_whole

MANIFEST = "manifest.json"


def file_hash(path: Path) -> str:
    """sha256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_manifest(folder: Path, data: dict[str, Any]) -> None:
    """`manifest.json` in `folder`, in one move."""
    write_whole(folder / MANIFEST, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def read_manifest(folder: Path, hint: str) -> dict[str, Any]:
    """What `write_manifest` wrote. ValueError with `hint` (how to make it) when it is missing or damaged."""
    path = folder / MANIFEST
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"{path}: no such file; {hint}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: damaged ({error}); {hint}") from error


def check_file(path: Path, expected: str, hint: str) -> None:
    """ValueError naming both hashes unless the file has that sha256."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; {hint}")
    got = file_hash(path)
    if got != expected:
        raise ValueError(f"{path}: sha256 is {got}, the manifest says {expected}; {hint}")
