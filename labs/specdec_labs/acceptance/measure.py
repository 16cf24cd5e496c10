"""Every drafter over its texts, cell by cell; what is done stays done when a run is stopped."""

from collections.abc import Callable, Sequence
import hashlib
import json
from pathlib import Path
from typing import Any

from specdec_core.whole_file import write_whole
from specdec_labs.acceptance.counters import CountOf
from specdec_labs.acceptance.families import Family
from specdec_labs.acceptance.record import TEMPERATURES
from specdec_labs.acceptance.recordings import Recordings

SAMPLED_EVERY, SAMPLED_OF_SOME = 3, 6
"""At temperature 1 every so many prompts of a task are measured on; the second for families that run on some at 0."""

Cell = list[list[int]]
"""A row a prompt: its number, then its counts (`Counts.to_list`)."""


def measure(
    families: Sequence[Family],
    recordings: Recordings,
    folder: Path,
    *,
    progress: Callable[[str], None] = lambda what: None,
) -> dict[str, dict[str, Cell]]:
    """For each family its cells by "task, T = temperature".

    `folder` holds a file a family; a cell that is in it, from the same weights and texts, is not measured again.
    """
    texts = texts_hash(recordings)
    folder.mkdir(parents=True, exist_ok=True)
    return {
        family.name: _family(family, recordings, folder / f"{family.name}.json", texts, progress) for family in families
    }


def texts_hash(recordings: Recordings) -> str:
    """Of all recorded tokens."""
    digest = hashlib.sha256()
    for text in recordings.texts:
        digest.update(f"{text.prompt.task} {text.prompt.number} {text.temperature} {text.tokens}\n".encode())
    return digest.hexdigest()


def cell_name(task: str, temperature: float) -> str:
    """The key of a cell."""
    return f"{task}, T = {temperature:g}"


def _family(
    family: Family, recordings: Recordings, path: Path, texts: str, progress: Callable[[str], None]
) -> dict[str, Cell]:
    identity = json.loads(json.dumps({**family.identity(), "texts": texts}))
    cells = _read(path, identity)
    count: CountOf | None = None
    for temperature in TEMPERATURES:
        every = family.every
        if temperature > 0:
            every = SAMPLED_EVERY if every == 1 else SAMPLED_OF_SOME
        for task in recordings.tasks():
            name = cell_name(task, temperature)
            if name in cells:
                continue
            progress(f"{family.name}: {name}")
            count = count or family.open(recordings)
            rows: Cell = []
            for index in recordings.chosen(temperature=temperature, task=task, every=every):
                rows.append([recordings.texts[index].prompt.number, *count(index).to_list()])
            cells[name] = rows
            write_whole(path, json.dumps({"identity": identity, "cells": cells}) + "\n")
    return cells


def _read(path: Path, identity: dict[str, Any]) -> dict[str, Cell]:
    """The cells measured before under the same conditions; none when the conditions were others."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return held["cells"] if held.get("identity") == identity else {}
