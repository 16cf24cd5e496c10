"""The command: options, the run, its files. Loads neither torch nor Triton before the worker has ended."""

from collections.abc import Callable
from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

from specdec_core.whole_file import check_destination
from specdec_labs.bench_kernels.plan import full_plan, smoke_plan
from specdec_labs.bench_kernels.report import DRY_RUN, passed, results, summary
from specdec_labs.bench_kernels.supervisor import supervise

_MOST_MINUTES = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchKernelsOptions:
    """The options of `specdec bench kernels`, as its help describes them."""

    device: str = "cuda"
    smoke: bool = False
    minutes: float = 3.7
    json: Path | None = None
    html: Path | None = None
    redraw: Path | None = None


def run_bench_kernels(options: BenchKernelsOptions, say: Callable[[str], None]) -> int:
    """0 when every check is right and every case of ours ran, else 1; files are written either way.

    Raises:
        ValueError: options that cannot be used.
    """
    from specdec_core.hardware import describe_hardware
    from specdec_labs.bench_kernels.page import write_page
    from specdec_labs.cli.json_file import write_json

    for path in (options.json, options.html):
        if path is not None:
            check_destination(path)
    if options.redraw is not None:
        return _redraw(options, say)
    _check(options)
    is_dry = options.device == "cpu"
    say(DRY_RUN if is_dry else f"at most {options.minutes:g} minutes; the most important first")
    jobs = smoke_plan() if options.smoke else full_plan()
    run = supervise(jobs, options.device, options.minutes, say)
    command = f"specdec bench kernels --device {options.device}" + " --smoke" * options.smoke
    found = results(run, device=options.device, command=f"{command} --minutes {options.minutes:g}")
    found["hardware"] = describe_hardware()
    # the file first: whatever is said about it can be said again
    if options.json is not None:
        write_json(options.json, found)
    say(summary(found))
    if options.json is not None:
        say(f"written to {options.json}")
    if options.html is not None:
        say("written to " + ", ".join(str(path) for path in write_page(found, options.html)))
    return 0 if passed(found) and not run.interrupted else 1


def _check(options: BenchKernelsOptions) -> None:
    if options.device != "cpu" and not options.device.startswith("cuda"):
        raise ValueError(f"device is {options.device!r}; expected cuda, cuda:N, or cpu (a dry run in the interpreter)")
    if not 0 < options.minutes <= _MOST_MINUTES:
        raise ValueError(f"minutes is {options.minutes:g}; expected more than 0 and at most {_MOST_MINUTES:g}")
    if options.device == "cpu" and not options.smoke:
        raise ValueError("a CPU has no kernels to time; add --smoke for a dry run in Triton's interpreter")
    from importlib.util import find_spec

    if find_spec("triton") is None:
        raise ValueError("triton is not installed; install it with: pip install triton")
    if options.device != "cpu":
        import torch

        if not torch.cuda.is_available():
            raise ValueError("torch finds no CUDA device here; --device cpu --smoke is a dry run without one")


def _redraw(options: BenchKernelsOptions, say: Callable[[str], None]) -> int:
    from specdec_labs.bench_kernels.page import write_page

    if options.html is None:
        raise ValueError("--redraw draws the page of an earlier run; say where to with --html")
    assert options.redraw is not None
    try:
        found: dict[str, Any] = json.loads(options.redraw.read_text(encoding="utf-8"))
        files = write_page(found, options.html)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"cannot draw {str(options.redraw)!r}: {type(error).__name__}: {error}") from error
    say("written to " + ", ".join(str(path) for path in files))
    return 0
