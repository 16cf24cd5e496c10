"""A GGUF file read in place: metadata, and tensors as float32.

Layout (all little-endian): magic, version, tensor count, metadata count, metadata, tensor table, then the data
from the next multiple of `general.alignment`. Tensor shapes are stored fastest axis first.
Source: the GGUF specification, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from collections.abc import Callable
from dataclasses import dataclass
import hashlib
import math
import mmap
from pathlib import Path
import struct
from typing import Any

from jaxtyping import Float, UInt8
import torch
from torch import Tensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
BLOCK = 32  # weights that share one scale in Q4_1 and Q8_0

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_SHORTEST_ENTRY = 8  # bytes an array of strings spends on a string, at least


def _f32(data: UInt8[Tensor, " bytes"]) -> Float[Tensor, " weights"]:
    return data.view(torch.float32).clone()


def _f16(data: UInt8[Tensor, " bytes"]) -> Float[Tensor, " weights"]:
    return data.view(torch.float16).float()


def _q4_1(data: UInt8[Tensor, " bytes"]) -> Float[Tensor, " weights"]:
    """w = d*q + m. A block: float16 d, float16 m, 16 bytes; low nibbles are weights 0-15, high ones 16-31."""
    blocks = data.view(-1, 20)
    scale = blocks[:, 0:2].contiguous().view(torch.float16).float()
    least = blocks[:, 2:4].contiguous().view(torch.float16).float()
    quants = blocks[:, 4:]
    weights = torch.empty(blocks.shape[0], BLOCK)
    weights[:, : BLOCK // 2] = quants & 0x0F
    weights[:, BLOCK // 2 :] = quants >> 4
    return weights.mul_(scale).add_(least).view(-1)


def _q8_0(data: UInt8[Tensor, " bytes"]) -> Float[Tensor, " weights"]:
    """w = d*q. A block: float16 d, 32 signed bytes."""
    blocks = data.view(-1, 34)
    scale = blocks[:, 0:2].contiguous().view(torch.float16).float()
    return blocks[:, 2:].view(torch.int8).float().mul_(scale).view(-1)


@dataclass(frozen=True, slots=True)
class _Encoding:
    name: str
    weights: int
    nbytes: int
    decode: Callable[[Tensor], Tensor]


_ENCODINGS = {
    0: _Encoding("F32", 1, 4, _f32),
    1: _Encoding("F16", 1, 2, _f16),
    3: _Encoding("Q4_1", BLOCK, 20, _q4_1),
    8: _Encoding("Q8_0", BLOCK, 34, _q8_0),
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies. `shape` is slowest axis first, as torch has it; `offset` counts from the file's start."""

    shape: tuple[int, ...]
    encoding: str
    offset: int
    nbytes: int
    decode: Callable[[Tensor], Tensor]


