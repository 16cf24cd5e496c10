"""`specdec bench machine`: memory bandwidth and arithmetic of this machine, as a hardware preset."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from specdec_core.roofline import ridge_rows
from specdec_labs.bench.machine import measure_machine
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_at_least_one, check_output, use_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchMachineOptions:
    """The options of `specdec bench machine`, as its help describes them."""

    repeats: int = 7
    threads: int | None = None
    json: Path | None = None


def run_bench_machine(options: BenchMachineOptions, console: Console) -> int:
    """0 after the figures are shown and the file, if asked for, is written.

    Raises:
        ValueError: options that cannot be used.
    """
    check_output(options.json)
    for label in ("threads", "repeats"):
        check_at_least_one(label, getattr(options, label))
    use_threads(options.threads)
    with console.status("matrix-vector and square products"):
        machine = measure_machine(repeats=options.repeats)
    console.print(f"{machine.name}: {machine.bytes_per_s / 1e9:.1f} GB/s read by a matrix-vector product")
    for dtype, peak in machine.flops_per_s.items():
        console.print(f"  {dtype}: {peak / 1e9:.0f} GFLOP/s, ridge at {ridge_rows(machine, dtype):.0f} rows")
    console.print(machine.source, style="dim")
    if options.json is not None:
        write_json(options.json, {"machine": machine.to_dict()})
        console.print(f"written to {options.json}", style="dim")
    return 0
