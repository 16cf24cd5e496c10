"""Every kernel compiles for the GPUs that matter, on a machine without one. `pytest -s` shows the resources."""

import os
import subprocess
import sys

import pytest

from specdec_kernels.compilation import TARGETS, compile_ahead

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

# a fresh process: TRITON_INTERPRET is read when a kernel is decorated, and the other tests have set it
PROGRAM = """
import sys
from specdec_kernels.compilation import compile_ahead
from specdec_kernels.philox_triton import noise_words_kernel

words = {name: "u32" for name in ("seed_lo", "seed_hi", "length", "request", "slot")}
signature = {"words_ptr": "*u32", **words, "num_tokens": "i32", "BLOCK": "constexpr"}
for target in sys.argv[1:]:
    used = compile_ahead(noise_words_kernel, signature, {"BLOCK": 256}, target)
    print(used.target, used.registers, used.spill_bytes, used.shared_bytes, used.binary_bytes)
"""


def test_noise_words_compiles_without_spills_for_every_target() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *TARGETS], capture_output=True, text=True, env=environment, timeout=300
    )
    assert result.returncode == 0, result.stderr
    print("\ntarget registers spill_bytes shared_bytes binary_bytes")
    print(result.stdout)
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == list(TARGETS)
    for target, registers, spill_bytes, shared_bytes, binary_bytes in rows:
        assert 0 < int(registers) <= 64, f"{target}: {registers} registers halve the occupancy"
        assert int(spill_bytes) == 0, f"{target} spills"
        assert int(shared_bytes) <= 16_384
        assert int(binary_bytes) > 0


def test_an_unknown_target_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="target is 'sm_1'; expected one of sm_80, sm_90, sm_100, gfx942"):
        compile_ahead(None, {}, {}, "sm_1")


def test_an_interpreted_kernel_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match="TRITON_INTERPRET is not set"):
        compile_ahead(lambda: None, {}, {}, "sm_80")
