"""What no tracked file may hold, and the sizes that keep the code readable."""

import ast
from pathlib import Path
import re

import pytest

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_FILE_BYTES = 2_000_000
FORBIDDEN_NAMES = {"utils", "helpers", "misc", "common"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".yml", ".txt", ".sh", ".js", ".css", ".ipynb", ".json", ".jsonl", ""}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|farm|tmp|home/\w+|Users/\w+)/")
REGISTRY_HOST = re.compile(r"pypi\.(?:org|io)|python[h]osted|npm[j]s|(?:deb|ftp)\.debian\.org|download\.pytorch\.org")
LEFT_OVER = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X|HAC[K])\b")
UNSAFE = re.compile(r"\bpickle\.loads?\b|\btorch\.load\b|trust_remote_code=True|\bshell=True")


@pytest.fixture(scope="module")
def texts(root: Path, source_files: tuple[Path, ...]) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in source_files
        if path.suffix in TEXT_SUFFIXES
    }


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY_HOST], ids=["path of one machine", "registry host"])
def test_no_file_names_one_machine_or_registry(texts: dict[str, str], pattern: re.Pattern[str]) -> None:
    assert [name for name, text in texts.items() if pattern.search(text)] == []


def test_no_code_is_left_half_done_or_loads_unsafely(texts: dict[str, str]) -> None:
    code = {name: text for name, text in texts.items() if name.endswith((".py", ".js"))}
    assert [name for name, text in code.items() if LEFT_OVER.search(text)] == []
    packages = {name: text for name, text in code.items() if not name.startswith("tests/")}
    assert [name for name, text in packages.items() if UNSAFE.search(text)] == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (MACHINE_PATH, "open('/" + "root/x')"),
        (MACHINE_PATH, "cd /" + "home/somebody/lab"),
        (REGISTRY_HOST, "https://" + "pypi" + ".org/simple"),
        (LEFT_OVER, "# TO" + "DO later"),
        (UNSAFE, "torch" + ".load(path)"),
    ],
)
def test_each_pattern_finds_its_kind(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


def test_files_stay_short(texts: dict[str, str]) -> None:
    lengths = {name: text.count("\n") for name, text in texts.items() if name.endswith((".py", ".js", ".css"))}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_functions_fit_a_screen(texts: dict[str, str]) -> None:
    long_ones = {}
    for name, text in texts.items():
        if not name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                # a kernel's pointers and strides stand one a line: its screen begins where its work does
                is_kernel = any(ast.unparse(decorator).startswith("triton.jit") for decorator in node.decorator_list)
                first = node.body[0].lineno if is_kernel else node.lineno
                lines = (node.end_lineno or node.lineno) - first + 1
                if lines > MAX_FUNCTION_LINES:
                    long_ones[f"{name}:{node.lineno} {node.name}"] = lines
    assert long_ones == {}


def test_no_file_is_named_after_nothing(texts: dict[str, str]) -> None:
    assert [name for name in texts if Path(name).stem.lower() in FORBIDDEN_NAMES] == []


def test_no_large_file_but_weights(root: Path, source_files: tuple[Path, ...]) -> None:
    large = [path for path in source_files if path.suffix != ".safetensors" and path.stat().st_size > MAX_FILE_BYTES]
    assert [path.relative_to(root).as_posix() for path in large] == []
