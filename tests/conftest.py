"""What every test starts from: no network, the kernel interpreter without a GPU, the skip rules of the markers."""

import os
from pathlib import Path
import shutil
import subprocess

import pytest

# before transformers is imported: a test that reaches for a model hub fails instead of waiting for it
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

HAS_CUDA = torch.cuda.is_available()
if not HAS_CUDA:
    # Triton reads it when a kernel is decorated, so it has to be set before the first import of one
    os.environ.setdefault("TRITON_INTERPRET", "1")

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """Path of an installed Chromium, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: one that begins last would leave the other worker without work for minutes."""
    is_slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in is_slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what this machine cannot run, and says why."""
    if item.get_closest_marker("gpu") and not HAS_CUDA:
        pytest.skip("no CUDA device on this machine")
    if item.get_closest_marker("browser") and find_browser() is None:
        reason = "no Chromium found: install the package chromium to run the browser tests"
        if os.environ.get("SPECDEC_REQUIRE_BROWSER") == "1":
            pytest.fail(reason + " (SPECDEC_REQUIRE_BROWSER=1 makes them obligatory)", pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The Chromium that a test marked `browser` starts."""
    path = find_browser()
    assert path is not None, "a test that needs a browser carries @pytest.mark.browser"
    return path


@pytest.fixture(scope="session")
def source_files() -> tuple[Path, ...]:
    """Every file that git tracks, or would after `git add`."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return tuple(path for name in sorted(filter(None, listing.split("\0"))) if (path := ROOT / name).is_file())
