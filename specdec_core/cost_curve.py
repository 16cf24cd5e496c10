"""Seconds of a forward pass by rows fed and tokens cached, measured or modelled: the cost side of every prediction."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
import json
from pathlib import Path
import random
import statistics
from typing import Any, Literal

import torch

from specdec_core.hardware import describe_hardware
from specdec_core.hardware_presets import Hardware
from specdec_core.model_shapes import ModelShape
from specdec_core.models.protocol import KVCache, LanguageModel
from specdec_core.roofline import forward_time, forward_work
from specdec_core.stopwatch import Lap, lap, undisturbed
from specdec_core.whole_file import write_whole

SCHEMA = "specdec.cost_curve"
SCHEMA_VERSION = 1
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64)
CONTEXTS = (64, 256)
Statistic = Literal["median", "min"]
Grid = tuple[tuple[float, ...], ...]
Progress = Callable[[int, int], None]
"""(repeats done, repeats in all) -> None."""


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Seconds of one pass of `model` on a grid of rows and contexts.

    Attributes:
        model: its name.
        kind: "measured" or "modelled".
        rows: tokens fed in a pass, rising; contexts: tokens in the cache before it, rising.
        median_s, min_s: seconds, [context][rows].
        disturbed: share of the passes that were left out because the process did not get its processors.
        hardware: what it ran on, threads included; for a modelled curve the device and its source.
    """

    model: str
    kind: Literal["measured", "modelled"]
    rows: tuple[int, ...]
    contexts: tuple[int, ...]
    median_s: Grid
    min_s: Grid
    disturbed: float = 0.0
    hardware: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, values, lowest in (("rows", self.rows, 1), ("contexts", self.contexts, 0)):
            if not values or list(values) != sorted(set(values)) or values[0] < lowest:
                raise ValueError(f"{name} is {values}; expected different numbers in rising order, at least {lowest}")
        for grid in (self.median_s, self.min_s):
            if len(grid) != len(self.contexts) or any(len(line) != len(self.rows) for line in grid):
                raise ValueError(f"expected seconds for {len(self.contexts)} contexts x {len(self.rows)} rows")

    @classmethod
    def measure(
        cls,
        model: LanguageModel,
        rows: Sequence[int] = ROWS,
        contexts: Sequence[int] = CONTEXTS,
        *,
        repeats: int = 7,
        name: str = "model",
        progress: Progress | None = None,
    ) -> "CostCurve":
        """Times `repeats` passes of every rows and context, in an order that changes from repeat to repeat.

        So a slow spell of the machine hits all of them alike. See `CurveMeter`, which spreads the repeats over a run.

        Raises:
            ValueError: repeats below 1, or nothing that fits the model.
        """
        if repeats < 1:
            raise ValueError(f"repeats is {repeats}; expected at least 1")
        meter = CurveMeter(model, rows, contexts, name=name)
        for done in range(repeats):
            meter.sweep()
            if progress is not None:
                progress(done + 1, repeats)
        return meter.curve()

    @classmethod
    def from_roofline(
        cls,
        shape: ModelShape,
        device: Hardware,
        rows: Sequence[int] = ROWS,
        contexts: Sequence[int] = CONTEXTS,
        *,
        batch: int = 1,
        dtype: str = "float16",
        degree: int = 1,
    ) -> "CostCurve":
        """The modelled curve of a batch: `rows` and `contexts` are those of each sequence."""

        def line(held: int) -> tuple[float, ...]:
            work = (forward_work(shape, count, held, batch=batch, dtype=dtype, degree=degree) for count in rows)
            return tuple(forward_time(entry, device, dtype).seconds for entry in work)

        grid = tuple(line(held) for held in contexts)
        facts = {"device": device.name, "source": device.source, "dtype": dtype, "batch": batch, "degree": degree}
        return cls(shape.name, "modelled", tuple(rows), tuple(contexts), grid, grid, 0.0, facts)

    def seconds(self, rows: int, context: float = 0, statistic: Statistic = "median") -> float:
        """Seconds of a pass, linear between the points of the grid; outside its contexts the last slope goes on.

        Raises:
            ValueError: more rows than were measured, or fewer.
        """
        if not self.rows[0] <= rows <= self.rows[-1]:
            raise ValueError(
                f"rows is {rows}; the curve of {self.model} has {self.rows[0]}..{self.rows[-1]} - measure it with more"
            )
        grid = self.median_s if statistic == "median" else self.min_s
        by_context = [_between(self.rows, line, rows) for line in grid]
        return max(0.0, _between(self.contexts, by_context, context))

    def relative(self, rows: int, context: float = 0) -> float:
        """Seconds of a pass in single steps at the same context: what verifying `rows` tokens costs."""
        return self.seconds(rows, context) / self.seconds(1, context)

    def to_dict(self) -> dict[str, Any]:
        """Plain data with a schema name and version."""
        data = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return json.loads(json.dumps({"schema": SCHEMA, "version": SCHEMA_VERSION, **data}))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "CostCurve":
        """Reads what `to_dict` wrote.

        Raises:
            ValueError: another schema or version, or a missing entry.
        """
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA or data.get("version") != SCHEMA_VERSION:
            raise ValueError(f"expected a {SCHEMA} of version {SCHEMA_VERSION}; write one with `specdec bench curve`")
        try:
            content = {entry.name: data[entry.name] for entry in fields(cls)}
        except KeyError as error:
            raise ValueError(f"the cost curve lacks {error}") from error
        for name in ("rows", "contexts"):
            content[name] = tuple(content[name])
        for name in ("median_s", "min_s"):
            content[name] = tuple(tuple(line) for line in content[name])
        return cls(**content)

    def save(self, path: str | Path) -> Path:
        """Writes the JSON whole or not at all."""
        write_whole(path, json.dumps(self.to_dict(), indent=1) + "\n")
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "CostCurve":
        """Reads a file of `save`. ValueError when it is not one."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is not JSON: {error}") from error


class CurveMeter:
    """Measures a cost curve sweep by sweep, so that sweeps can stand between other measurements.

    A sweep times one pass of every rows and context, in a new order. The fed tokens are dropped from the cache after
    each pass. Contexts and rows that exceed the model's length are left out.
    """

    def __init__(
        self, model: LanguageModel, rows: Sequence[int] = ROWS, contexts: Sequence[int] = CONTEXTS, *, name: str
    ) -> None:
        """Raises ValueError when nothing fits the model."""
        self.rows = tuple(sorted({count for count in rows if 1 <= count < model.max_length}))
        room = model.max_length - max(self.rows, default=model.max_length + 1)
        self.contexts = tuple(sorted({held for held in contexts if 0 <= held <= room}))
        if not self.contexts:
            raise ValueError(f"no rows and context fit the model's {model.max_length} tokens; give smaller ones")
        self._model, self._name, self._order = model, name, random.Random(0)
        length = max(*self.rows, *self.contexts)
        tokens = [self._order.randrange(model.vocab_size) for _ in range(length)]
        self._tokens = torch.tensor(tokens, device=model.device)
        capacity = self.rows[-1]
        self._caches = {held: _filled(model, self._tokens[:held], held + capacity) for held in self.contexts}
        self._laps: dict[tuple[int, int], list[Lap]] = {
            (held, count): [] for held in self.contexts for count in self.rows
        }
        # the first passes allocate and choose routes; nothing of them is kept
        self._pass_all()

    def sweep(self) -> None:
        """One more pass of every rows and context."""
        for place, time in self._pass_all():
            self._laps[place].append(time)

    def _pass_all(self) -> list[tuple[tuple[int, int], Lap]]:
        places = list(self._laps)
        self._order.shuffle(places)
        found = []
        for held, count in places:
            time, _ = lap(partial(_pass, self._model, self._tokens[:count], self._caches[held]))
            self._caches[held].truncate(held)
            found.append(((held, count), time))
        return found

    def curve(self) -> CostCurve:
        """What the sweeps so far found. ValueError before the first."""
        repeats = len(next(iter(self._laps.values())))
        if repeats == 0:
            raise ValueError("there is no sweep yet; call sweep() first")
        # an accelerator does the work, so processor time says nothing about it
        keep = _kept if self._model.device.type == "cpu" else _all
        kept = {place: keep(laps) for place, laps in self._laps.items()}
        out = 1 - sum(map(len, kept.values())) / (repeats * len(kept))

        def grid(of: Callable[[list[float]], float]) -> Grid:
            return tuple(tuple(of(kept[held, count]) for count in self.rows) for held in self.contexts)

        dtype = str(self._model.dtype).removeprefix("torch.")
        facts = {**describe_hardware(), "dtype": dtype, "repeats": repeats}
        median, least = grid(statistics.median), grid(min)
        return CostCurve(self._name, "measured", self.rows, self.contexts, median, least, out, facts)


def _filled(model: LanguageModel, tokens: torch.Tensor, capacity: int) -> KVCache:
    cache = model.new_cache(capacity)
    if len(tokens):
        model.forward(tokens, cache=cache, last_only=True)
    return cache


def _pass(model: LanguageModel, tokens: torch.Tensor, cache: KVCache) -> None:
    model.forward(tokens, cache=cache)
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)


def _kept(laps: Sequence[Lap]) -> list[float]:
    return [entry.wall_s for entry, good in zip(laps, undisturbed(laps)) if good]


def _all(laps: Sequence[Lap]) -> list[float]:
    return [entry.wall_s for entry in laps]


def _between(places: Sequence[float], values: Sequence[float], place: float) -> float:
    """Linear between neighbours; beyond the ends along the last two."""
    if len(places) == 1:
        return values[0]
    right = min(max(bisect_right(places, place), 1), len(places) - 1)
    left = right - 1
    share = (place - places[left]) / (places[right] - places[left])
    return values[left] + share * (values[right] - values[left])
