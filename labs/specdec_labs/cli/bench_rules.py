"""`specdec bench rules`: batched verification against one read of the laws, and against the loop of the tutorials."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
import os
from pathlib import Path
import statistics
import time
from typing import Any

from jaxtyping import Float64
from rich import box
from rich.console import Console
from rich.table import Table
import torch
from torch import Tensor

from specdec_core.hardware import describe_hardware
from specdec_core.rules.batched import ScriptedBatchCoins
from specdec_labs.cli.bench_rules_arms import Laws, keyed, make_laws, tutorial_loop, uniforms
from specdec_labs.cli.bench_rules_memory import peak_extra_bytes
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_at_least_one, check_output

READ, UNIFORMS, PHILOX, LOOP = "one read of p and q", "batched, given uniforms", "batched, Philox", "tutorial loop"
TARGET_RATIO, TARGET_MEMORY, TARGET_SECONDS = 0.5, 0.1, 20.0
_LOOP_REQUESTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRulesOptions:
    """The options of `specdec bench rules`, as its help describes them."""

    repeats: int = 15
    rounds: int = 1_000_000
    threads: int = 1
    quick: bool = False
    json: Path | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Requests, drafts a request, vocabulary."""

    batch: int
    drafted: int
    vocab: int


LARGE, TOY = Sizes(64, 8, 49_152), Sizes(4096, 4, 64)
QUICK_LARGE, QUICK_TOY = Sizes(4, 3, 20_000), Sizes(256, 4, 64)


@dataclass(slots=True)
class Times:
    """Wall and processor seconds of each run of an arm, and how many rounds (requests) a run verifies."""

    rounds: int
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def run(self, work: Callable[..., object], *arguments: object) -> None:
        """Runs the work once more under both clocks."""
        wall, cpu = time.perf_counter(), time.process_time()
        work(*arguments)
        self.wall_s.append(time.perf_counter() - wall)
        self.cpu_s.append(time.process_time() - cpu)


def run_bench_rules(options: BenchRulesOptions, console: Console) -> int:
    """0 after the tables are shown and the file, if asked for, is written.

    Raises:
        ValueError: options that cannot be used.
    """
    check_output(options.json)
    for name in ("repeats", "rounds", "threads"):
        check_at_least_one(name, getattr(options, name))
    torch.set_num_threads(options.threads)
    large_sizes, toy_sizes = (QUICK_LARGE, QUICK_TOY) if options.quick else (LARGE, TOY)
    repeats = min(3, options.repeats) if options.quick else options.repeats
    rounds = min(2000, options.rounds) if options.quick else options.rounds
    load_before = os.getloadavg()[0]
    with console.status("") as status:
        status.update("measuring memory")
        extra = peak_extra_bytes(large_sizes.batch, large_sizes.drafted, large_sizes.vocab)
        status.update("measuring large vocabularies")
        laws = make_laws(large_sizes.batch, large_sizes.drafted, large_sizes.vocab, seed=1)
        large, input_bytes = time_large(laws, repeats), laws.bytes
        del laws
        status.update("measuring small rounds")
        toy = time_toy(make_laws(toy_sizes.batch, toy_sizes.drafted, toy_sizes.vocab, seed=2), rounds)
    console.print(large_table(large, large_sizes))
    console.print(_memory_line(extra, input_bytes))
    console.print(toy_table(toy, toy_sizes, rounds))
    console.print(_machine_line(load_before), style="dim")
    if options.json is not None:
        write_json(
            options.json,
            {
                "large": {"sizes": asdict(large_sizes), "times": _plain(large)},
                "memory": {"input_bytes": input_bytes, "peak_extra_bytes": extra},
                "toy": {"sizes": asdict(toy_sizes), "rounds": rounds, "times": _plain(toy)},
                "load_before": load_before,
            },
        )
        console.print(f"written to {options.json}", style="dim")
    return 0


def time_large(laws: Laws, repeats: int) -> dict[str, Times]:
    """Every arm once a repeat, in turn, so that a busy moment meets them all. Coins are made outside the clock."""
    times = {name: Times(laws.batch) for name in (READ, UNIFORMS, PHILOX, LOOP)}
    # the first call of an arm is slower; it is not kept
    for repeat in range(-1, repeats):
        given, noise = ScriptedBatchCoins(uniforms(laws, seed=repeat + 1)), keyed(laws, length=repeat + 2)
        times[READ].run(laws.read)
        times[UNIFORMS].run(laws.verify, given)
        times[PHILOX].run(laws.verify, noise)
        times[LOOP].run(tutorial_loop, laws, laws.batch)
        if repeat < 0:
            times = {name: Times(laws.batch) for name in times}
    return times


