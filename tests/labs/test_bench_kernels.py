"""`specdec bench kernels`: the dry run in the interpreter, what it finds wrong, and how a run survives what breaks."""

from dataclasses import replace
import json
from pathlib import Path
import re
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from specdec_labs.bench_kernels import supervisor
from specdec_labs.bench_kernels.page import write_page
from specdec_labs.bench_kernels.plan import CHAIN, HEADLINES, OPERATORS, VOCABULARIES, Case, Job, full_plan, smoke_plan
from specdec_labs.bench_kernels.report import DRY_RUN, passed, results, share, summary
from specdec_labs.bench_kernels.run import BenchKernelsOptions, run_bench_kernels
from specdec_labs.bench_kernels.supervisor import Run, supervise
from specdec_labs.cli.app import app

TIMED = {"inputs": 4, "first_s": 1.0, "min_us": 30.0, "median_us": 40.0, "graph_min_us": 9.0, "graph_median_us": 10.0}


def test_a_dry_run_takes_every_path_and_claims_no_speed(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="Triton has no wheel for this platform")
    files = [tmp_path / "found.json", tmp_path / "page.html"]
    options = ["--device", "cpu", "--smoke", "--json", str(files[0]), "--html", str(files[1])]
    command = [sys.executable, "-m", "specdec_labs.bench_kernels", *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-2000:]
    assert result.stdout.startswith(DRY_RUN)
    found = json.loads(files[0].read_text())
    assert (found["title"], found["dry_run"], found["worker_processes"]) == (DRY_RUN, True, 1)
    assert {check["operator"] for check in found["checks"]} == set(OPERATORS)
    assert all(check.get("passed") or check["arm"] == "graph" for check in found["checks"])
    times = found["times"]
    assert [row for row in times if row.get("median_us") or row.get("graph_median_us") or row["share"]] == []
    assert {row["arm"] for row in times if "error" not in row and "unavailable" not in row} >= {
        "triton", "torch", "torch.compile",
    }  # fmt: skip
    assert not re.search(r"\d us\b|GB/s| %", result.stdout)
    page = files[1].read_text()
    assert DRY_RUN in page
    assert "No plots: a dry run has no times" in page


def test_the_plan_checks_first_and_loses_the_least_when_it_stops() -> None:
    jobs = full_plan()
    assert len(set(jobs)) == len(jobs)
    kinds = [job.kind for job in jobs]
    assert kinds == sorted(kinds, key=["copy", "check", "time"].index)
    timed = [job.case for job in jobs if job.kind == "time"]
    assert list(dict.fromkeys(timed))[: len(HEADLINES)] == list(HEADLINES)
    chains = [case for case in timed if case.operator == "verify_chain"]
    assert {case.vocab for case in chains} == set(VOCABULARIES)
    assert {case.requests for case in chains} == {1, 4, 16, 64, 256}
    assert {case.nodes for case in chains} == {1, 2, 4, 8, 16}
    assert {case.nodes for case in timed if case.operator == "verify_tree"} == {16, 32, 64}
    assert {case.prefix for case in timed if case.operator == "tree_attention"} == {1024, 8192, 32_768}
    # the dry run goes through every operator, kind of job and arm
    assert {(job.kind, job.arm) for job in smoke_plan()} == {(job.kind, job.arm) for job in jobs}


class FakeWorker:
    """Answers by the arm's name: "crash", "poison", "hang" and "stop" (Ctrl-C) as such, anything else with times."""

    asked: list[str]

    def __init__(self, device: str) -> None:
        self.has_ended = False

    def ask(self, job: Job, patience: float) -> dict[str, Any]:
        FakeWorker.asked.append(job.arm)
        if job.arm == "stop":
            raise KeyboardInterrupt
        if job.arm in ("crash", "poison", "hang"):
            self.has_ended = True
            return {"error": job.arm}
        return dict(TIMED)

    def close(self) -> None:
        FakeWorker.asked.append("closed")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeWorker]:
    monkeypatch.setattr(supervisor, "Worker", FakeWorker)
    FakeWorker.asked = []
    return FakeWorker


