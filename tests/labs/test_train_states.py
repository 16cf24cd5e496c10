"""States on disk: the same as a pass gives, worked out once, whole after a kill, and of one target only."""

import json
from pathlib import Path

import pytest
import torch

from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.trainable import TrainableLlama
from specdec_labs.data.shards import Record
from specdec_labs.train.eagle import EagleTask
from specdec_labs.train.frozen_target import FrozenTarget
from specdec_labs.train.loop import train
from specdec_labs.train.records import Records, padded
from specdec_labs.train.settings import TrainSettings
from specdec_labs.train.state_cache import StateCache

HASH, OTHER = "a" * 64, "b" * 64
CONFIG = LlamaConfig(vocab_size=24, width=16, ffn_width=24, layers=1, heads=2, kv_heads=1, head_dim=8, max_length=64)
SETTINGS = TrainSettings(steps=4, batch=3, length=20, warmup=1)


def _records(count: int) -> tuple[Record, ...]:
    generator = torch.Generator().manual_seed(4)
    made = []
    for index in range(count):
        rows = int(torch.randint(8, 20, (1,), generator=generator))
        tokens = torch.randint(24, (rows,), generator=generator).tolist()
        made.append(Record(index, "math", 0.0, 4, "length", tuple(tokens)))
    return tuple(made)


def _target() -> FrozenTarget:
    return FrozenTarget(TrainableLlama(CONFIG, seed=3), CutVocabulary(tuple(range(24)), 24))


def _cache(folder: Path, precision: str = "float32") -> StateCache:
    return StateCache(folder, target_sha256=HASH, width=CONFIG.width, precision=precision)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.01)])
def test_states_read_are_the_states_of_a_pass(tmp_path: Path, precision: str, tolerance: float) -> None:
    target, records = _target(), _records(5)
    cache = _cache(tmp_path, precision)
    cache.fill(records[:2], target.states)
    cache.read(records[0])
    cache.fill(records, target.states)
    for record in reversed(records):
        expected = target.states(torch.tensor([record.tokens]))[0]
        assert torch.allclose(cache.read(record), expected, rtol=tolerance, atol=1e-5)


def test_each_record_is_worked_out_once(tmp_path: Path) -> None:
    target, records, passes = _target(), _records(6), []

    def counted(tokens: torch.Tensor) -> torch.Tensor:
        passes.append(tokens.shape[0])
        return target.states(tokens)

    seen = []
    _cache(tmp_path).fill(records[:4], counted)
    _cache(tmp_path).fill(records, counted, lambda done, missing: seen.append((done, missing)))
    assert passes == [4, 2] and seen == [(2, 2)]


@pytest.mark.parametrize("torn", ["states.bin", "states.jsonl"])
def test_what_a_kill_cut_off_is_worked_out_again(tmp_path: Path, torn: str) -> None:
    target, records = _target(), _records(4)
    _cache(tmp_path).fill(records, target.states)
    path = tmp_path / torn
    path.write_bytes(path.read_bytes()[:-5])
    cache = _cache(tmp_path)
    assert len(cache) == 3
    longest = max(reversed(records), key=lambda record: len(record.tokens))
    with pytest.raises(ValueError, match=f"no states of record {longest.index}"):
        cache.read(longest)
    cache.fill(records, target.states)
    for record in records:
        assert torch.allclose(cache.read(record), target.states(torch.tensor([record.tokens]))[0], atol=1e-5)


def test_states_of_another_target_are_refused(tmp_path: Path) -> None:
    _cache(tmp_path)
    with pytest.raises(ValueError, match=f"target_sha256 is '{HASH}' there and '{OTHER}' here"):
        StateCache(tmp_path, target_sha256=OTHER, width=CONFIG.width, precision="float32")
    with pytest.raises(ValueError, match="precision is 'float32' there and 'bfloat16' here"):
        _cache(tmp_path, "bfloat16")
    text = (tmp_path / "manifest.json").read_text(encoding="utf-8")
    assert json.loads(text)["width"] == CONFIG.width


def test_a_record_with_other_tokens_is_another_record(tmp_path: Path) -> None:
    record = _records(1)[0]
    cache = _cache(tmp_path)
    cache.fill([record], _target().states)
    changed = Record(record.index, record.kind, 0.0, 4, "length", (*record.tokens[:-1], 5 + record.tokens[-1] % 7))
    with pytest.raises(ValueError, match="no states of record 0"):
        cache.read(changed)


def test_a_batch_cut_at_its_start_keeps_the_states_of_the_whole(tmp_path: Path) -> None:
    target, records = _target(), _records(3)
    target.cache = _cache(tmp_path)
    target.cache.fill(records, target.states)
    batch = padded(records, 7)
    states = target.batch_states(batch)
    for place, record in enumerate(records):
        whole = target.states(torch.tensor([record.tokens]))[0]
        assert torch.allclose(states[place, :7], whole[-7:], atol=1e-5) and batch.cuts[place] == len(record.tokens) - 7


def test_training_over_the_cache_has_the_curve_of_training_without(tmp_path: Path) -> None:
    records = Records(_records(8), _records(2), HASH, "c" * 64)
    plain = train(EagleTask(24, _target(), records, SETTINGS, steps_ahead=2), SETTINGS, tmp_path / "plain")
    target = _target()
    target.cache = _cache(tmp_path / "states")
    target.cache.fill((*records.train, *records.held_out), target.states)
    cached = train(EagleTask(24, target, records, SETTINGS, steps_ahead=2), SETTINGS, tmp_path / "cached")
    assert cached.curve == pytest.approx(plain.curve, abs=1e-5)
    assert cached.evaluations[-1] == pytest.approx(plain.evaluations[-1], abs=1e-3)
