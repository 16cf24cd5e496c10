"""`specdec bench routes`: is the plain step of this lab the fastest one there is here? Every route, in one run."""

from dataclasses import dataclass
from pathlib import Path
import random
import statistics
import time

from rich import box
from rich.console import Console
from rich.table import Table
import torch

from specdec_core.hardware import describe_hardware
from specdec_core.models.linear import PLAN_ROWS, ROUTES, Plan, read_plan
from specdec_core.models.llama import Llama
from specdec_core.models.pairs import load_pair
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_at_least_one, check_output, choose_pair, use_threads

CHOSEN = "chosen"
LEAST_SHARE = 0.97  # of the fastest route's speed: below, the plain arm of every speed-up is too slow
_FILLS = (1, 2, 3, 4, 6, 8)
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRoutesOptions:
    """The options of `specdec bench routes`, as its help describes them."""

    rounds: int = 15
    cached: int = 128
    pair: str | None = None
    threads: int | None = None
    json: Path | None = None


def run_bench_routes(options: BenchRoutesOptions, console: Console) -> int:
    """0 when the chosen routes are the fastest here, within what a measurement can tell; 1 when they are not.

    Raises:
        ValueError: options that cannot be used, or a pair whose model has no routes to choose.
    """
    check_output(options.json)
    for label in ("threads", "rounds", "cached"):
        check_at_least_one(label, getattr(options, label))
    use_threads(options.threads)
    name = choose_pair(options.pair, console)
    model = load_pair(name).target
    if not isinstance(model, Llama) or not any(linear.can_route for linear in model.linears()):
        raise ValueError(f"pair {name!r} has no routes to choose: it runs on {model.device} as another package does")
    with console.status("one row by every route, and every number of rows by the chosen ones"):
        one_row, by_rows = time_routes(model, options.rounds, options.cached)
    fastest = min(one_row, key=lambda arm: min(one_row[arm]))
    share = min(one_row[fastest]) / min(one_row[CHOSEN])
    _show(one_row, by_rows, console)
    facts = describe_hardware()
    console.print(
        f"{name}: the chosen routes run at {share:.2f} of the fastest ({fastest}); {facts['threads']} threads on "
        f"{facts['processor']}, torch {facts['torch']}, {options.cached} cached, {facts['date']}",
        style="bold" if share >= LEAST_SHARE else "bold magenta",
    )
    if options.json is not None:
        seconds = {"one_row_s": one_row, "rows_s": {str(rows): of for rows, of in by_rows.items()}}
        write_json(options.json, {"hardware": facts, "pair": name, "cached": options.cached, "share": share} | seconds)
    if share < LEAST_SHARE:
        console.print("Measure anew on a quiet machine: SPECDEC_ROUTES=measure specdec doctor")
    return int(share < LEAST_SHARE)


def time_routes(model: Llama, rounds: int, cached: int) -> tuple[dict[str, list[float]], dict[int, list[float]]]:
    """Seconds of a one-row pass by arm, and of a pass by rows under the model's own plans; all arms in every round."""
    linears = [linear for linear in model.linears() if linear.can_route]
    chosen = [linear.plan for linear in linears]
    arms = {f"{route}:{fill}" if fill > 1 else route: _one_row(route, fill) for route in ROUTES for fill in _FILLS}
    for linear in linears:
        linear.follow(linear.plan, keep=tuple(ROUTES))
    cache = model.new_cache(cached + PLAN_ROWS)
    tokens = torch.arange(cached + PLAN_ROWS) % model.vocab_size
    model.forward(tokens[:cached], cache=cache, last_only=True)

    def timed(rows: int) -> float:
        start = time.perf_counter()
        model.forward(tokens[:rows], cache=cache)
        seconds = time.perf_counter() - start
        cache.rollback(rows)
        return seconds

    one_row: dict[str, list[float]] = {}
    by_rows: dict[int, list[float]] = {}
    # in another order every round: what ran before an arm leaves its weights in the caches and the clock where it was
    turns: list[tuple[str, Plan | None, int]] = [(CHOSEN, None, 1), *((arm, plan, 1) for arm, plan in arms.items())]
    turns += [("", None, rows) for rows in _ROWS]
    order = random.Random(0)
    for _ in range(rounds):
        for arm, plan, rows in order.sample(turns, len(turns)):
            for linear, own in zip(linears, chosen):
                linear.plan = plan or own
            seconds = timed(rows)
            (one_row.setdefault(arm, []) if arm else by_rows.setdefault(rows, [])).append(seconds)
    for linear, own in zip(linears, chosen):
        linear.follow(own)
    return one_row, by_rows


def _one_row(route: str, fill: int) -> Plan:
    return read_plan(f"1={route}:{fill},{route}" if fill > 1 else route)


def _show(one_row: dict[str, list[float]], by_rows: dict[int, list[float]], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("one row by", "min ms", "median ms", "rows, as chosen", "min ms", "median ms"):
        table.add_column(column, justify="left" if column.startswith(("one", "rows")) else "right")
    left = sorted(one_row.items(), key=lambda item: min(item[1]))
    right = sorted(by_rows.items())
    for place in range(max(len(left), len(right))):
        cells = []
        for side in (left, right):
            label, times = side[place] if place < len(side) else ("", [])
            cells += [str(label), *(f"{1e3 * of(times):.1f}" if times else "" for of in (min, statistics.median))]
        table.add_row(*cells)
    console.print(table)