def jobs_of(*arms: str, seconds: float = 1.0, kind: Any = "check") -> list[Job]:
    return [Job(kind, Case("copy", requests=place), arm, seconds) for place, arm in enumerate(arms)]


def test_a_crash_costs_one_job(fake: type[FakeWorker]) -> None:
    run = supervise(jobs_of("a", "crash", "b", "poison", "c"), "cuda", 1, lambda _: None)
    assert fake.asked == ["a", "crash", "closed", "b", "poison", "closed", "c", "closed"]
    assert (run.starts, run.left_out, len(run.answers)) == (3, [], 5)
    assert [answer.get("error") for answer in run.answers.values()] == [None, "crash", None, "poison", None]


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("sys.exit(7)", "the worker process ended with code 7"),
        ("os.kill(os.getpid(), 11)", "the worker process ended with code -11"),
        ("time.sleep(60)", "no answer in 2 s; the process was ended"),
    ],
)
def test_a_worker_that_dies_or_hangs_is_an_error_of_its_job(program: str, error: str) -> None:
    command = [sys.executable, "-c", f"import os, sys, time; sys.stdin.readline(); {program}"]
    worker = supervisor.Worker("cpu", command)
    try:
        assert worker.ask(jobs_of("a")[0], patience=2.0 if "sleep" in program else 60.0) == {"error": error}
        assert worker.has_ended
        if "sleep" not in program:
            assert "ended with code" in worker.ask(jobs_of("b")[0], patience=60.0)["error"]
    finally:
        worker.close()


def test_a_worker_is_told_of_its_job_and_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    echo = "import json, os, sys; order = json.loads(sys.stdin.readline())"
    echo += "; order['env'] = os.environ.get('TRITON_INTERPRET'); print(json.dumps(order))"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for device, interpreter in (("cpu", "1"), ("cuda", None)):
        worker = supervisor.Worker(device, [sys.executable, "-c", echo])
        answer = worker.ask(Job("time", CHAIN, "torch"), patience=60.0)
        worker.close()
        assert (answer["kind"], answer["arm"], answer["env"]) == ("time", "torch", interpreter)
        assert Case(**answer["case"]) == CHAIN


def test_an_arm_of_another_project_that_ends_a_process_is_given_up(fake: type[FakeWorker]) -> None:
    run = supervise(jobs_of("hang", "triton", "hang", "hang", kind="time"), "cuda", 1, lambda _: None)
    assert fake.asked == ["hang", "closed", "triton", "closed"]
    assert [answer.get("unavailable") for answer in run.answers.values()] == [
        None, None, "hang ended or hung an earlier process", "hang ended or hung an earlier process",
    ]  # fmt: skip


def test_a_device_that_never_comes_back_is_given_up(fake: type[FakeWorker]) -> None:
    run = supervise(jobs_of(*["crash"] * 20), "cuda", 1, lambda _: None)
    assert run.starts == supervisor.MOST_STARTS
    assert run.left_out == list(range(supervisor.MOST_STARTS, 20))


def test_a_job_that_does_not_fit_into_the_time_is_left_out_and_smaller_ones_run(fake: type[FakeWorker]) -> None:
    jobs = [*jobs_of("a", seconds=1), *jobs_of("long", seconds=100), *jobs_of("b", seconds=1)]
    run = supervise(jobs, "cuda", 0.5, lambda _: None)
    assert fake.asked == ["a", "b", "closed"]
    assert run.left_out == [1]


def test_ctrl_c_keeps_what_was_found(fake: type[FakeWorker]) -> None:
    run = supervise(jobs_of("a", "stop", "b"), "cuda", 1, lambda _: None)
    assert (run.interrupted, run.left_out) == (True, [1, 2])
    assert fake.asked == ["a", "stop", "closed"]


