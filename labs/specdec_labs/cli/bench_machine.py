"""`specdec bench machine`: memory bandwidth and arithmetic of this machine, as a hardware preset."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from specdec_core.hardware_presets import Hardware
from specdec_core.roofline import ridge_rows
from specdec_labs.bench.machine import measure_machine
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_at_least_one, check_output, use_threads
from specdec_labs.impossible import exit_code, findings_of, machine_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchMachineOptions:
    """The options of `specdec bench machine`, as its help describes them."""

    repeats: int = 7
    threads: int | None = None
    json: Path | None = None


def run_bench_machine(options: BenchMachineOptions, console: Console) -> int:
    """0 after the figures are shown and the file, if asked for, is written; 1 when they cannot be, which it says.

    Raises:
        ValueError: options that cannot be used.
    """
    check_output(options.json)
    for label in ("threads", "repeats"):
        check_at_least_one(label, getattr(options, label))
    use_threads(options.threads)
    with console.status("matrix-vector and square products"):
        machine = measure_machine(repeats=options.repeats)
    findings = findings_of({machine.name: machine_problem(machine)})
    if not findings:
        _show(machine, console)
    console.print(machine.source, style="dim")
    code = exit_code(findings, console)
    if options.json is not None:
        data = {"machine": machine.to_dict(), "findings": [finding.to_dict() for finding in findings]}
        write_json(options.json, data)
        console.print(f"written to {options.json}", style="dim")
    return code


def _show(machine: Hardware, console: Console) -> None:
    console.print(f"{machine.name}: {machine.bytes_per_s / 1e9:.1f} GB/s read by a matrix-vector product")
    for dtype, peak in machine.flops_per_s.items():
        console.print(f"  {dtype}: {peak / 1e9:.0f} GFLOP/s, ridge at {ridge_rows(machine, dtype):.0f} rows")
