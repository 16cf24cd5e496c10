"""No two requests of a measurement read the same noise: its intervals take prompts and samples for independent.

The arms of a comparison do share it, on one prompt and under the same parameters: what differs then is the arm.
"""

import inspect
from pathlib import Path
import shutil
from typing import Any
import zlib

import nbformat
import numpy as np
import pytest
import torch

from specdec_core.certify import certify
from specdec_core.certify_callable import certify_callable
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.llama_folder import save_llama
from specdec_core.models.pairs import load_pair
from specdec_core.models.trainable import TrainableLlama
from specdec_core.toy import toy_pair
from specdec_core.warp import SamplingParams
from specdec_kernels.verify_batch import KeyedNoise
from specdec_labs.audit import transformers_audit
from specdec_labs.audit.flashinfer_audit import ChainSampler
from specdec_labs.audit.tables import paper_example
from specdec_labs.bench.grid import Cell, CellRun, Grid, run_grid
from specdec_labs.build_notebooks import build
from specdec_labs.data.corpus import SAMPLE
from specdec_labs.kernel_law.subjects import subjects
from specdec_labs.shipped.combinations import combinations
from specdec_labs.train import mismatch
from specdec_labs.train.streams import TOKENIZER, make_streams

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "src"
WITH_ENGINES = ("00_start_here", "02_rejection_sampling", "05_draft_and_target", "06_trees_and_masks")
Ranges = list[tuple[int, int]]


class Requests:
    """Every request that engines have served with noise: who, under which key, on what."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, Any, str]] = []

    def recorded(self, stream: Any) -> Any:
        """`Engine.stream`, noting what it is asked."""

        def noted(engine: Any, prompt: Any, params: Any = None, *rest: Any, request: int = 0, **more: Any) -> Any:
            if params is not None and not params.is_greedy:
                # the engine itself is kept, so that no later one gets its id
                self.seen.append((engine, (params.seed, request), f"{list(prompt)} {params}"))
            return stream(engine, prompt, params, *rest, request=request, **more)

        return noted

    def check(self, at_least: int) -> None:
        """Every key belongs to one prompt under one set of parameters, and no engine has met it twice."""
        assert len(self.seen) >= at_least
        keys = {key for _, key, _ in self.seen}
        assert len({(key, what) for _, key, what in self.seen}) == len(keys), "two prompts or cells share noise"
        self.check_engines(at_least)

    def check_engines(self, at_least: int) -> None:
        """No engine has met a key twice."""
        assert len(self.seen) >= at_least
        assert len({(id(engine), key) for engine, key, _ in self.seen}) == len(self.seen), "an engine met noise twice"


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    found = Requests()
    monkeypatch.setattr(Engine, "stream", found.recorded(Engine.stream))
    return found


def test_the_record_sees_noise_that_is_read_twice(requests: Requests) -> None:
    engine = Engine(toy_pair()[0])
    for prompt in ([1, 2], [3, 4]):
        engine.generate(prompt, SamplingParams(seed=5), 2)
    with pytest.raises(AssertionError, match="two prompts"):
        requests.check(2)
    requests.seen.clear()
    for _ in range(2):
        engine.generate([1, 2], SamplingParams(seed=5), 2)
    with pytest.raises(AssertionError, match="an engine met noise twice"):
        requests.check(2)


def test_prompts_of_the_domain_mismatch(requests: Requests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, small in (("_NEW", 8), ("_RESAMPLES", 40)):
        monkeypatch.setattr(mismatch, name, small)
    make_streams(SAMPLE, tmp_path / "streams", vocabulary=320)
    folders = {}
    for seed, name in enumerate(("target", "both", "prose")):
        shape = LlamaConfig(
            vocab_size=320, width=16, ffn_width=24, layers=1, heads=2, kv_heads=1, head_dim=8, max_length=128
        )
        folders[name] = tmp_path / name
        save_llama(TrainableLlama(shape, seed=seed), folders[name])
        shutil.copyfile(tmp_path / "streams" / TOKENIZER, folders[name] / TOKENIZER)
    target = folders.pop("target")
    rows = mismatch.measure_mismatch(target, folders, tmp_path / "streams", tmp_path / "found.json", prompts=2)
    assert [(row["draft"], row["domain"], row["T"]) for row in rows[:4]] == [
        ("both", domain, temperature) for domain in ("prose", "code") for temperature in (0.0, 1.0)
    ]
    assert all(row["low"] <= row["alpha"] <= row["high"] for row in rows)
    assert all(1 <= row["tokens_low"] <= row["tokens_per_round"] <= row["tokens_high"] <= 5 for row in rows)
    assert len(rows) == 8
    # two domains of two prompts, two drafts
    requests.check(2 * 2 * 2)


def test_prompts_of_a_speed_up_run(requests: Requests) -> None:
    cells = (Cell("own", 0.5), Cell("own", 1.0), Cell("own", 0.0), Cell("mixed", 1.0))
    grid, kept = Grid(("ngram",), (2, 4), cells, tokens=4, prompts=4, seconds=600, seed=3), list[CellRun]()
    run_grid(grid, load_pair("toy"), {"ngram": NGramDrafter}, lambda *_: None, kept)
    assert len(kept) == 16
    requests.check(3 * 4 * 3)


@pytest.mark.parametrize("sequential", [False, True])
def test_samples_of_a_certificate(requests: Requests, sequential: bool) -> None:
    target, draft = toy_pair()
    engine, params = Engine(target, ModelDrafter(draft), "chain", 1), SamplingParams(temperature=10, top_k=2)
    for seed in (0, 1):
        certify(engine, (1, 2), params, gamma=1, n=100, bias=0.5, seed=seed, sequential=sequential)
    requests.check(100)


@pytest.mark.parametrize("sequential", [False, True])
def test_samples_of_a_callable(sequential: bool) -> None:
    """Of two seeds too; the museum, the kernels and the audits of other projects number their requests by it."""
    asked: Ranges = []

    def sample(first: int, count: int) -> list[list[int]]:
        asked.append((first, first + count))
        return np.random.default_rng(first).integers(0, 2, (count, 2)).tolist()

    for seed in (0, 1):
        certify_callable(sample, lambda text: [0.5, 0.5], horizon=2, n=500, seed=seed, sequential=sequential)
    ordered = sorted(asked)
    assert len(ordered) > 1
    assert all(before[1] <= after[0] for before, after in zip(ordered, ordered[1:]))


def test_the_certificates_of_what_ships() -> None:
    """Each is a measurement of its own under a seed of its own."""
    names = [combination.name for combination in combinations()]
    assert len({zlib.crc32(name.encode()) for name in names}) == len(names) > 10


def test_samples_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round of each request has a key of its own."""
    keys: list[tuple[int, ...]] = []
    init = KeyedNoise.__init__

    def noted(self: KeyedNoise, given: torch.Tensor) -> None:
        keys.extend(map(tuple, given.tolist()))
        init(self, given)

    monkeypatch.setattr(KeyedNoise, "__init__", noted)
    texts = subjects()[0].texts()
    for first in (0, 12, 1 << 20):
        texts(first, 12)
    assert len(keys) == len(set(keys)) >= 3 * 12 * 2
    assert {request for _, request, _ in keys} == {*range(24), *range(1 << 20, (1 << 20) + 12)}


