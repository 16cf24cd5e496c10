"""`python -m specdec_labs.bench_kernels`: the command without typer and rich, for a GPU machine that has neither."""

import argparse
from pathlib import Path
import sys

from specdec_labs.bench_kernels.run import BenchKernelsOptions, run_bench_kernels


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 right, 1 something of ours is wrong or failed, 2 options that cannot be used."""
    defaults = BenchKernelsOptions()
    parser = argparse.ArgumentParser(prog="python -m specdec_labs.bench_kernels", description=__doc__)
    parser.add_argument("--device", default=defaults.device, help="cuda, cuda:N, or cpu (with --smoke)")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, every kind of job once")
    parser.add_argument("--minutes", type=float, default=defaults.minutes, help="stop here, whatever is left")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--html", type=Path, help="write tables and plots to this page")
    parser.add_argument("--redraw", type=Path, help="draw the page of this JSON file instead of running")
    options = parser.parse_args(arguments)
    try:
        return run_bench_kernels(BenchKernelsOptions(**vars(options)), lambda line: print(line, flush=True))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
