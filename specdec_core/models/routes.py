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
GRID = (1, 2, 4, 6, 8, 9, 12, 16, 24, 32, PLAN_ROWS)
_ORDER = (*GRID, *GRID[:4], *GRID[:4])  # the few rows of a step are what most passes have: three times a sweep
_FILLED = 12  # fewer rows may be filled up to a size of the grid, up to this one
_ENOUGH_BYTES = 32 << 20  # matrices walked in one sweep, in two layouts: more than a cache keeps
_SLICE_BYTES = 8 << 20  # a larger matrix (the head) is timed by this much of it
_HOPELESS = 1.4  # after `_FAIR` sweeps a route this much slower than the fastest is not timed again
_FAIR = 3
_SWEEPS = 12
_TIE = 1.02
_NO_WORSE = 1.03  # a simpler plan may cost this much: one layout alone, or the route of fewer rows kept
_TRIALS = 3  # the first loads each make a trial: one of them may fall into a slow spell of the machine
_MOST_S = 0.7  # no sweep begins later than this, but for the first `_FAIR`
_SCALES = 0.9  # with more threads a product has to take less than this share of its time with one

Shape = tuple[int, int]
Times = dict[str, dict[int, float]]
"""route -> rows -> least seconds of one product; "fill" -> 1 -> seconds of filling rows up."""

_Sweeps = dict[tuple[Shape, int], dict[str, list[list[float]]]]
"""(shape, rows) -> route -> sweeps -> seconds of each matrix of that shape."""


def choose_routes(linears: Iterable[Linear]) -> None:
    """Gives every product of one model its plan: what `SPECDEC_ROUTES` says, else what was or is now measured.

    A trial takes about a second and is kept in `routes_file()` per processor, threads, dtype and torch version. The
    first `_TRIALS` loads each make one; the least times count.

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
        if mine and all(mine[rows][0] <= (_TIE if rows == 1 else _NO_WORSE) * best[rows][0] for rows in GRID):
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
    """(seconds, call) of every size, filled up to a larger one where that is faster; of near-ties the least filled."""
    best = {}
    for rows in GRID:
        offers = [
            (seconds + fill_s * (run > rows), (route, run))
            for route, of in times.items()
            for run, seconds in of.items()
            if run == rows or rows < run <= _FILLED
        ]
        least = min(offers)[0]
        best[rows] = min((run, seconds, route) for seconds, (route, run) in offers if seconds <= _TIE * least)
    return {rows: (seconds, (route, run)) for rows, (run, seconds, route) in best.items()}


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
    trials = {_shape(name): count for name, count in entry.get("trials", {}).items()}
    again = {shape for shape in wanted if shape not in known or trials.get(shape, 0) < _TRIALS}
    if again:
        for shape, times in trial([linear for linear in linears if linear.shape in again]).items():
            known[shape] = _least(known.get(shape, {}), times)
            trials[shape] = trials.get(shape, 0) + 1
        _keep(key, known, trials)
    return {shape: known[shape] for shape in wanted}


def _least(one: Times, other: Times) -> Times:
    return {
        route: {
            rows: min(of[rows] for of in (one.get(route, {}), other.get(route, {})) if rows in of)
            for rows in sorted({*one.get(route, {}), *other.get(route, {})})
        }
        for route in (*ROUTES, "fill")
    }


def _keep(key: str, known: Mapping[Shape, Times], trials: Mapping[Shape, int]) -> None:
    """Adds to the file; a folder that cannot be written costs the next load another trial, no more."""
    machines = remembered()
    machines[key] = {
        "shapes": {f"{shape[0]}x{shape[1]}": times for shape, times in sorted(known.items())},
        "trials": {f"{shape[0]}x{shape[1]}": count for shape, count in sorted(trials.items())},
    }
    try:
        routes_file().parent.mkdir(parents=True, exist_ok=True)
        write_whole(routes_file(), json.dumps({"version": 1, "machines": machines}, indent=1))
    except (OSError, ValueError):
        pass


def trial(linears: Sequence[Linear]) -> dict[Shape, Times]:
    """Least seconds of a product by shape, route and rows.

    Every sweep takes every number of rows, so that a slow spell of the machine hits none of them alone.
    """
    stand_ins = _sample(linears)
    found: _Sweeps = {}
    with torch.inference_mode():
        # first calls also pay for memory never touched and for code that is still to be made
        for rows in GRID:
            _sweep(list({shape: (shape, it) for shape, it in stand_ins}.values()), rows, {})
        until = time.perf_counter() + _MOST_S
        for sweep in range(_SWEEPS):
            if sweep >= _FAIR and time.perf_counter() > until:
                break
            for rows in _ORDER:
                _sweep(stand_ins, rows, found)
    times: dict[Shape, Times] = {
        shape: {"fill": {1: _filling(it)}} | {route: {} for route in ROUTES} for shape, it in stand_ins
    }
    for (shape, rows), of in found.items():
        for route, sweeps in of.items():
            times[shape][route][rows] = _quiet_seconds(sweeps)
    return times


def _quiet_seconds(sweeps: Sequence[Sequence[float]]) -> float:
    """Mean over the matrices of the lower quartile of their sweeps: neither a slow spell nor one lucky call decides."""
    return statistics.fmean(sorted(each)[len(sweeps) // 4] for each in zip(*sweeps))


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


def _sweep(walked: Sequence[tuple[Shape, Linear]], rows: int, found: _Sweeps) -> None:
    """Adds seconds of a product of `rows` rows by every route that is not hopeless, from one walk over the matrices."""
    inputs = {linear.shape[1]: torch.ones(rows, linear.shape[1], dtype=linear.dtype) for _, linear in walked}
    # of one thread the processor time is taken: another program on the core does not count
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    least = {
        shape: {route: _quiet_seconds(of) for route, of in found.get((shape, rows), {}).items() if len(of) >= _FAIR}
        for shape, _ in walked
    }
    for route in ROUTES:
        spent: dict[Shape, list[float]] = {}
        for shape, linear in walked:
            if least[shape].get(route, 0.0) > _HOPELESS * min(least[shape].values(), default=0.0):
                continue
            before = clock()
            linear.through(route, inputs[linear.shape[1]])
            # of a part, the rest in proportion
            spent.setdefault(shape, []).append((clock() - before) * shape[0] / linear.shape[0])
        for shape, seconds in spent.items():
            found.setdefault((shape, rows), {}).setdefault(route, []).append(seconds)
