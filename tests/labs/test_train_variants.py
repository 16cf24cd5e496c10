"""Drafts side by side and the draft of the notebook, on the sample and a micro target."""

from dataclasses import replace
import json
from pathlib import Path
import shutil

import pytest
import torch

from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.llama_folder import load_llama, load_trainable, save_llama, weights_hash
from specdec_core.models.trainable import TrainableLlama
from specdec_core.warp import SamplingParams
from specdec_labs.data.corpus import SAMPLE
from specdec_labs.train import comparisons, in_notebook, shapes
from specdec_labs.train.commands import RunOptions
from specdec_labs.train.draft import DraftTask
from specdec_labs.train.in_notebook import train_tiny_draft
from specdec_labs.train.language_model import LanguageModelTask
from specdec_labs.train.loop import train
from specdec_labs.train.mismatch import measure_mismatch
from specdec_labs.train.settings import TrainSettings
from specdec_labs.train.streams import TOKENIZER, load_streams, make_streams
from specdec_labs.train.variants import Variant, VariantsTask

VOCABULARY = 320
MICRO = LlamaConfig(
    vocab_size=VOCABULARY, width=16, ffn_width=24, layers=1, heads=2, kv_heads=1, head_dim=8, max_length=32
)
SMALL = replace(MICRO, width=8, ffn_width=16, head_dim=4)
SETTINGS = TrainSettings(steps=60, batch=4, length=16, rate=1e-2, warmup=10, evaluate_every=30, save_every=30)


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    make_streams(SAMPLE, folder, vocabulary=VOCABULARY)
    return folder