class GGUFFile:
    """An opened GGUF file: `metadata` (plain Python values) and `tensors` (name to `TensorInfo`).

    `sha256` is the file's hash if it was asked for and therefore checked, else None.
    """

    def __init__(self, path: str | Path, *, sha256: str | None = None) -> None:
        """Opens the file and reads its tables; tensor data is read on demand.

        Raises:
            ValueError: no such file, not a GGUF file, a version or tensor encoding this reader does not know,
                an incomplete file, or another hash than `sha256` (64 hexadecimal digits).
        """
        self.path = Path(path)
        try:
            with self.path.open("rb") as file:
                # copy on write: torch refuses to share a read-only buffer, and nothing here writes
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise ValueError(f"{self.path}: cannot be opened ({error.strerror}); check the path") from error
        except ValueError as error:
            raise ValueError(f"{self.path}: the file is empty; download it again") from error
        if sha256 is not None:
            self._check_hash(sha256)
        self.sha256 = sha256
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, TensorInfo] = {}
        try:
            self._read_tables(_Cursor(self._map))
        except (struct.error, EOFError, UnicodeDecodeError, OverflowError) as error:
            raise self._incomplete("its tables end early or are damaged") from error

    def read(self, name: str) -> Float[Tensor, "..."]:
        """The tensor as float32 on the CPU, a fresh copy. ValueError when there is none of that name."""
        info = self.info(name)
        data = torch.frombuffer(self._map, dtype=torch.uint8, count=info.nbytes, offset=info.offset)
        return info.decode(data).view(info.shape)

    def info(self, name: str) -> TensorInfo:
        """Shape and place of a tensor. ValueError when there is none of that name."""
        if name not in self.tensors:
            raise ValueError(f"{self.path}: no tensor {name!r}; it holds {len(self.tensors)}, e.g. {self._some()}")
        return self.tensors[name]

    def require(self, key: str) -> Any:
        """The metadata value under `key`. ValueError when there is none."""
        if key not in self.metadata:
            raise ValueError(f"{self.path}: metadata has no {key!r}; this file is not of the kind that was expected")
        return self.metadata[key]

    def _check_hash(self, expected: str) -> None:
        got = hashlib.sha256(self._map).hexdigest()
        if got != expected.lower():
            raise ValueError(f"{self.path}: sha256 is {got}, expected {expected.lower()}; download the file again")

    def _incomplete(self, why: str) -> ValueError:
        return ValueError(f"{self.path}: {why} ({len(self._map):,} bytes here); download the file again")

    def _some(self) -> str:
        return ", ".join(list(self.tensors)[:3]) or "nothing"

    def _read_tables(self, cursor: "_Cursor") -> None:
        magic = cursor.take(4)
        if magic != MAGIC:
            raise ValueError(f"{self.path}: starts with {magic!r}, expected {MAGIC!r}; this is not a GGUF file")
        version = cursor.scalar("I")
        if version not in VERSIONS:
            raise ValueError(f"{self.path}: GGUF version {version}; this reader knows {VERSIONS}, convert the file")
        num_tensors, num_metadata = cursor.scalar("Q"), cursor.scalar("Q")
        for _ in range(num_metadata):
            key = cursor.string()
            self.metadata[key] = cursor.value(cursor.scalar("I"))
        rows = [self._table_row(cursor) for _ in range(num_tensors)]
        alignment = self.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise self._incomplete(f"general.alignment is {alignment!r}, expected a whole number of bytes")
        start = math.ceil(cursor.at / alignment) * alignment
        for name, shape, encoding, offset in rows:
            self._add(name, shape, encoding, start + offset)

    def _table_row(self, cursor: "_Cursor") -> tuple[str, tuple[int, ...], _Encoding, int]:
        name = cursor.string()
        shape = tuple(cursor.scalar("Q") for _ in range(cursor.scalar("I")))[::-1]
        kind, offset = cursor.scalar("I"), cursor.scalar("Q")
        if kind not in _ENCODINGS:
            known = ", ".join(encoding.name for encoding in _ENCODINGS.values())
            raise ValueError(f"{self.path}: tensor {name!r} has type {kind}; this reader knows {known} - convert it")
        return name, shape, _ENCODINGS[kind], offset

    def _add(self, name: str, shape: tuple[int, ...], encoding: _Encoding, offset: int) -> None:
        weights = math.prod(shape)
        if weights % encoding.weights:
            raise ValueError(f"{self.path}: tensor {name!r} of shape {shape} does not fill {encoding.name} blocks")
        nbytes = weights // encoding.weights * encoding.nbytes
        if offset + nbytes > len(self._map):
            raise self._incomplete(f"tensor {name!r} ends at byte {offset + nbytes:,}")
        self.tensors[name] = TensorInfo(shape, encoding.name, offset, nbytes, encoding.decode)


class _Cursor:
    """Reads the tables front to back."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        start, self.at = self.at, self.at + count
        if self.at > len(self._data):
            raise EOFError
        return self._data[start : self.at]

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        return self.take(self.scalar("Q")).decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array(self.scalar("I"), self.scalar("Q"))
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        raise EOFError

    def _array(self, kind: int, count: int) -> list[Any]:
        if kind in _SCALARS:
            code = f"<{count}{_SCALARS[kind]}"
            return list(struct.unpack(code, self.take(struct.calcsize(code))))
        # a damaged count must not start a loop of 2**60 steps
        if count * _SHORTEST_ENTRY > len(self._data) - self.at:
            raise EOFError
        return [self.value(kind) for _ in range(count)]
