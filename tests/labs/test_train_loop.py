"""Training on the committed sample: one curve, twice, after a stop and after a kill; what does not fit is named."""

from dataclasses import replace
import os
from pathlib import Path
import signal
import subprocess
import sys

import pytest
from safetensors.torch import save_file
import torch

from specdec_core.models.llama import LlamaConfig
from specdec_core.models.trainable import TrainableLlama
from specdec_labs.data.corpus import SAMPLE
from specdec_labs.train.checkpoint import CHECKPOINT, load_checkpoint
from specdec_labs.train.commands import RunOptions
from specdec_labs.train.distillation import acceptance_figures, forward_kl, loss_named, reverse_kl, total_variation
from specdec_labs.train.draft import DraftTask
from specdec_labs.train.language_model import LanguageModelTask
from specdec_labs.train.loop import Outcome, train
from specdec_labs.train.pace import with_steps
from specdec_labs.train.report import smoothed, write_report
from specdec_labs.train.settings import TrainSettings
from specdec_labs.train.streams import Streams, load_streams, make_streams, windows

VOCABULARY = 320
MICRO = LlamaConfig(
    vocab_size=VOCABULARY, width=16, ffn_width=24, layers=1, heads=2, kv_heads=1, head_dim=8, max_length=32
)
SETTINGS = TrainSettings(
    steps=200, batch=4, length=16, rate=1e-2, warmup=10, evaluate_every=50, save_every=20, precision="float32"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    make_streams(SAMPLE, folder, vocabulary=VOCABULARY)
    return folder


@pytest.fixture(scope="module")
def streams(folder: Path) -> Streams:
    return load_streams(folder)


@pytest.fixture(scope="module")
def unbroken(streams: Streams, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    run = tmp_path_factory.mktemp("unbroken")
    return run, train(LanguageModelTask(MICRO, streams, SETTINGS), SETTINGS, run)


def test_two_runs_have_one_curve_and_it_falls(unbroken: tuple[Path, Outcome], streams: Streams, tmp_path: Path) -> None:
    again = train(LanguageModelTask(MICRO, streams, SETTINGS), SETTINGS, tmp_path)
    assert again.curve == pytest.approx(unbroken[1].curve, abs=1e-6)
    assert len(again.curve) == 200 and again.curve[-1] < again.curve[0] - 0.5
    assert [entry["step"] for entry in again.evaluations] == [50, 100, 150, 200]
    assert again.evaluations[-1]["loss_prose"] < again.evaluations[0]["loss_prose"]


def test_another_seed_has_another_curve(unbroken: tuple[Path, Outcome], streams: Streams, tmp_path: Path) -> None:
    other = replace(SETTINGS, seed=1)
    outcome = train(LanguageModelTask(MICRO, streams, other), other, tmp_path, stop_after=3)
    assert outcome.curve != pytest.approx(unbroken[1].curve[:3], abs=1e-6)


def test_an_interrupted_run_goes_on_to_the_same_curve(
    unbroken: tuple[Path, Outcome], streams: Streams, tmp_path: Path
) -> None:
    def interrupt(at: object) -> None:
        if getattr(at, "step") == 33:  # noqa: B009
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(LanguageModelTask(MICRO, streams, SETTINGS), SETTINGS, tmp_path, progress=interrupt)
    found = load_checkpoint(tmp_path)
    assert found is not None and found.step == 33
    train(LanguageModelTask(MICRO, streams, SETTINGS), SETTINGS, tmp_path, stop_after=40)
    outcome = train(LanguageModelTask(MICRO, streams, SETTINGS), SETTINGS, tmp_path)
    assert outcome.curve == pytest.approx(unbroken[1].curve, abs=1e-6)
    assert outcome.evaluations == unbroken[1].evaluations


def test_a_run_begins_with_the_weights_of_another(
    unbroken: tuple[Path, Outcome], streams: Streams, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, steps=6, seed=9, evaluate_every=2)
    begun = train(LanguageModelTask(MICRO, streams, settings), settings, tmp_path / "a", begin_with=unbroken[0])
    fresh = train(LanguageModelTask(MICRO, streams, settings), settings, tmp_path / "b")
    assert begun.curve[0] < fresh.curve[0] - 0.5
    half = tmp_path / "c"
    train(LanguageModelTask(MICRO, streams, settings), settings, half, begin_with=unbroken[0], stop_after=3)
    again = train(LanguageModelTask(MICRO, streams, settings), settings, half, begin_with=unbroken[0])
    assert again.curve == pytest.approx(begun.curve, abs=1e-6)
    with pytest.raises(ValueError, match="began_with is '[0-9a-f]{64}' there and None here"):
        train(LanguageModelTask(MICRO, streams, settings), settings, half)
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors: no such file; name the folder of a run"):
        train(LanguageModelTask(MICRO, streams, settings), settings, tmp_path / "d", begin_with=tmp_path)
    wider = replace(MICRO, ffn_width=32)
    with pytest.raises(ValueError, match=r"is \(24, 16\) in the checkpoint and \(32, 16\) here"):
        train(LanguageModelTask(wider, streams, settings), settings, tmp_path / "e", begin_with=unbroken[0])


_KILLED = """
import sys, time, torch
from pathlib import Path
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from test_train_loop import MICRO, SETTINGS
from specdec_labs.train.language_model import LanguageModelTask
from specdec_labs.train.loop import train
from specdec_labs.train.streams import load_streams
task = LanguageModelTask(MICRO, load_streams(Path(sys.argv[2])), SETTINGS)
train(task, SETTINGS, Path(sys.argv[3]), progress=lambda at: (print(at.step, flush=True), time.sleep(0.02)))
"""


def test_a_killed_run_goes_on_to_the_same_curve(
    unbroken: tuple[Path, Outcome], streams: Streams, folder: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _KILLED, str(Path(__file__).parent), str(folder), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 50:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    found = load_checkpoint(tmp_path)
    assert found is not None and found.step in range(40, 200, 20)
    outcome = train(LanguageModelTask(MICRO, streams, SETTINGS), SETTINGS, tmp_path)
    assert outcome.curve == pytest.approx(unbroken[1].curve, abs=1e-6)


def test_a_run_of_other_settings_is_refused_and_both_are_named(
    unbroken: tuple[Path, Outcome], streams: Streams
) -> None:
    other = replace(SETTINGS, rate=0.5)
    with pytest.raises(ValueError, match=r"rate is 0\.01 there and 0\.5 here"):
        train(LanguageModelTask(MICRO, streams, other), other, unbroken[0])
    wider = replace(MICRO, ffn_width=32)
    with pytest.raises(ValueError, match="ffn_width is 24 there and 32 here"):
        train(LanguageModelTask(wider, streams, SETTINGS), SETTINGS, unbroken[0])


def test_a_cut_off_checkpoint_is_named(unbroken: tuple[Path, Outcome], streams: Streams, tmp_path: Path) -> None:
    data = (unbroken[0] / CHECKPOINT).read_bytes()
    (tmp_path / CHECKPOINT).write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="cut off or damaged"):
        train(LanguageModelTask(MICRO, streams, SETTINGS), SETTINGS, tmp_path)


def test_a_changed_stream_and_another_tokenizer_are_named(streams: Streams, tmp_path: Path) -> None:
    make_streams(SAMPLE, tmp_path, vocabulary=VOCABULARY)
    path = tmp_path / "train-code.u16"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(ValueError, match=r"train-code\.u16: sha256 is [0-9a-f]{64}, the manifest says [0-9a-f]{64}"):
        load_streams(tmp_path)
    with pytest.raises(ValueError, match="tokenizer has 320 ids, the model 64"):
        LanguageModelTask(replace(MICRO, vocab_size=64), streams, SETTINGS)
    with pytest.raises(ValueError, match="length is 64, the model reads at most 32"):
        LanguageModelTask(MICRO, streams, replace(SETTINGS, length=64))


def test_windows_are_a_function_of_seed_and_step(streams: Streams) -> None:
    both = [streams.ids["train", domain] for domain in ("prose", "code")]
    first = windows(both, seed=1, step=7, batch=5, length=9)
    assert torch.equal(first, windows(both, seed=1, step=7, batch=5, length=9))
    assert not torch.equal(first, windows(both, seed=1, step=8, batch=5, length=9))
    with pytest.raises(ValueError, match="the shortest stream has"):
        windows(both, seed=1, step=0, batch=1, length=10**6)


@pytest.mark.parametrize("loss", ["kl", "reverse_kl", "tv"])
def test_a_draft_comes_closer_to_its_target(
    unbroken: tuple[Path, Outcome], streams: Streams, tmp_path: Path, loss: str
) -> None:
    found = load_checkpoint(unbroken[0])
    assert found is not None
    target = TrainableLlama(MICRO)
    target.load_state_dict({name.removeprefix("weight/"): t for name, t in found.tensors.items() if "weight/" in name})
    small = replace(MICRO, width=8, ffn_width=16, head_dim=4)
    settings = replace(SETTINGS, steps=60, evaluate_every=20)
    task = DraftTask(small, target, "a" * 64, streams, settings, loss=loss)
    with torch.no_grad():
        before = task.evaluate()
    after = train(task, settings, tmp_path).evaluations[-1]
    assert after["alpha_prose"] > before["alpha_prose"] + 0.03
    with pytest.raises(ValueError, match="the draft has 64 ids, the target 320"):
        DraftTask(replace(small, vocab_size=64), target, "a" * 64, streams, settings)


def test_losses_are_what_they_are_called() -> None:
    target, draft = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.5, 0.25])
    p, q = target.log(), draft.log()
    assert float(total_variation(p, q)) == pytest.approx(0.25)
    assert float(forward_kl(p, q)) == pytest.approx(0.5 * 0.6931472)
    assert float(reverse_kl(q, p.clamp(min=-30))) == pytest.approx(float(forward_kl(p, q)), abs=1e-5)
    figures = acceptance_figures(p[None], q[None])
    assert figures["alpha"] == pytest.approx(0.75) and figures["greedy_alpha"] == 0.0
    with pytest.raises(ValueError, match="expected one of kl, reverse_kl, tv"):
        loss_named("ce")


