"""docs/kernels.md shows what docs/results/kernels-aot.json holds, and that file is about the kernels there are."""

import json
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

from specdec_kernels.aot_cases import Case, cases
from specdec_kernels.aot_page import BEGIN, COMMAND, END, PAGE, RESULTS, page_table, write
from specdec_kernels.compilation import TARGETS, KernelResources

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / PAGE).read_text(encoding="utf-8")
FILE = json.loads((DOCS / RESULTS).read_text(encoding="utf-8"))
RENEW = f"renew it with: {COMMAND}"


def test_the_table_of_the_page_is_that_of_the_file() -> None:
    assert TEXT.split(BEGIN)[1].split(END)[0] == page_table(FILE["rows"]), RENEW


def test_the_file_is_about_every_kernel_and_configuration_there_is() -> None:
    wanted = [(case.kernel, case.config, target) for case in cases() for target in TARGETS]
    assert [(row["kernel"], row["config"], row["target"]) for row in FILE["rows"]] == wanted, RENEW


def test_nothing_spills_on_nvidia_and_the_file_says_what_made_it() -> None:
    assert [row for row in FILE["rows"] if row["spill_bytes"] and row["target"] != "gfx942"] == []
    assert FILE["command"] == COMMAND
    assert FILE["triton"] and FILE["date"]


def used(target: str, spill_bytes: int = 0) -> tuple[Case, KernelResources]:
    return Case("m", "some_kernel", "BLOCK 8", {}), KernelResources(target, 40, spill_bytes, 2048, 5)


def test_writing_replaces_the_table_and_nothing_else(tmp_path: Path) -> None:
    from specdec_kernels.aot_page import flat

    (tmp_path / "results").mkdir()
    (tmp_path / PAGE).write_text(f"before\n\n{BEGIN}old{END}\nafter\n")
    rows = flat([used(target, 8 * (target == "gfx942")) for target in TARGETS])
    write(tmp_path, rows)
    first, second = (tmp_path / PAGE).read_text(), json.loads((tmp_path / RESULTS).read_text())
    cells = "40 / 2,048 | 40 / 2,048 | 40 / 2,048 | 40 / 2,048, **8 spilled**"
    assert f"| `some_kernel` | BLOCK 8 | {cells} |{END}" in first
    assert first.startswith("before\n\n<!-- aot -->") and first.endswith("\nafter\n")
    assert second["rows"] == rows
    with pytest.raises(ValueError, match=r"some_kernel \(BLOCK 8\) was not compiled for gfx942"):
        write(tmp_path, rows[:3])
    assert (tmp_path / PAGE).read_text() == first
    (tmp_path / PAGE).write_text("no place")
    with pytest.raises(ValueError, match="has no place for the table"):
        write(tmp_path, rows)
    with pytest.raises(ValueError, match="wants a folder with kernels.md in it"):
        write(tmp_path / "results", rows)
