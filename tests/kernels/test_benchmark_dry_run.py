"""The benchmark of every kernel module runs on a CPU and says that it measured no kernel."""

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("module", ["verify_chain", "verify_block", "verify_tree"])
def test_dry_run_on_a_cpu(module: str) -> None:
    command = [sys.executable, "-m", f"specdec_kernels.{module}", "--device", "cpu"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    first, *rows = result.stdout.splitlines()
    assert first.endswith("not a measurement of a kernel")
    assert len(rows) == 2
    assert all(row.endswith("same verdicts") for row in rows)
