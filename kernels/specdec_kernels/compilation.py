"""What a kernel costs on a GPU that is not here: ahead-of-time compilation and a look at the binary."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
import re
import subprocess
import tempfile
from typing import Any

# name -> (backend, architecture, threads in a warp); A100, H100 and H200, B200, MI300
TARGETS: dict[str, tuple[str, int | str, int]] = {
    "sm_80": ("cuda", 80, 32),
    "sm_90": ("cuda", 90, 32),
    "sm_100": ("cuda", 100, 32),
    "gfx942": ("hip", "gfx942", 64),
}


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What one program needs.

    Attributes:
        target: a key of `TARGETS`.
        registers: vector registers a thread.
        spill_bytes: private memory a thread, 0 when everything fits in registers.
        shared_bytes: shared memory (LDS on AMD) a program.
        binary_bytes: size of the cubin or hsaco.
    """

    target: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    binary_bytes: int


def compile_ahead(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    target: str,
    *,
    aligned: Collection[str] = (),
    num_warps: int = 4,
    num_stages: int = 3,
) -> KernelResources:
    """Resources of `kernel` compiled for `target`; no GPU is needed.

    `signature` gives each argument's type in Triton's notation ("*fp32", "i32", "constexpr"), `constants` the
    value of each "constexpr". Numbers in `aligned` are multiples of 16, which the launcher finds out for itself.

    Raises:
        ValueError: an unknown target, or a kernel that was decorated under TRITON_INTERPRET=1.
    """
    from triton import compile
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if target not in TARGETS:
        raise ValueError(f"target is {target!r}; expected one of {', '.join(TARGETS)}")
    check_compilable(kernel)
    source = ASTSource(kernel, dict(signature), dict(constants), _multiples(signature, aligned))
    options = {"num_warps": num_warps, "num_stages": num_stages}
    compiled = compile(source, target=GPUTarget(*TARGETS[target]), options=options)
    if TARGETS[target][0] == "cuda":
        binary, (registers, spill_bytes) = compiled.asm["cubin"], _cuda_usage(compiled.asm["cubin"])
    else:
        binary, (registers, spill_bytes) = compiled.asm["hsaco"], _amd_usage(compiled.asm["amdgcn"])
    return KernelResources(target, registers, spill_bytes, compiled.metadata.shared, len(binary))


def check_compilable(kernel: Any) -> None:
    """ValueError for a kernel that was decorated under TRITON_INTERPRET=1."""
    from triton import JITFunction

    if not isinstance(kernel, JITFunction):
        raise ValueError(
            f"kernel is a {type(kernel).__name__}, expected a JITFunction: import it in a process where "
            "TRITON_INTERPRET is not set"
        )


def _multiples(signature: Mapping[str, str], aligned: Collection[str]) -> dict[tuple[int], list[tuple[str, int]]]:
    """Every pointer a multiple of 16 bytes, as the launcher finds those of fresh tensors: loads become wide."""
    kinds = enumerate(signature.items())
    chosen = [place for place, (name, kind) in kinds if kind.startswith("*") or (name in aligned and kind == "i32")]
    return {(place,): [("tt.divisibility", 16)] for place in chosen}


def _cuda_usage(cubin: bytes) -> tuple[int, int]:
    from triton import knobs

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        report = subprocess.run(
            [knobs.nvidia.cuobjdump.path, "-res-usage", str(path)], capture_output=True, text=True, check=True
        ).stdout
    return _number(r"REG:(\d+)", report), _number(r"STACK:(\d+)", report) + _number(r"LOCAL:(\d+)", report)


def _amd_usage(assembly: str) -> tuple[int, int]:
    return _number(r"\.vgpr_count:\s+(\d+)", assembly), _number(r"\.private_segment_fixed_size:\s+(\d+)", assembly)


def _number(pattern: str, report: str) -> int:
    match = re.search(pattern, report)
    if match is None:
        raise RuntimeError(f"no {pattern} in the compiler's report; this Triton version prints another format")
    return int(match.group(1))
