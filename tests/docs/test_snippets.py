"""Code blocks marked `python run` in the documentation do run, each in a fresh process and an empty folder."""

from pathlib import Path
import re
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^```python run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPET = re.compile(r"<!-- snippet: (\w+) -->\n+(```python run\n)?")


def blocks() -> list:
    """Every marked block as a test parameter named after its page and number."""
    return [
        pytest.param(code, id=f"{page.name}-{number}")
        for page in PAGES
        for number, code in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1)
    ]


@pytest.mark.parametrize("code", blocks())
def test_a_marked_block_runs(code: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr


def test_each_named_snippet_of_the_readme_is_a_block_that_runs() -> None:
    found = dict(SNIPPET.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert set(found) == {"verifier", "pair"}
    assert all(found.values()), f"not marked `python run`: {[name for name, fence in found.items() if not fence]}"
