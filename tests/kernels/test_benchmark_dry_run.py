"""The benchmark of every kernel module runs on a CPU and says that it measured no kernel."""

import subprocess
import sys

import pytest

from specdec_kernels.cache_benchmark import main


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


@pytest.mark.parametrize("module", ["tree_attention", "kv_compact"])
def test_dry_run_of_the_cache_kernels(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(module, ["--device", "cpu"])
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.endswith("not a measurement of a kernel")
    assert [row.split(" us, ")[1] for row in rows] == ["largest difference 0.0e+00"] * 4
    assert [row.split(":")[0].split()[-1] for row in rows] == ["reference", "wrapper"] * 2
