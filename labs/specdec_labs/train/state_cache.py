"""The target's states of every record on disk: worked out once, read by whatever is trained on them.

Without it the frozen target's pass is more than half of every step of training a head of one layer.
"""

from collections.abc import Callable, Iterator, Sequence
import hashlib
import json
from pathlib import Path
from typing import IO

from jaxtyping import Float
import numpy as np
import torch
from torch import Tensor

from specdec_labs.data.generate import check_same
from specdec_labs.data.manifest import MANIFEST, read_manifest, write_manifest
from specdec_labs.data.shards import Record
from specdec_labs.train.records import padded

_STATES, _LINES = "states.bin", "states.jsonl"
_TOGETHER, _SORTED = 8, 64  # records in a pass, and among how many those of like length are looked for
_HINT = "remove the folder; the states are worked out again"
_STORED = {"float32": (torch.float32, np.float32), "bfloat16": (torch.bfloat16, np.int16)}


class StateCache:
    """Rows of states by record. Records are appended; what a kill cut off is worked out again.

    A pass takes a few records of about the same length. States are stored in the format the target's products run in.
    """

    def __init__(self, folder: Path, *, target_sha256: str, width: int, precision: str) -> None:
        """Opens the cache, or begins it. ValueError when it holds states of another target: both are named."""
        folder.mkdir(parents=True, exist_ok=True)
        described = {"format": 1, "target_sha256": target_sha256, "width": width, "precision": precision}
        if (folder / MANIFEST).exists():
            check_same(folder, read_manifest(folder, _HINT), described)
        else:
            write_manifest(folder, described)
        self._folder, self._width = folder, width
        self._dtype, self._stored = _STORED[precision]
        self._places: dict[str, tuple[int, int]] = {}
        self._rows = self._read_lines()
        self._data: np.memmap | None = None

    def __len__(self) -> int:
        return len(self._places)

    def fill(
        self,
        records: Sequence[Record],
        states: Callable[[Tensor], Float[Tensor, "batch rows width"]],
        progress: Callable[[int, int], None] = lambda done, missing: None,
    ) -> None:
        """Adds what is missing; `states` is the target's pass over tokens [batch, rows]."""
        missing = [record for record in records if _key(record) not in self._places]
        self._data = None
        with (self._folder / _STATES).open("ab") as data, (self._folder / _LINES).open("a", encoding="utf-8") as lines:
            for done, group in _groups(missing):
                found = states(padded(group, max(len(record.tokens) for record in group)).tokens)
                for record, made in zip(group, found.to("cpu", self._dtype)):
                    self._append(record, made[: len(record.tokens)], data, lines)
                progress(done, len(missing))

    def _append(self, record: Record, states: Tensor, data: IO[bytes], lines: IO[str]) -> None:
        key, rows = _key(record), len(record.tokens)
        data.write(states.contiguous().view(torch.uint8).numpy().tobytes())
        data.flush()
        # the line comes second: a record counts when both are whole
        lines.write(json.dumps({"record": key, "rows": rows}) + "\n")
        lines.flush()
        self._places[key] = (self._rows, rows)
        self._rows += rows

    def read(self, record: Record) -> Float[Tensor, "rows width"]:
        """The states of a record, in float32. ValueError when they are not there."""
        place = self._places.get(_key(record))
        if place is None:
            raise ValueError(f"{self._folder}: no states of record {record.index}; fill the cache with it first")
        if self._data is None:
            path = self._folder / _STATES
            self._data = np.memmap(path, dtype=self._stored, mode="r", shape=(self._rows, self._width))
        first, rows = place
        return torch.from_numpy(np.array(self._data[first : first + rows])).view(self._dtype).float()

    def _read_lines(self) -> int:
        """Takes in the whole lines; cuts both files to what they vouch for. The rows there are."""
        lines, data = self._folder / _LINES, self._folder / _STATES
        lines.touch()
        data.touch()
        row_bytes, held, kept, rows = self._width * np.dtype(self._stored).itemsize, data.stat().st_size, 0, 0
        for line in lines.read_bytes().splitlines(keepends=True):
            entry = json.loads(line) if line.endswith(b"\n") else None
            if entry is None or (rows + entry["rows"]) * row_bytes > held:
                break
            self._places[entry["record"]] = (rows, entry["rows"])
            rows, kept = rows + entry["rows"], kept + len(line)
        for path, size in ((lines, kept), (data, rows * row_bytes)):
            with path.open("r+b") as file:
                file.truncate(size)
        return rows


def _groups(records: Sequence[Record]) -> Iterator[tuple[int, list[Record]]]:
    """The records a few at a time, near ones together by length, and how many that makes so far."""
    done = 0
    for start in range(0, len(records), _SORTED):
        near = sorted(records[start : start + _SORTED], key=lambda record: len(record.tokens))
        for first in range(0, len(near), _TOGETHER):
            group = near[first : first + _TOGETHER]
            done += len(group)
            yield done, group


def _key(record: Record) -> str:
    tokens = np.array(record.tokens, dtype="<i4").tobytes()
    return f"{record.index}-{hashlib.sha256(tokens).hexdigest()[:16]}"
