"""`specdec bench host`: the share of a round's time that is spent outside the models."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
import statistics
import time
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
import torch

from specdec_core.engine import Engine
from specdec_core.hardware import describe_hardware
from specdec_core.models.pairs import Pair
from specdec_core.warp import SamplingParams
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import (
    check_at_least_one,
    check_drafting,
    check_output,
    choose_pair,
    make_drafter,
    open_pair,
    prompt_ids,
    read_prompt,
    use_threads,
)
from specdec_labs.cli.timed_model import TimedModel

SETTINGS = {
    "greedy": SamplingParams(temperature=0, seed=0),
    "T = 1": SamplingParams(temperature=1, seed=0),
    "T = 1, top_p 0.9": SamplingParams(temperature=1, top_p=0.9, seed=0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """The options of `specdec bench host`, as its help describes them."""

    pair: str | None = None
    prompt: str | None = None
    file: str | None = None
    drafter: str = "ngram"
    gamma: int = 4
    tokens: int = 64
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
    json: Path | None = None


@dataclass(frozen=True, slots=True)
class RoundTime:
    """Wall seconds of one round, and those of them inside forwards of target and draft."""

    wall_s: float
    forward_s: float

    @property
    def host_s(self) -> float:
        """Seconds outside the models."""
        return self.wall_s - self.forward_s

    @property
    def host_share(self) -> float:
        """Fraction of the round outside the models."""
        return self.host_s / self.wall_s


def run_bench(options: BenchOptions, console: Console) -> int:
    """0 after the table is shown and the file, if asked for, is written.

    Raises:
        ValueError: options that cannot be used, or a text without a round.
    """
    text = read_prompt(options.prompt, options.file)
    check_output(options.json)
    check_at_least_one("threads", options.threads)
    check_drafting(options.drafter, None, options.gamma, "chain")
    name = choose_pair(options.pair, console)
    use_threads(options.threads)
    pair = open_pair(name, options.device, options.dtype, console)
    _, prompt = prompt_ids(pair, text)
    results: dict[str, list[RoundTime]] = {}
    with console.status("") as status:
        # the first passes of a process are slower; these are not kept
        time_rounds(pair, prompt, SETTINGS["greedy"], options, tokens=min(8, options.tokens))
        for label, params in SETTINGS.items():
            status.update(f"measuring {label}")
            results[label] = time_rounds(pair, prompt, params, options, tokens=options.tokens)
    console.print(_table(results))
    facts = describe_hardware()
    console.print(
        f"drafter {options.drafter}, gamma {options.gamma}; {torch.get_num_threads()} thread(s) on "
        f"{facts['processor']}, {facts['cores']} cores, torch {facts['torch']}, {facts['date']}",
        style="dim",
    )
    if options.json is not None:
        write_json(options.json, {"pair": pair.name, "settings": _settings(options), "rounds": _plain(results)})
        console.print(f"written to {options.json}", style="dim")
    return 0


def time_rounds(
    pair: Pair, prompt: Sequence[int], params: SamplingParams, options: BenchOptions, *, tokens: int
) -> list[RoundTime]:
    """The time of every round while `tokens` tokens are generated, the end-of-text token ignored."""
    target = TimedModel(pair.target)
    models = [target]
    if pair.draft is not None:
        models.append(TimedModel(pair.draft))
    drafter = make_drafter(options.drafter, pair, temperature=None, draft=models[-1] if pair.draft else None)
    stream = Engine(target, drafter, controller=options.gamma).stream(prompt, params, tokens)
    times: list[RoundTime] = []
    next(stream)
    while True:
        inside, start = sum(model.seconds for model in models), time.perf_counter()
        try:
            next(stream)
        except StopIteration:
            break
        wall = time.perf_counter() - start
        times.append(RoundTime(wall, sum(model.seconds for model in models) - inside))
    if not times:
        raise ValueError(f"tokens is {tokens}, which leaves no round to measure; expected at least 2")
    return times


def _table(results: dict[str, list[RoundTime]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "rounds", "round ms", "host ms", "host share", "min..max"):
        table.add_column(heading, justify="left" if heading == "" else "right")
    for label, times in results.items():
        shares = [100 * entry.host_share for entry in times]
        table.add_row(
            label,
            str(len(times)),
            f"{1e3 * statistics.median(entry.wall_s for entry in times):.1f}",
            f"{1e3 * statistics.median(entry.host_s for entry in times):.2f}",
            f"{statistics.median(shares):.1f} %",
            f"{min(shares):.1f}..{max(shares):.1f} %",
        )
    table.caption = "medians over rounds; host = outside the forwards of target and draft"
    return table


def _settings(options: BenchOptions) -> dict[str, Any]:
    return {"drafter": options.drafter, "gamma": options.gamma, "tokens": options.tokens}


def _plain(results: dict[str, list[RoundTime]]) -> dict[str, Any]:
    return {
        label: [{"wall_s": entry.wall_s, "forward_s": entry.forward_s} for entry in times]
        for label, times in results.items()
    }
