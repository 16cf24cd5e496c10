"""From a finished run to weights of the package: what is copied, what the card says, what is refused."""

from dataclasses import replace
import json
from pathlib import Path

import pytest

from specdec_core.models.llama import LlamaConfig
from specdec_core.models.llama_folder import load_llama
from specdec_core.models.shipped import CARD, TINY_DRAFT, TINY_TARGET, TOKENIZER
from specdec_labs.data.corpus import SAMPLE
from specdec_labs.train.export import export_llama
from specdec_labs.train.language_model import LanguageModelTask
from specdec_labs.train.loop import train
from specdec_labs.train.settings import TrainSettings
from specdec_labs.train.ship import ship
from specdec_labs.train.streams import load_streams, make_streams

MICRO = LlamaConfig(vocab_size=300, width=16, ffn_width=24, layers=1, heads=2, kv_heads=1, head_dim=8, max_length=32)
SETTINGS = TrainSettings(steps=4, batch=2, length=16, warmup=1, seed=3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    streams = make_streams(SAMPLE, folder / "streams", vocabulary=300)
    task = LanguageModelTask(MICRO, streams, SETTINGS)
    outcome = train(task, SETTINGS, folder)
    line = export_llama(folder, task, outcome, SETTINGS, tokenizer=folder / "streams" / TOKENIZER)
    assert "loss_prose" in line
    return folder


def test_shipped_weights_load_and_their_card_tells_where_they_are_from(run: Path, tmp_path: Path) -> None:
    line = ship(run, TINY_TARGET, "specdec train tiny --steps 4", to=tmp_path)
    assert line.endswith(" MB")
    card = json.loads((tmp_path / TINY_TARGET / CARD).read_text(encoding="utf-8"))
    assert load_llama(tmp_path / TINY_TARGET, sha256=card["sha256"]).config == MICRO
    assert card["command"] == "specdec train tiny --steps 4" and card["seed"] == 3 and card["steps"] == 4
    assert "public domain" in card["data"] and card["licence"] == "Apache-2.0"
    assert card["learning_curve"][-1]["step"] == 4
    assert card["held_out"] == pytest.approx(card["before_rounding"], abs=0.01)
    assert card["held_out"] != card["before_rounding"]


def test_a_run_that_began_with_another_tells_of_both(run: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, seed=5)
    task = LanguageModelTask(MICRO, load_streams(run / "streams"), settings)
    second = tmp_path / "second"
    outcome = train(task, settings, second, begin_with=run)
    export_llama(second, task, outcome, settings, tokenizer=run / "streams" / TOKENIZER)
    ship(second, TINY_TARGET, "specdec train tiny", earlier=run, to=tmp_path)
    card = json.loads((tmp_path / TINY_TARGET / CARD).read_text(encoding="utf-8"))
    assert card["seed"] == 5 and card["earlier"]["settings"]["seed"] == 3 and card["earlier"]["steps"] == 4
    with pytest.raises(ValueError, match="began with [0-9a-f]{64}, .*second holds [0-9a-f]{64}"):
        ship(second, TINY_TARGET, "specdec train tiny", earlier=second, to=tmp_path)


def test_an_unfinished_run_and_an_unknown_name_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"model\.safetensors: no such file; let the run come to its end first"):
        ship(tmp_path, TINY_DRAFT, "specdec train draft", to=tmp_path)
    with pytest.raises(ValueError, match="name is 'mine'; expected one of tiny-target"):
        ship(run, "mine", "specdec train tiny", to=tmp_path)
    assert not list(tmp_path.iterdir())
