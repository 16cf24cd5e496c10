"""`python -m specdec_kernels.aot`: every kernel compiled for every target, without a GPU, and what it needs there.

The answers are kept in a file, keyed by the kernel's source and everything else that decides them, so a second run
compiles only what changed.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
import hashlib
import json
import os
from pathlib import Path
import sys

from specdec_core.whole_file import write_whole
from specdec_kernels.aot_cases import ALIGNED, Case, cases
from specdec_kernels.aot_page import flat, write
from specdec_kernels.compilation import TARGETS, KernelResources, check_compilable, compile_ahead

_COLUMNS = ("kernel", "configuration", "target", "registers", "spill bytes", "shared bytes", "binary bytes")


def default_cache() -> Path:
    """Where answers are kept: the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root, "specdec-lab", "aot.json")


def case_key(case: Case, target: str) -> str:
    """Changes with the kernel's source (and that of all it calls), its constants, types, warps, target and Triton.

    Raises:
        ValueError: TRITON_INTERPRET was set when the kernel was imported.
    """
    import triton

    kernel = case.load()
    check_compilable(kernel)
    parts = [
        kernel.cache_key,
        case.signature(kernel.arg_names),
        case.constants,
        case.warps(target),
        case.num_stages,
        ALIGNED,
        target,
    ]
    return hashlib.sha256(json.dumps([*parts, triton.__version__], default=str).encode()).hexdigest()


def compile_cases(
    chosen: Iterable[Case], targets: Iterable[str], cache: Path | None, progress: Callable[[str], None] | None = None
) -> Iterator[tuple[Case, KernelResources]]:
    """(case, resources) of every case on every target; `cache` None compiles everything anew.

    Raises:
        ValueError: an unknown target, or TRITON_INTERPRET set when the kernels were imported.
    """
    known = _read(cache)
    for case in chosen:
        for target in targets:
            key = case_key(case, target)
            if key not in known:
                if progress is not None:
                    progress(f"compiling {case.kernel} ({case.config}) for {target}")
                kernel = case.load()
                used = compile_ahead(
                    kernel, case.signature(kernel.arg_names), case.constants, target, aligned=ALIGNED,
                    num_warps=case.warps(target), num_stages=case.num_stages,
                )  # fmt: skip
                known[key] = asdict(used)
                _write(cache, known)
            yield case, KernelResources(**known[key])


def table(rows: Iterable[tuple[Case, KernelResources]]) -> str:
    """The rows as a Markdown table."""
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    for case, used in rows:
        numbers = (used.registers, used.spill_bytes, used.shared_bytes, used.binary_bytes)
        lines.append(f"| `{case.kernel}` | {case.config} | {used.target} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 when a kernel spills on an NVIDIA target."""
    parser = argparse.ArgumentParser(prog="python -m specdec_kernels.aot", description=__doc__)
    parser.add_argument("--target", action="append", choices=[*TARGETS], help="one target (repeatable); all without it")
    parser.add_argument("--kernel", default="", help="only kernels whose name holds this text")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="renew page and file in this folder (docs)")
    parser.add_argument("--no-cache", action="store_true", help="compile everything anew")
    options = parser.parse_args(arguments)
    chosen = [case for case in cases() if options.kernel in case.kernel]
    if not chosen:
        parser.error(f"no kernel's name holds {options.kernel!r}")
    if options.write is not None and (options.kernel or options.target):
        parser.error("--write renews the whole table; leave --kernel and --target out")
    cache = None if options.no_cache else default_cache()
    try:
        rows = [
            *compile_cases(chosen, options.target or [*TARGETS], cache, lambda line: print(line, file=sys.stderr)),
        ]
        if options.json is not None:
            write_whole(options.json, json.dumps(flat(rows), indent=1) + "\n")
        if options.write is not None:
            print(*(f"written: {path}" for path in write(options.write, flat(rows))), sep="\n", file=sys.stderr)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(table(rows))
    spilling = [f"{case.kernel} ({case.config})" for case, used in rows if used.spill_bytes and used.target != "gfx942"]
    if spilling:
        print(f"{len(spilling)} spill: {', '.join(spilling)}", file=sys.stderr)
    return int(bool(spilling))


def _read(cache: Path | None) -> dict[str, dict]:
    if cache is None or not cache.is_file():
        return {}
    try:
        known = json.loads(cache.read_text(encoding="utf-8"))
    except ValueError:
        # a damaged cache costs a compilation, nothing else
        return {}
    return known if isinstance(known, dict) else {}


def _write(cache: Path | None, known: dict[str, dict]) -> None:
    if cache is not None:
        cache.parent.mkdir(parents=True, exist_ok=True)
        # another process may compile at the same time: what it found stays
        known |= _read(cache)
        write_whole(cache, json.dumps(known))


if __name__ == "__main__":
    sys.exit(main())