def time_toy(laws: Laws, rounds: int) -> dict[str, Times]:
    """`rounds` rounds through each batched arm, a batch at a time and in turn, the coins' making included.

    The loop verifies a few requests after each batch: its time a round is measured, its total is computed.
    """
    looped = min(_LOOP_REQUESTS, laws.batch)
    times = {UNIFORMS: Times(laws.batch), PHILOX: Times(laws.batch), LOOP: Times(looped)}
    laws.verify(keyed(laws, length=1))
    for batch in range(-(-rounds // laws.batch)):
        times[UNIFORMS].run(_verify_given, laws, uniforms(laws, seed=batch))
        times[PHILOX].run(_verify_keyed, laws, batch + 1)
        times[LOOP].run(tutorial_loop, laws, looped)
    return times


def _verify_given(laws: Laws, given: Float64[Tensor, "batch questions"]) -> None:
    laws.verify(ScriptedBatchCoins(given))


def _verify_keyed(laws: Laws, length: int) -> None:
    laws.verify(keyed(laws, length=length))


def large_table(times: dict[str, Times], sizes: Sizes) -> Table:
    """Times of one verify call and its ratio to the read that ran beside it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("chain rule, float32", "min ms", "median ms", "/ read", "/ read, cpu", "loop / it"):
        table.add_column(heading, justify="left" if heading.startswith("chain") else "right")
    for name, entry in times.items():
        table.add_row(
            name,
            f"{1e3 * min(entry.wall_s):.1f}",
            f"{1e3 * statistics.median(entry.wall_s):.1f}",
            f"{ratio(entry.wall_s, times[READ].wall_s):.2f}",
            f"{ratio(entry.cpu_s, times[READ].cpu_s):.2f}",
            "" if name in (READ, LOOP) else f"{ratio(times[LOOP].wall_s, entry.wall_s):.1f}",
        )
    table.caption = (
        f"{sizes.batch} requests, K = {sizes.drafted}, V = {sizes.vocab}, checks off; ratios are medians over pairs "
        f"that ran one after the other; target {TARGET_RATIO} for given uniforms; Philox hashes every candidate"
    )
    return table


def toy_table(times: dict[str, Times], sizes: Sizes, rounds: int) -> Table:
    """Times a round, and of all rounds."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("small rounds", "min us", "median us", f"{rounds} rounds, s", "cpu s", "loop / it"):
        table.add_column(heading, justify="left" if heading.startswith("small") else "right")
    for name, entry in times.items():
        each = [1e6 * seconds / entry.rounds for seconds in entry.wall_s]
        total = rounds * 1e-6 * statistics.mean(each)
        loop = [seconds / times[LOOP].rounds for seconds in times[LOOP].wall_s]
        own = [seconds / entry.rounds for seconds in entry.wall_s]
        table.add_row(
            name,
            f"{min(each):.1f}",
            f"{statistics.median(each):.1f}",
            f"{total:.1f}" + (" (computed)" if name == LOOP else ""),
            f"{rounds * statistics.mean(entry.cpu_s) / entry.rounds:.1f}",
            "" if name == LOOP else f"{ratio(loop, own):.1f}",
        )
    table.caption = (
        f"batches of {sizes.batch}, K = {sizes.drafted}, V = {sizes.vocab}; a round is one request, its coins "
        f"included; target {TARGET_SECONDS:.0f} s for 1,000,000 rounds"
    )
    return table


def ratio(above: list[float], below: list[float]) -> float:
    """The median of the ratios of runs that followed each other."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def _machine_line(load_before: float) -> str:
    facts = describe_hardware()
    return (
        f"{torch.get_num_threads()} thread(s) on {facts['processor']}, {facts['cores']} cores, torch {facts['torch']}, "
        f"{facts['date']}; load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after (1 is one busy core)"
    )


def _memory_line(extra: int | None, inputs: int) -> str:
    if extra is None:
        return "peak extra memory: not measured, this system does not tell"
    return (
        f"peak extra memory: {extra / 1e6:.1f} MB, {100 * extra / inputs:.1f} % of the {inputs / 1e6:.0f} MB of p and "
        f"q (target {100 * TARGET_MEMORY:.0f} %): high-water mark of a fresh process, set back before the call"
    )


def _plain(times: dict[str, Times]) -> dict[str, Any]:
    return {name: asdict(entry) for name, entry in times.items()}
