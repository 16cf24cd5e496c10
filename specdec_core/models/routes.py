"""Chooses the route of every matrix product by a short trial on this machine, and remembers what it measured.

Which BLAS loop is fastest for one row, five or sixty-four is a fact of processor, threads and torch, not of the model.
On one machine a row alone costs more than two, on another a row filled up to two costs 40 % less: a plain step that
takes the wrong route makes every speed-up too large. The trial walks the model's own matrices in their order, so that
weights come from memory as in a pass, and takes the least of a few times. With fills allowed, n rows never cost more
than m > n do.
"""

from collections.abc import Iterable, Mapping, Sequence
import json
import math
import os
from pathlib import Path
import statistics
import time
from typing import Any

import torch
import torch.nn.functional as F

from specdec_core.hardware import processor
from specdec_core.models.linear import PLAN_ROWS, ROUTES, Call, Linear, Plan, read_plan
from specdec_core.whole_file import write_whole

VARIABLE = "SPECDEC_ROUTES"
GRID = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 32, PLAN_ROWS)
_FILLED = 12  # fewer rows may be filled up to a size of the grid, up to this one
_ENOUGH_BYTES = 48 << 20  # matrices walked in one sweep: more than a cache keeps
_SLICE_BYTES = 16 << 20  # a larger matrix (the head) is timed by this much of it
_FEW_ROWS = 16  # above, arithmetic decides and one matrix of a shape is enough
_HOPELESS = 1.4  # a route this much slower in the first sweep is not timed again
_SWEEPS = 3
_NO_WORSE = 1.03  # a simpler plan may cost this much: one layout alone, or the route of fewer rows kept
_DISTURBED = 1.15  # median over least time of a product's sweeps on a quiet machine stays below
_MOST_TRIALS = 3
_MOST_S = 1.0  # a trial that takes longer (threads that wait for one another) goes on with one sweep a size
_SCALES = 0.9  # with more threads a product has to take less than this share of its time with one

Shape = tuple[int, int]
Times = dict[str, dict[int, float]]
"""route -> rows -> least seconds of one product; "fill" -> 1 -> seconds of filling rows up."""


def choose_routes(linears: Iterable[Linear]) -> None:
    """Gives every product of one model its plan: what `SPECDEC_ROUTES` says, else what was or is now measured.

    A trial takes under a second and is kept in `routes_file()` per processor, threads, dtype and torch version.
    One that had to share its processors is repeated at later loads (at most `_MOST_TRIALS`), the least times kept.

    Raises:
        ValueError: `SPECDEC_ROUTES` is neither a plan nor "measure".
    """
    served = [linear for linear in linears if linear.can_route]
    if not served:
        return
    wish = os.environ.get(VARIABLE, "").strip()
    if wish and wish != "measure":
        try:
            plan = read_plan(wish)
        except ValueError as error:
            raise ValueError(f"{VARIABLE}: {error}, or 'measure'") from error
        plans = dict.fromkeys((linear.shape for linear in served), plan)
    else:
        measured = _measured(served, anew=wish == "measure")
        plans = {shape: plan_of(times) for shape, times in measured.items()}
    for linear in served:
        linear.follow(plans[linear.shape])


def plan_of(times: Mapping[str, Mapping[int, float]]) -> Plan:
    """The fastest route and fill for every number of rows; one layout alone where that costs next to nothing.

    Rows between two sizes of `GRID` take the route of the larger.

    Raises:
        ValueError: no route was measured at every size.
    """
    whole = {route: of for route, of in times.items() if route in ROUTES and all(rows in of for rows in GRID)}
    if not whole:
        raise ValueError(f"times has no route with all of {GRID} rows; measure again ({VARIABLE}=measure)")
    fill_s = times.get("fill", {}).get(1, 0.0)
    best = _fastest(whole, fill_s)
    for packed in (False, True):
        alone = {route: of for route, of in whole.items() if ROUTES[route][0] == packed}
        mine = _fastest(alone, fill_s) if alone else {}
        if mine and all(mine[rows][0] <= (1 if rows == 1 else _NO_WORSE) * best[rows][0] for rows in GRID):
            whole, best = alone, mine
    calls: list[Call] = [("linear", 0)]
    for rows in GRID:
        seconds, (route, run) = best[rows]
        before = calls[-1][0]
        if rows > 1 and whole.get(before, {}).get(rows, math.inf) <= _NO_WORSE * seconds:
            route, run = before, rows
        calls += [(route, run if rows <= _FILLED else row) for row in range(len(calls), rows + 1)]
    return Plan(tuple(calls), calls[-1][0])


