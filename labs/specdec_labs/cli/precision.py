"""`specdec precision`: what bfloat16, float16 and coarse random numbers cost, in total variation."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
import torch

from specdec_core.hardware import describe_hardware
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_output
from specdec_labs.precision.costs import TAIL_FROM, race_costs, softmax_costs, verify_costs

LARGEST_VOCAB = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionOptions:
    """The options of `specdec precision`, as its help describes them."""

    vocab: int = 49_152
    json: Path | None = None


def run_precision(options: PrecisionOptions, console: Console) -> int:
    """0 after the three tables are shown and the file, if asked for, is written.

    Raises:
        ValueError: a vocabulary that is too small or too large, or a file that cannot be written.
    """
    if not TAIL_FROM < options.vocab <= LARGEST_VOCAB:
        raise ValueError(f"vocab is {options.vocab}; expected {TAIL_FROM + 1}..{LARGEST_VOCAB} tokens")
    check_output(options.json)
    tables = {
        "softmax": (_softmax_table, softmax_costs),
        "verification": (_verify_table, verify_costs),
        "race": (_race_table, race_costs),
    }
    results: dict[str, list[dict[str, Any]]] = {}
    for name, (table, costs) in tables.items():
        rows = _collect(costs(options.vocab), name, console)
        results[name] = [asdict(row) for row in rows]
        console.print(table(rows))
    facts = describe_hardware()
    console.print(
        f"Zipf laws over {options.vocab} tokens; computed, nothing is sampled; {facts['processor']}, "
        f"torch {facts['torch']} ({torch.get_num_threads()} thread(s)), {facts['date']}",
        style="dim",
    )
    if options.json is not None:
        write_json(options.json, {"vocab": options.vocab, **results})
        console.print(f"written to {options.json}", style="dim")
    return 0


def _collect(costs: Iterator[Any], name: str, console: Console) -> list[Any]:
    rows: list[Any] = []
    with console.status(f"{name}: ") as status:
        for row in costs:
            rows.append(row)
            status.update(f"{name}: {len(rows)} rows")
    return rows


def _softmax_table(rows: Sequence[Any]) -> Table:
    table = _table("Softmax of Zipf logits, the largest 20", "Zipf", "rounded", "TV", "mass lost")
    for row in rows:
        table.add_row(f"{row.exponent}", row.what, f"{row.tv:.1e}", f"{row.lost:.1e}" if row.lost else "0")
    return table


def _verify_table(rows: Sequence[Any]) -> Table:
    heading = "Rejection sampling: draft logits are the target's plus noise of deviation sigma (Zipf 1.0)"
    table = _table(heading, "sigma", "judged with", "accepted", "TV", "TV of the residual")
    for row in rows:
        rest = f"{row.residual_tv:.1e}" if row.residual_tv else "0"
        table.add_row(f"{row.spread}", row.what, f"{row.accepted:.4f}", f"{row.tv:.1e}", rest)
    return table


def _race_table(rows: Sequence[Any]) -> Table:
    tail = f"drawn from rank {TAIL_FROM} on"
    table = _table("Exponential race, smallest E / weight wins", "Zipf", "noise E", "TV", tail, "right")
    for row in rows:
        shares = (f"{100 * value:.3f} %" for value in (row.tail, row.true_tail))
        table.add_row(f"{row.exponent}", row.what, f"{row.tv:.1e}", *shares)
    table.caption = "integration error: below 1e-5 for fine noise (row 'ideal'), below 1e-4 for noise of few values"
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < 2 else "right")
    return table