@pytest.fixture(scope="module")
def target(streams: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a micro target that has learnt a little."""
    folder = tmp_path_factory.mktemp("target")
    task = LanguageModelTask(MICRO, load_streams(streams), SETTINGS)
    train(task, SETTINGS, folder / "run")
    save_llama(task.module, folder / "model")
    shutil.copyfile(streams / TOKENIZER, folder / "model" / TOKENIZER)
    return folder / "model"


def _task(variants: dict[str, Variant], streams: Path, target: Path) -> VariantsTask:
    return VariantsTask(variants, load_trainable(target), weights_hash(target), load_streams(streams), SETTINGS)


def test_a_variant_learns_what_it_would_learn_alone(streams: Path, target: Path, tmp_path: Path) -> None:
    """Together only the clipping is shared: with a bound that is never met, nothing is."""
    settings = replace(SETTINGS, clip=1e9, steps=20)
    together = VariantsTask(
        {"kl": Variant(SMALL), "tv": Variant(SMALL, "tv")},
        load_trainable(target),
        weights_hash(target),
        load_streams(streams),
        settings,
    )
    train(together, settings, tmp_path / "both")
    alone = DraftTask(SMALL, load_trainable(target), weights_hash(target), load_streams(streams), settings, loss="tv")
    train(alone, settings, tmp_path / "one")
    for left, right in zip(together.draft("tv").parameters(), alone.module.parameters()):
        assert torch.allclose(left, right, atol=1e-6)


def test_variants_are_told_apart(streams: Path, target: Path, tmp_path: Path) -> None:
    task = _task({"kl": Variant(SMALL), "tv": Variant(SMALL, "tv")}, streams, target)
    with torch.no_grad():
        before = task.evaluate()
    after = train(task, SETTINGS, tmp_path).evaluations[-1]
    assert before["kl/alpha_prose"] == before["tv/alpha_prose"]
    for name in ("kl", "tv"):
        assert after[f"{name}/alpha_prose"] > before[f"{name}/alpha_prose"] + 0.03
    assert after["kl/alpha_prose"] != after["tv/alpha_prose"]


def test_unfit_variants_are_refused(streams: Path, target: Path) -> None:
    with pytest.raises(ValueError, match="variants is empty"):
        _task({}, streams, target)
    with pytest.raises(ValueError, match="'x' has 64 ids, the target 320"):
        _task({"x": Variant(replace(SMALL, vocab_size=64))}, streams, target)
    with pytest.raises(ValueError, match="expected one of kl, reverse_kl, tv"):
        _task({"x": Variant(SMALL, "ce")}, streams, target)
    with pytest.raises(ValueError, match="expected 'losses' or 'sizes'"):
        comparisons.variants_of("shapes")


def test_the_sweep_goes_from_a_fiftieth_to_a_third() -> None:
    def weights(shape: LlamaConfig) -> int:
        return sum(parameter.numel() for parameter in TrainableLlama(shape).parameters())

    shares = [weights(shape) / weights(shapes.TINY_TARGET) for shape in shapes.TINY_SWEEP.values()]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(1 / 50, rel=0.1) and shares[-1] == pytest.approx(1 / 3, rel=0.1)
    assert {variant.loss for variant in comparisons.variants_of("losses").values()} == {"kl", "reverse_kl", "tv"}


@pytest.mark.parametrize("what", ["losses", "sizes"])
def test_a_comparison_writes_what_it_measured(
    streams: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    wide = replace(MICRO, width=24, head_dim=12)
    monkeypatch.setattr(comparisons, "variants_of", lambda name: {"a": Variant(SMALL), "b": Variant(wide, "tv")})
    options = RunOptions(folder=tmp_path / "run", steps=6, precision="float32")
    monkeypatch.setattr(comparisons, "COMPARISON", SETTINGS)
    table = comparisons.compare(what, options, streams, target, tmp_path / "out.json", lambda at: None)
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert found["steps"] == 6 and [row["name"] for row in found["rows"]] == ["a", "b"]
    assert table.count("\n") == 4
    for row in found["rows"]:
        assert 0 < row["alpha_prose"] < 1 and row["share"] == row["parameters"] / found["target_parameters"]
        if what == "sizes":
            assert row["c"] > 0 and row["predicted"] >= max(1.0, row["predicted_at_4"])
    assert ("c measured" in table) == (what == "sizes")


def test_the_mismatch_file_says_what_made_it(root: Path, streams: Path, tmp_path: Path) -> None:
    """A target that drafts for itself is always accepted (rounding apart), wherever it is asked."""
    target = root / "specdec_core" / "weights" / "tiny-target"  # a micro target's context is shorter than the prompts
    rows = measure_mismatch(target, {"itself": target}, streams, tmp_path / "out.json", prompts=2)
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert found["rows"] == rows and len(rows) == 4
    assert found["command"].startswith("specdec train mismatch") and found["hardware"]["date"]
    heads = {"draft", "domain", "T", "alpha", "low", "high", "tokens_per_round"}
    assert all(set(row) >= heads and 0.95 < row["low"] <= row["alpha"] <= row["high"] <= 1 for row in rows)
    assert all(4 < row["tokens_per_round"] <= 5 for row in rows)


def test_a_target_of_another_tokenizer_is_refused(streams: Path, target: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(target, other)
    text = (other / TOKENIZER).read_text(encoding="utf-8")
    (other / TOKENIZER).write_text(text + "\n", encoding="utf-8")
    options = RunOptions(folder=tmp_path / "run", steps=6)
    with pytest.raises(ValueError, match="the target's tokenizer has sha256 [0-9a-f]{64}, the text's [0-9a-f]{64}"):
        comparisons.compare("losses", options, streams, other, tmp_path / "out.json", lambda at: None)


def test_the_notebook_trains_a_draft_the_engine_takes(target: Path, tmp_path: Path) -> None:
    seen = []
    settings = replace(SETTINGS, steps=60)
    made = train_tiny_draft(
        minutes=None, settings=settings, shape=SMALL, target=target, folder=tmp_path, progress=seen.append
    )
    assert len(seen) == 60 and seen[-1].evaluation is not None
    assert made.after["alpha_prose"] > made.before["alpha_prose"] + 0.03
    full = load_llama(target)
    greedy = SamplingParams(temperature=0)
    drafted = Engine(full, ModelDrafter(made.draft), "chain", 3).generate([0, 70, 80], greedy, 12)
    assert drafted.tokens == Engine(full).generate([0, 70, 80], greedy, 12).tokens


@pytest.mark.slow
def test_the_draft_of_the_notebook_comes_closer_to_the_shipped_target() -> None:
    """A quarter of what the notebook trains is enough to see it."""
    settings = replace(in_notebook.SETTINGS, steps=75, evaluate_every=75)
    made = train_tiny_draft(minutes=None, settings=settings)
    print(f"{made.outcome.seconds:.0f} s, alpha {made.before} -> {made.after}")
    for domain in ("prose", "code"):
        assert made.after[f"alpha_{domain}"] > made.before[f"alpha_{domain}"] + 0.08
