"""Imports go one way: specdec_core <- specdec_kernels <- specdec_labs <- notebooks and exercises."""

import ast
from collections.abc import Iterator
from pathlib import Path
import subprocess
import sys
import tomllib

from packaging.requirements import Requirement
import pytest

RANKS = {"specdec_core": 0, "specdec_kernels": 1, "specdec_labs": 2}
LEARNER_RANK = 3
CORE_ALWAYS = {"torch", "numpy", "scipy", "jaxtyping", "specdec_core"}
CORE_IN_MODEL_FUNCTIONS = {"transformers", "tokenizers", "safetensors", "huggingface_hub", "jinja2"}
KERNELS_ALWAYS = CORE_ALWAYS | {"specdec_kernels", "triton"}
# Triton is optional: in the labs for files named so, which are imported only where it is installed, and where the
# learner meets it
MAY_USE_TRITON = ("_triton.py", "exercises/E08_kernels/", "notebooks/src/12_triton_kernels.py")
IPYTHON = "IPython"  # what ipykernel and ipywidgets run on
HEAVY = ("transformers", "tokenizers", "triton", "plotly", "ipywidgets", "anywidget", "IPython", "typer", "matplotlib")


def imports(tree: ast.AST, inside_function: bool = False) -> Iterator[tuple[str, bool, int]]:
    """(top-level name, whether a function delays it, line) of every absolute import below `tree`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")[0], inside_function, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0], inside_function, node.lineno
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from imports(node, inside_function or is_function)


def declared() -> set[str]:
    """Top-level modules of what `pip install specdec-lab[labs]` asks for."""
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    entries = project["dependencies"] + project["optional-dependencies"]["labs"]
    return {Requirement(entry).name.replace("-", "_") for entry in entries} | {IPYTHON, *RANKS}


def rank_of(name: str) -> int:
    """Layer of a file by its path below the root, without the folder that holds its package."""
    return RANKS.get(name.removeprefix("kernels/").removeprefix("labs/").split("/")[0], LEARNER_RANK)


def optional_in(name: str) -> set[str]:
    """What the file may import although no extra that it needs asks for it."""
    return {"triton"} if any(part in name for part in MAY_USE_TRITON) else set()


def violations(name: str, source: str) -> list[str]:
    """What the file `name` with this source imports and must not."""
    rank, in_models, found = rank_of(name), name.startswith("specdec_core/models/"), []
    for module, delayed, line in imports(ast.parse(source)):
        where = f"{name}:{line} imports {module}"
        third_party = module not in sys.stdlib_module_names
        if RANKS.get(module, 0) > rank:
            found.append(f"{where}, a layer above")
        elif rank == 0 and third_party and module not in CORE_ALWAYS:
            if not (in_models and delayed and module in CORE_IN_MODEL_FUNCTIONS):
                found.append(f"{where}; the core takes {sorted(CORE_ALWAYS)}, models/ more inside functions")
        elif rank == 1 and third_party and module not in KERNELS_ALWAYS:
            found.append(f"{where}; the kernels take {sorted(KERNELS_ALWAYS)}")
        elif rank >= 2 and third_party and module not in declared() | optional_in(name):
            found.append(f"{where}, which the labs extra of pyproject.toml does not list")
    return found


def test_every_file_keeps_the_order(root: Path, source_files: tuple[Path, ...]) -> None:
    found, seen = [], set()
    for path in source_files:
        name = path.relative_to(root).as_posix()
        if path.suffix == ".py" and not name.startswith("tests/"):
            seen.add(rank_of(name))
            found += violations(name, path.read_text(encoding="utf-8"))
    assert {0, 1, 2} <= seen
    assert found == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("specdec_core/engine.py", "import specdec_kernels"),
        ("specdec_core/engine.py", "def f():\n    from specdec_labs.plots import x"),
        ("specdec_core/engine.py", "import transformers"),
        ("specdec_core/engine.py", "def f():\n    import transformers"),
        ("specdec_core/models/hf.py", "import transformers"),
        ("specdec_core/models/hf.py", "if True:\n    import tokenizers"),
        ("specdec_core/models/hf.py", "def f():\n    import plotly"),
        ("kernels/specdec_kernels/a.py", "from specdec_labs import x"),
        ("kernels/specdec_kernels/a.py", "import transformers"),
        ("labs/specdec_labs/a.py", "def f():\n    import pandas"),
        ("labs/specdec_labs/a.py", "def f():\n    import triton"),
        ("exercises/E01_residual/starter.py", "import matplotlib"),
    ],
)
def test_a_wrong_import_is_found(name: str, source: str) -> None:
    assert len(violations(name, source)) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("specdec_core/engine.py", "import math\nimport torch.nn\nfrom specdec_core.laws import x"),
        ("specdec_core/models/hf.py", "def f():\n    from transformers import x"),
        ("kernels/specdec_kernels/a.py", "import triton.language\nfrom specdec_core import ops"),
        ("labs/specdec_labs/a.py", "import plotly, IPython, specdec_kernels, specdec_core"),
        ("labs/specdec_labs/a_triton.py", "import triton.language"),
        ("exercises/E08_kernels/starter.py", "import triton"),
        ("exercises/E01_residual/starter.py", "import specdec_labs"),
        ("notebooks/src/00_start_here.py", "import specdec_labs"),
    ],
)
def test_a_right_import_passes(name: str, source: str) -> None:
    assert violations(name, source) == []


@pytest.mark.parametrize("package", RANKS)
def test_importing_a_package_loads_nothing_heavy(package: str, tmp_path: Path) -> None:
    code = f"import sys, {package}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


def test_the_core_imports_its_modules_without_the_models_extra(root: Path, tmp_path: Path) -> None:
    """Every module of the core loads where transformers, tokenizers and triton do not exist."""
    modules = [
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((root / "specdec_core").rglob("*.py"))
    ]
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in HEAVY)
    code = f"import importlib, sys\n{blocked}for name in {modules!r}:\n    importlib.import_module(name)\n"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
