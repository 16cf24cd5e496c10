"""`python -m specdec_kernels.aot`: no kernel spills on an NVIDIA target, all compile for AMD, and answers are kept."""

from importlib.metadata import version
import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any

import pytest

from specdec_kernels.aot_page import COMMAND, RESULTS
from specdec_kernels.compilation import TARGETS

pytest.importorskip("triton", reason="Triton has no wheel for this platform")


def run(*arguments: str, cache: Path, timeout: int) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, "-m", "specdec_kernels.aot", *arguments],
        capture_output=True,
        text=True,
        env=environment | {"XDG_CACHE_HOME": str(cache)},
        timeout=timeout,
    )


def test_a_second_run_compiles_nothing(tmp_path: Path) -> None:
    arguments = ("--kernel", "finish_kernel", "--target", "sm_90")
    first = run(*arguments, cache=tmp_path, timeout=120)
    assert first.returncode == 0, first.stderr
    assert "compiling finish_kernel (256 blocks) for sm_90" in first.stderr
    second = run(*arguments, cache=tmp_path, timeout=120)
    assert second.stderr == ""
    assert second.stdout == first.stdout
    (tmp_path / "specdec-lab" / "aot.json").write_text("{ damaged")
    assert run(*arguments, cache=tmp_path, timeout=120).stdout == first.stdout


def test_an_interpreted_kernel_is_refused(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "specdec_kernels.aot", "--kernel", "finish_kernel", "--no-cache"],
        capture_output=True,
        text=True,
        env=os.environ | {"TRITON_INTERPRET": "1"},
        timeout=120,
    )
    assert result.returncode == 2
    assert "TRITON_INTERPRET is not set" in result.stderr


@pytest.mark.slow
def test_every_kernel_compiles_for_every_target_and_spills_on_no_nvidia_gpu(tmp_path: Path, root: Path) -> None:
    # the user's cache is taken as it is: what has not changed is not compiled again
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    result = run("--json", str(tmp_path / "table.json"), cache=cache, timeout=3000)
    assert result.returncode == 0, result.stderr[-2000:]
    print(result.stdout)
    rows = json.loads((tmp_path / "table.json").read_text())
    assert {row["target"] for row in rows} == set(TARGETS)
    assert len(rows) % len(TARGETS) == 0
    assert [row for row in rows if row["target"] != "gfx942" and row["spill_bytes"]] == []
    assert all(row["shared_bytes"] <= 64 * 1024 for row in rows)
    committed = json.loads((root / "docs" / RESULTS).read_text(encoding="utf-8"))
    if committed["triton"] == version("triton"):
        # the size of a binary also depends on the folder, whose name it holds
        assert [needs(row) for row in rows] == [needs(row) for row in committed["rows"]], f"stale: run {COMMAND}"


def needs(row: dict[str, Any]) -> dict[str, Any]:
    """What a kernel needs on its target."""
    return {name: value for name, value in row.items() if name != "binary_bytes"}


def test_the_page_is_renewed_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    result = run("--write", str(tmp_path), "--kernel", "finish_kernel", cache=tmp_path, timeout=120)
    assert result.returncode == 2
    assert "--write renews the whole table" in result.stderr