def _fastest(times: Mapping[str, Mapping[int, float]], fill_s: float) -> dict[int, tuple[float, Call]]:
    """(seconds, call) of every size, filled up to a larger one where that is faster."""
    return {
        rows: min(
            (seconds + fill_s * (run > rows), (route, run))
            for route, of in times.items()
            for run, seconds in of.items()
            if run == rows or rows < run <= _FILLED
        )
        for rows in GRID
    }


def routes_file() -> Path:
    """Where trials are kept: `specdec-lab/routes.json` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specdec-lab" / "routes.json"


def remembered() -> dict[str, dict[str, Any]]:
    """What `routes_file()` holds, by machine; nothing where it cannot be read."""
    try:
        kept = json.loads(routes_file().read_text(encoding="utf-8"))
        return kept["machines"] if kept["version"] == 1 else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def machine_key(dtype: torch.dtype, threads: int | None = None) -> str:
    """What a trial depends on besides the shape; `threads` None: as many as torch has now."""
    name, count = str(dtype).removeprefix("torch."), threads or torch.get_num_threads()
    return f"{processor()}, {count} thread{'' if count == 1 else 's'}, {name}, torch {torch.__version__}"


def remembered_times(entry: Mapping[str, Any]) -> dict[Shape, Times]:
    """The times of one machine of `remembered()`, by shape."""
    shapes = {}
    for name, of in entry["shapes"].items():
        shapes[_shape(name)] = {
            route: {int(count): float(s) for count, s in line.items()} for route, line in of.items()
        }
    return shapes


def describe_routes() -> tuple[list[tuple[str, str, str]], list[str]]:
    """What is taken here: (matrix, its plan, microseconds of one row by route) per shape; and remarks about it all."""
    wish = os.environ.get(VARIABLE, "").strip()
    remarks = [f"{VARIABLE}={wish} decides, whatever was measured"] if wish and wish != "measure" else []
    machines, rows = remembered(), []
    for dtype in (torch.float32, torch.bfloat16):
        entry = machines.get(machine_key(dtype))
        for shape, times in remembered_times(entry).items() if entry else ():
            one = {route: min(s for run, s in of.items() if run <= _FILLED) for route, of in times.items() if of}
            cost = sorted((s, route) for route, s in one.items() if route in ROUTES)
            name = f"{shape[0]} x {shape[1]} {str(dtype).removeprefix('torch.')}"
            rows.append((name, str(plan_of(times)), ", ".join(f"{route} {1e6 * s:.0f}" for s, route in cost)))
        remarks += _unscaled(machines, dtype)
    if not rows:
        remarks.append(f"no route measured yet for {machine_key(torch.float32)}; loading a model does it")
    return rows, [*remarks, f"kept in {routes_file()}; {VARIABLE}=measure measures anew, {VARIABLE}=PLAN fixes them"]


def _unscaled(machines: Mapping[str, Any], dtype: torch.dtype) -> list[str]:
    """Rows of the shapes that this many threads compute no faster than one thread did, beyond noise."""
    threads = torch.get_num_threads()
    here, single = (machines.get(machine_key(dtype, count)) for count in (threads, 1))
    if threads == 1 or not here or not single:
        return []
    ours, theirs = remembered_times(here), remembered_times(single)
    lines = []
    for shape in ours.keys() & theirs.keys():
        many, one = (_fastest(_routes_only(of[shape]), 0.0) for of in (ours, theirs))
        rows = [rows for rows in GRID if many[rows][0] > _SCALES * one[rows][0]]
        if rows:
            counts = ", ".join(map(str, rows))
            lines.append(f"{shape[0]} x {shape[1]}: {counts} rows are no faster with {threads} threads than with one")
    return lines


def _routes_only(times: Times) -> Times:
    return {route: of for route, of in times.items() if route in ROUTES}


def _shape(name: str) -> Shape:
    rows, columns = name.split("x")
    return int(rows), int(columns)


def _measured(linears: Sequence[Linear], anew: bool) -> dict[Shape, Times]:
    """Times of every shape among `linears`, from the file where it has them, else from a trial that is then kept."""
    key = machine_key(linears[0].dtype)
    wanted = {linear.shape for linear in linears}
    entry = {} if anew else remembered().get(key, {})
    try:
        known = remembered_times(entry) if entry else {}
    except (AttributeError, KeyError, TypeError, ValueError):
        entry, known = {}, {}
    doubtful = {_shape(name): count for name, count in entry.get("disturbed", {}).items()}
    again = {shape for shape in wanted if shape not in known or 0 < doubtful.get(shape, 0) < _MOST_TRIALS}
    if again:
        fresh, disturbed = trial([linear for linear in linears if linear.shape in again])
        for shape, times in fresh.items():
            known[shape] = _least(known.get(shape, {}), times)
            doubtful[shape] = doubtful.get(shape, 0) + 1 if disturbed else 0
        _keep(key, known, doubtful)
    return {shape: known[shape] for shape in wanted}


def _least(one: Times, other: Times) -> Times:
    return {
        route: {
            rows: min(of[rows] for of in (one.get(route, {}), other.get(route, {})) if rows in of)
            for rows in sorted({*one.get(route, {}), *other.get(route, {})})
        }
        for route in (*ROUTES, "fill")
    }


def _keep(key: str, known: Mapping[Shape, Times], doubtful: Mapping[Any, int]) -> None:
    """Adds to the file; a folder that cannot be written costs the next load another trial, no more."""
    machines = remembered()
    machines[key] = {
        "shapes": {f"{shape[0]}x{shape[1]}": times for shape, times in sorted(known.items())},
        "disturbed": {f"{shape[0]}x{shape[1]}": count for shape, count in sorted(doubtful.items()) if count},
    }
    try:
        routes_file().parent.mkdir(parents=True, exist_ok=True)
        write_whole(routes_file(), json.dumps({"version": 1, "machines": machines}, indent=1))
    except (OSError, ValueError):
        pass


def trial(linears: Sequence[Linear]) -> tuple[dict[Shape, Times], bool]:
    """Least seconds of a product by shape, route and rows; and whether the sweeps differed as on a busy machine."""
    stand_ins = _sample(linears)
    times: dict[Shape, Times] = {
        shape: {"fill": {1: _filling(it)}} | {route: {} for route in ROUTES} for shape, it in stand_ins
    }
    steady, cells, until = 0, 0, time.perf_counter() + _MOST_S
    with torch.inference_mode():
        for rows in GRID:
            walked = stand_ins if rows <= _FEW_ROWS else list({shape: (shape, it) for shape, it in stand_ins}.values())
            for (shape, route), sweeps in _sweeps(walked, rows, until).items():
                times[shape][route][rows] = min(sweeps)
                if len(sweeps) > 1:
                    steady += statistics.median(sweeps) <= _DISTURBED * min(sweeps)
                    cells += 1
    return times, steady < 0.5 * cells


def _filling(linear: Linear) -> float:
    """Least seconds of filling one row up to two and of cutting the result, in which nothing is multiplied."""
    row, least = torch.ones(1, linear.shape[1], dtype=linear.dtype), math.inf
    for _ in range(20):
        before = time.perf_counter()
        F.pad(row, (0, 0, 0, 1))[:1]
        least = min(least, time.perf_counter() - before)
    return least


def _sample(linears: Sequence[Linear]) -> list[tuple[Shape, Linear]]:
    """(shape, product to time) in the order of a pass, every shape at least once, more until caches are too small."""
    taken: list[tuple[Shape, Linear]] = []
    size = 0
    for linear in linears:
        if size >= _ENOUGH_BYTES and any(shape == linear.shape for shape, _ in taken):
            continue
        row_bytes = linear.shape[1] * linear.dtype.itemsize
        part = linear.weight[: max(1, _SLICE_BYTES // row_bytes)]
        stand_in = Linear(part)
        stand_in.follow(stand_in.plan, keep=tuple(ROUTES))
        taken.append((linear.shape, stand_in))
        size += len(part) * row_bytes
    return taken


def _sweeps(walked: Sequence[tuple[Shape, Linear]], rows: int, until: float) -> dict[tuple[Shape, str], list[float]]:
    """Seconds of a product of `rows` rows, sweep by sweep; hopeless routes have one, and all when `until` is past."""
    inputs = {linear.shape[1]: torch.ones(rows, linear.shape[1], dtype=linear.dtype) for _, linear in walked}
    counts = {shape: sum(shape == other for other, _ in walked) for shape, _ in walked}
    whole = {shape: shape[0] / linear.shape[0] for shape, linear in walked}  # of a part, the rest in proportion
    found: dict[tuple[Shape, str], list[float]] = {}
    # of one thread the processor time is taken: another program on the core does not count
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    for sweep in range(_SWEEPS):
        if sweep and time.perf_counter() > until:
            break
        for route in ROUTES:
            spent = dict.fromkeys(counts, 0.0)
            for shape, linear in walked:
                if sweep and found[shape, route][0] > _HOPELESS * min(found[shape, other][0] for other in ROUTES):
                    continue
                before = clock()
                linear.through(route, inputs[linear.shape[1]])
                spent[shape] += clock() - before
            for shape, seconds in spent.items():
                if seconds:
                    found.setdefault((shape, route), []).append(seconds * whole[shape] / counts[shape])
    return found