def gpu_run() -> Run:
    """Two headline cases, a peer that is missing, one that fails, a check that is wrong."""
    jobs = [
        Job("copy", Case("copy")), Job("check", Case("kv_compact"), "last"), Job("time", CHAIN, "triton"),
        Job("time", CHAIN, "torch"), Job("time", CHAIN, "vllm"), Job("time", CHAIN, "flashinfer"),
        Job("time", replace(CHAIN, requests=64), "triton"), Job("time", replace(CHAIN, vocab=32_000), "triton"),
    ]  # fmt: skip
    timed = {**TIMED, "floor_bytes": 20_000_000, "note": ""}
    check = {"cases": 9, "wrong": 2, "near_ties": 0, "note": "", "passed": False}
    answers = [
        {"bytes_per_s": 4e12}, check, timed, {**timed, "graph_median_us": None, "graph_error": "no"},
        {"unavailable": "vllm is not installed"}, {"error": "ValueError: odd"}, timed, timed,
    ]  # fmt: skip
    return Run(jobs, dict(enumerate(answers)), starts=1, seconds=3.0)


def test_shares_come_from_the_graph_where_there_is_one() -> None:
    found = results(gpu_run(), device="cuda", command="c")
    assert [row["share"] for row in found["times"][:2]] == pytest.approx([0.5, 0.125])
    assert share({"median_us": 10.0, "floor_bytes": None}, 4e12) is None
    assert share({"median_us": 10.0, "floor_bytes": 5}, None) is None


def test_the_summary_says_first_what_is_wrong() -> None:
    found = results(gpu_run(), device="cuda", command="c")
    text = summary(found)
    assert "kv_compact last: 2 wrong and 0 near-ties of 9" in text
    assert "vllm is not installed" in text
    assert "failed: ValueError: odd" in text
    assert not passed(found)
    found["checks"][0]["passed"] = True
    assert passed(found), "a peer that fails is not our failure"
    found["times"][0]["error"] = "broken"
    assert not passed(found)


def test_the_page_has_tables_and_plots_and_can_be_drawn_again(tmp_path: Path) -> None:
    found = results(gpu_run(), device="cuda", command="<c>")
    (tmp_path / "found.json").write_text(json.dumps(found))
    said: list[str] = []
    options = BenchKernelsOptions(redraw=tmp_path / "found.json", html=tmp_path / "page.html")
    assert run_bench_kernels(options, said.append) == 0
    page = (tmp_path / "page.html").read_text()
    assert "&lt;c&gt;" in page
    assert page.count("plotly-graph-div") == 3, "headlines, over requests, over vocab"
    assert "vllm is not installed" in page
    (tmp_path / "found.json").write_text("[]")
    with pytest.raises(ValueError, match=r"cannot draw '.*found.json': TypeError"):
        run_bench_kernels(options, said.append)


def test_without_plotly_there_are_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdec_labs.bench_kernels.page.find_spec", lambda _: None)
    assert write_page(results(gpu_run(), device="cuda", command="c"), tmp_path / "p.html") == [tmp_path / "p.html"]
    page = (tmp_path / "p.html").read_text()
    assert "No plots: plotly is not installed" in page
    assert "9.0 / 10.0" in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "device is 'tpu'; expected cuda"),
        ({"minutes": 0.0}, "minutes is 0; expected more than 0"),
        ({"device": "cpu"}, "add --smoke for a dry run"),
        ({"redraw": Path("x.json")}, "say where to with --html"),
        ({"json": Path("no/such/folder/x.json")}, "its folder does not exist"),
    ],
)
def test_options_that_cannot_be_used_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_bench_kernels(BenchKernelsOptions(**options), print)


def test_the_command_explains_what_it_cannot_use() -> None:
    result = CliRunner().invoke(app, ["bench", "kernels", "--device", "cpu"])
    assert result.exit_code == 2
    assert "add --smoke for a dry run" in result.output
