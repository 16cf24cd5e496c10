"""Generated text on disk: lines of JSON, only ever appended, in files of a fixed number of lines."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
import json
from pathlib import Path
from types import TracebackType
from typing import IO

SHARD_LINES = 2000


@dataclass(frozen=True, slots=True)
class Record:
    """A request and what the model made of it.

    Attributes:
        tokens: ids of the whole sequence, prompt with template and answer.
        prompt_length: how many of them are the prompt.
        finish: "stop" (the answer ended itself), "length" (cut), or "no_prompt" (an invented prompt did not end;
            such a record has no answer and is not trained on).
    """

    index: int
    kind: str
    temperature: float
    prompt_length: int
    finish: str
    tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.prompt_length <= len(self.tokens):
            raise ValueError(f"prompt_length is {self.prompt_length}, the record has {len(self.tokens)} tokens")


def read_records(folder: Path) -> Iterator[Record]:
    """All whole records of the shards in `folder`; a line that a kill cut off at the end of a shard is left out.

    Raises:
        ValueError: a damaged line elsewhere: it names the file and the line.
    """
    for path in sorted(folder.glob("shard-*.jsonl")):
        lines = path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines[:-1], start=1):
            try:
                entry = json.loads(line)
                yield Record(**{**entry, "tokens": tuple(entry["tokens"])})
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"{path}:{number}: not a record ({error}); remove the line and generate again"
                ) from error


class ShardWriter:
    """Appends records; each is on disk when `write` returns. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        shards = sorted(folder.glob("shard-*.jsonl"))
        self._number = int(shards[-1].stem.removeprefix("shard-")) if shards else 0
        self._lines = _drop_torn_line(shards[-1]) if shards else 0
        self._file: IO[str] | None = None

    def write(self, record: Record) -> None:
        if self._lines >= SHARD_LINES:
            self._close()
            self._number, self._lines = self._number + 1, 0
        if self._file is None:
            self._file = (self._folder / f"shard-{self._number:05d}.jsonl").open("a", encoding="utf-8")
        self._file.write(json.dumps(asdict(record), separators=(",", ":")) + "\n")
        self._file.flush()
        self._lines += 1

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _drop_torn_line(path: Path) -> int:
    """Cuts off what a kill left behind the last newline; returns the whole lines."""
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    return whole.count(b"\n")
