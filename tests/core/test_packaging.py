"""The five guards against the name `kernels`, and what a wheel contains.

A top-level module called `kernels` (our folder, found by accident) breaks `from transformers import ...` wherever
the package of that name is expected; the same accident with `labs` or `tests` shadows somebody else's module.
"""

from pathlib import Path
import re
import subprocess
import sys
import sysconfig
import zipfile

import pytest

PACKAGES = {"specdec_core", "specdec_kernels", "specdec_labs"}
FOLDERS = ("kernels", "labs", "exercises", "tests")
DATA_SUFFIXES = {".js", ".css", ".json", ".jsonl"}


@pytest.fixture(scope="module")
def wheel_names(root: Path, source_files: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names inside the wheel, built without network from a copy of the tracked files."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for path in source_files:
        copy = source / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", target]
    result = subprocess.run([*command, source], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = target.glob("specdec_lab-*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_guard_1_a_wheel_installs_our_packages_and_no_other_name(wheel_names: set[str]) -> None:
    top_level = {name.split("/")[0] for name in wheel_names}
    assert {name for name in top_level if not name.endswith(".dist-info")} == PACKAGES


def test_a_wheel_holds_every_module_and_data_file(
    root: Path, source_files: tuple[Path, ...], wheel_names: set[str]
) -> None:
    expected = set()
    for path in source_files:
        name = path.relative_to(root).as_posix().removeprefix("kernels/").removeprefix("labs/")
        if name.split("/")[0] in PACKAGES and path.suffix in DATA_SUFFIXES | {".py"}:
            expected.add(name)
    assert expected
    assert sorted(expected - wheel_names) == []


def test_a_wheel_carries_the_licence(wheel_names: set[str]) -> None:
    names = {Path(name).name for name in wheel_names if ".dist-info/" in name}
    assert {"LICENSE", "NOTICE"} <= names


@pytest.mark.parametrize("folder", FOLDERS)
def test_guard_2_a_folder_that_is_no_package_has_no_init(root: Path, folder: str) -> None:
    assert (root / folder).is_dir()
    assert not (root / folder / "__init__.py").exists()


def test_guard_3_transformers_imports_a_model_class_from_the_root(root: Path) -> None:
    code = "import sys; sys.path.insert(0, '.'); from transformers import AutoModelForCausalLM"
    result = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr


def test_guard_4_the_installation_exposes_no_folder_of_ours(tmp_path: Path) -> None:
    code = (
        "from importlib.util import find_spec\n"
        "assert find_spec('specdec_kernels') is not None, 'the lab is not installed here: run make setup'\n"
        "for name in ('kernels', 'labs', 'exercises', 'tests', 'notebooks', 'docs'):\n"
        "    spec = find_spec(name)\n"
        "    print(name, spec and (spec.origin or list(spec.submodule_search_locations)[0]))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    site_packages = sysconfig.get_path("purelib")
    for line in result.stdout.splitlines():
        name, origin = line.split(maxsplit=1)
        assert origin == "None" or origin.startswith(site_packages), f"{name} is found at {origin}"


def test_guard_5_the_readme_names_the_package_to_import(root: Path) -> None:
    text = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    assert "import `specdec_kernels`, never `kernels`" in text


def test_guard_5_no_file_imports_a_folder_of_ours(root: Path, source_files: tuple[Path, ...]) -> None:
    statement = re.compile(r"^\s*(?:import|from)\s+(?:kernels|labs|exercises|tests|notebooks)\b", re.MULTILINE)
    assert statement.search("from kernels.philox import x")
    found = [
        path.relative_to(root).as_posix()
        for path in source_files
        if path.suffix in {".py", ".ipynb", ".md"} and statement.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_the_version_has_one_source(root: Path) -> None:
    from importlib.metadata import version

    import specdec_core
    import specdec_kernels
    import specdec_labs

    assert version("specdec-lab") == specdec_core.__version__
    assert specdec_kernels.__version__ == specdec_labs.__version__ == specdec_core.__version__
    assert f"## {specdec_core.__version__}" in (root / "CHANGELOG.md").read_text(encoding="utf-8")