def test_samples_of_other_projects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed for each request, or for each call with all its requests; the audits number requests as above."""
    seeds: list[int] = []
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    transformers_audit.subjects(["rule"])[0].sample(5, 20)
    assert seeds == list(range(5, 25))

    def judge(draft: Any, tokens: torch.Tensor, target: Any, generator: torch.Generator) -> torch.Tensor:
        seeds.append(generator.initial_seed())
        return torch.nn.functional.pad(tokens, (0, 1))

    seeds.clear()
    sampler = ChainSampler(judge, paper_example(), torch.device("cpu"))
    for first in (0, 4, 1 << 20):
        sampler(first, 4)
    assert set(seeds) == {0, 4, 1 << 20}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_ENGINES)
def test_texts_of_the_notebooks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with the record above around the engine, on the pair that is here: no engine meets its noise again.

    A page's pictures may show the noise that its measurement has, so engines are not compared.
    """
    from nbclient import NotebookClient

    monkeypatch.setenv("SPECDEC_FAST", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.reads(build(SOURCES / f"{name}.py", "solution"), as_version=4)
    begin = f"from typing import Any\nfrom specdec_core.engine import Engine\n{inspect.getsource(Requests)}\n"
    begin += "RECORD = Requests()\nEngine.stream = RECORD.recorded(Engine.stream)"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(begin))
    notebook.cells.append(nbformat.v4.new_code_cell("RECORD.check_engines(1)"))
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
