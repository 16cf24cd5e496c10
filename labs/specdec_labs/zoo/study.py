"""Runs the zoo: each animal over its laws, and the right sampler for false alarms."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
import time
from typing import Any

import numpy as np
from scipy import stats

from specdec_core.certificate import Certificate
from specdec_core.certify_law import certify_planned
from specdec_core.certify_plan import Demand, Plan, plan
from specdec_core.goodness import tail_p_value
from specdec_labs.zoo.laws import HORIZON
from specdec_labs.zoo.samplers import ANIMALS, NATS, RIGHT, Animal, Draw, law_of

BIAS, LEVEL, POWER, BATCH = 0.1, 1e-3, 0.99, 256
NULL_LEVEL = 0.01
"""Of the runs of the right sampler: rare enough to be a level, common enough to be counted."""

MODES = ("fixed", "sequential")
SETTINGS: dict[str, dict[str, Any]] = {"default": {}, "as shipped": {"bias": 0.15, "max_cells": 12}}
Tell = Callable[[str], None]


@cache
def _plan(vocab: int, mode: str, level: float, bias: float, max_cells: int) -> tuple[Demand, Plan]:
    demand = Demand(
        horizon=HORIZON,
        bias=bias,
        wanted_power=POWER,
        level=level,
        max_cells=max_cells,
        batch=BATCH,
        slots=True,
        sequential=mode == "sequential",
    )
    return demand, plan(law_of(vocab), demand)


def certified(
    animal: Animal,
    vocab: int,
    seed: int,
    mode: str = "fixed",
    *,
    level: float = LEVEL,
    bias: float = BIAS,
    max_cells: int = 40,
) -> Certificate:
    """The certificate of an animal over one of the laws."""
    law, (demand, planned) = law_of(vocab), _plan(vocab, mode, level, bias, max_cells)

    def sample(first: int, count: int) -> np.ndarray:
        rng = np.random.default_rng([seed, first, vocab])
        u, own = rng.random((count, HORIZON)), np.arange(count)
        return animal.texts(Draw(law, rng, u, first + own, own, planned.n, bias))

    settings = {"animal": animal.name, "vocab": vocab}
    reader = law.reader(seed)
    return certify_planned(sample, planned, reader, vocab, demand, settings=settings, check_support=False)


def show(animals: Iterable[Animal], seeds: int, tell: Tell, modes: Iterable[str] = MODES) -> list[dict[str, Any]]:
    """How often each is caught over each of its laws, and with how many samples."""
    rows = []
    for animal in animals:
        for vocab in animal.vocabs:
            for mode in modes:
                start = time.process_time()
                found = [certified(animal, vocab, seed, mode) for seed in range(seeds)]
                row = {
                    "animal": animal.name, "group": animal.group, "vocab": vocab, "nats": NATS[vocab], "mode": mode,
                    "runs": seeds, "caught": sum(one.rejected for one in found),
                    "power": round(found[0].power, 4), "n": round(float(np.mean([one.n for one in found]))),
                    "by": found[0].worst.label, "seconds": round(time.process_time() - start, 1),
                }  # fmt: skip
                rows.append(row)
                tell(f"{animal.name}, V = {vocab}, {mode}: {row['caught']} of {seeds}, by {row['by']}")
    return rows


def false_alarms(runs: int, tell: Tell) -> list[dict[str, Any]]:
    """Rejections of the right sampler at `NULL_LEVEL`: per mode `runs` in all, shared by laws and settings."""
    cases = [(name, options, vocab) for name, options in SETTINGS.items() for vocab in NATS]
    rows = []
    for mode in MODES:
        for number, (name, options, vocab) in enumerate(cases):
            own = runs * (number + 1) // len(cases) - runs * number // len(cases)
            seeds = range(1000 * number, 1000 * number + own)
            alarms = sum(certified(RIGHT, vocab, seed, mode, level=NULL_LEVEL, **options).rejected for seed in seeds)
            rows.append({"mode": mode, "settings": name, "vocab": vocab, "runs": own, "alarms": alarms})
            tell(f"right, V = {vocab}, {mode}, {name}: {alarms} alarms in {own}")
    return rows


def level_ratio(vocab: int, level: float, bias: float, max_cells: int, draws: int) -> tuple[float, float]:
    """Sum of the true levels of all cell tests / what the stated level gives them, and its standard error.

    Counts of each test are drawn from the law, and rejected as the certificate rejects them. Repeats, whose p-value is
    a proven bound, are left out.
    """
    _, planned = _plan(vocab, "fixed", level, bias, max_cells)
    shapes = [(1, tuple(part.probabilities)) for part in planned.parts]
    shapes += [(grid.strata, (1 / grid.cells,) * grid.cells) for grid in planned.grids]
    rng = np.random.default_rng([vocab, draws])
    rejected = sum(_rejections(rng, planned, strata, np.array(p), draws) for strata, p in shapes)
    expected = draws * planned.share * len(shapes)
    return rejected / expected, max(rejected, 1) ** 0.5 / expected


def _rejections(rng: np.random.Generator, planned: Plan, strata: int, p: np.ndarray, draws: int) -> int:
    sizes = [planned.n // strata] * strata
    counts = rng.multinomial(np.array(sizes), p, size=(draws, strata))
    expected = np.array(sizes)[:, None] * p
    found = ((counts - expected) ** 2 / expected).sum(axis=(-1, -2))
    near = found[stats.chi2.sf(found, strata * (len(p) - 1)) <= planned.share]
    return sum(tail_p_value(float(one), sizes, p) <= planned.share for one in near)


LEVEL_CASES = (("default", 1e-3, 1), ("as shipped", 1e-4, 4))
"""Settings, level, and how many times the draws: the smaller level needs more."""


def levels(draws: int, tell: Tell) -> list[dict[str, Any]]:
    """`level_ratio` for the default settings and for those of the shipped certificates."""
    rows = []
    for name, level, times in LEVEL_CASES:
        options = {"bias": 0.06, "max_cells": 40, **SETTINGS[name]}
        for vocab in (8, 49_152):
            ratio, error = level_ratio(vocab, level, options["bias"], options["max_cells"], draws * times)
            rows.append(
                {"settings": name, "level": level, "vocab": vocab, "draws": draws * times}
                | {"ratio": round(ratio, 3), "error": round(error, 3)}
            )
            tell(f"true level / stated, {name}, V = {vocab}: {ratio:.2f} +- {error:.2f}")
    return rows


def study(seeds: int, runs: int, draws: int, tell: Tell, animals: Sequence[Animal] = ANIMALS) -> dict[str, Any]:
    """Everything, as plain data."""
    return {
        "asked": {"bias": BIAS, "level": LEVEL, "power": POWER, "horizon": HORIZON, "batch": BATCH, "seeds": seeds},
        "animals": show(animals, seeds, tell),
        "false_alarms": {"level": NULL_LEVEL, "rows": false_alarms(runs, tell)},
        "levels": levels(draws, tell),
    }


def failures(report: dict[str, Any]) -> list[str]:
    """What does not hold: an animal missed too often, or false alarms beyond the level."""
    groups = {animal.name: animal.is_seen for animal in ANIMALS}
    found = [
        f"{row['animal']}, V = {row['vocab']}, {row['mode']}: {row['caught']} of {row['runs']} caught"
        for row in report["animals"]
        if groups[row["animal"]] and row["caught"] < row["runs"] - max(1, round(0.04 * row["runs"]))
    ]
    for mode in MODES:
        own = [row for row in report["false_alarms"]["rows"] if row["mode"] == mode]
        runs, alarms = sum(row["runs"] for row in own), sum(row["alarms"] for row in own)
        if alarms > stats.binom.isf(1e-3, runs, report["false_alarms"]["level"]):
            found.append(f"{mode}: {alarms} false alarms in {runs} runs")
    return found