def test_minutes_choose_steps_once(streams: Streams, tmp_path: Path) -> None:
    def make(settings: TrainSettings) -> LanguageModelTask:
        return LanguageModelTask(MICRO, streams, settings)

    chosen = with_steps(SETTINGS, tmp_path, make, minutes=0.01)
    assert chosen.steps >= 1 and chosen != SETTINGS
    train(make(chosen), chosen, tmp_path, stop_after=1)
    assert with_steps(SETTINGS, tmp_path, make, minutes=5.0) == chosen
    for minutes in (0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"minutes is {minutes}"):
            with_steps(SETTINGS, tmp_path, make, minutes=minutes)


def test_settings_that_are_none_are_refused(tmp_path: Path) -> None:
    for change, message in (
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**70}, "seed is 1180591620717411303424"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"clip": float("inf")}, "clip inf"),
        ({"steps": 0}, "steps is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(SETTINGS, **change)
    # zero is not the default
    for options, message in (
        (RunOptions(folder=tmp_path, rate=0.0), "rate is 0.0"),
        (RunOptions(folder=tmp_path, steps=0), "steps is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            options.settings(SETTINGS)


def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / CHECKPOINT)
    with pytest.raises(ValueError, match="no run in it; expected what `specdec train` wrote"):
        load_checkpoint(tmp_path)


def test_the_rate_warms_up_and_falls() -> None:
    rates = [SETTINGS.rate_at(step) for step in range(200)]
    assert rates[0] == pytest.approx(1e-3) and max(rates) == pytest.approx(1e-2)
    assert rates[-1] == pytest.approx(1e-3, rel=0.01) and rates[50:] == sorted(rates[50:], reverse=True)


def test_the_report_holds_the_curve(unbroken: tuple[Path, Outcome], tmp_path: Path) -> None:
    page = write_report(tmp_path, "micro", {"kind": "test"}, unbroken[1])
    assert "loss, smoothed" in page.read_text(encoding="utf-8")
    assert smoothed([2.0, 2.0]) == pytest.approx([2.0, 2.0])


def test_bfloat16_products_train_too(streams: Streams, tmp_path: Path) -> None:
    settings = replace(SETTINGS, precision="bfloat16", steps=5)
    outcome = train(LanguageModelTask(MICRO, streams, settings), settings, tmp_path)
    exact = replace(settings, precision="float32")
    plain = train(LanguageModelTask(MICRO, streams, exact), exact, tmp_path / "float32")
    assert outcome.curve == pytest.approx(plain.curve, rel=0.02) and outcome.curve != plain.curve


def test_a_failed_evaluation_leaves_the_model_in_training_mode(tmp_path: Path) -> None:
    class Broken:
        module = torch.nn.Linear(2, 1).eval()

        def loss(self, step: int) -> torch.Tensor:
            assert self.module.training
            return self.module(torch.ones(1, 2)).sum()

        def evaluate(self) -> dict[str, float]:
            assert not self.module.training
            raise KeyboardInterrupt

        def identity(self) -> dict[str, str]:
            return {"kind": "broken"}

    task = Broken()
    with pytest.raises(KeyboardInterrupt):
        train(task, TrainSettings(steps=1, evaluate_every=1), tmp_path)
    assert task.module.training
