"""Medusa, EAGLE and draft tasks on a micro target's own text: labels, masks, what is learnt, what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.medusa import IGNORED
from specdec_core.models.trainable import TrainableLlama
from specdec_labs.data.manifest import write_manifest
from specdec_labs.data.shards import Record, ShardWriter
from specdec_labs.train.eagle import EagleTask, _chain_length
from specdec_labs.train.frozen_target import FrozenTarget
from specdec_labs.train.loop import train
from specdec_labs.train.medusa import MedusaTask, batch_labels
from specdec_labs.train.record_draft import RecordDraftTask, reduced
from specdec_labs.train.records import Records, load_records, padded, record_batch
from specdec_labs.train.settings import TrainSettings

VOCABULARY, HASH, OTHER = 24, "a" * 64, "b" * 64
CONFIG = LlamaConfig(
    vocab_size=VOCABULARY, width=32, ffn_width=48, layers=2, heads=4, kv_heads=2, head_dim=8, max_length=64
)
SETTINGS = TrainSettings(steps=60, batch=6, length=24, rate=1e-2, warmup=5, evaluate_every=60, save_every=30)


class _Numbers:
    """A tokenizer whose text is never a prompt of an evaluation."""

    vocab_size, eos_ids = VOCABULARY, (0,)

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids) -> str:
        return " ".join(map(str, ids))

    chat = encode

    def token(self, token_id: int) -> str:
        return str(token_id)


def _target() -> TrainableLlama:
    module = TrainableLlama(CONFIG, seed=7)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(8.0 if parameter.ndim > 1 else 1.0)
        # sharp laws: what a head can learn is then far above the entropy that is left
        module.model.norm.weight.mul_(4.0)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Greedy text of the micro target in shards."""
    folder, module = tmp_path_factory.mktemp("records"), _target()
    write_manifest(folder, {"model_sha256": HASH})
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, VOCABULARY, (80, 4), generator=generator)
    with torch.no_grad():
        for _ in range(16):
            tokens = torch.cat((tokens, module.logits(module(tokens))[:, -1:].argmax(dim=-1)), dim=1)
    with ShardWriter(folder) as shards:
        for index, row in enumerate(tokens.tolist()):
            shards.write(Record(index, "math", 0.0, 4, "length", tuple(row)))
        shards.write(Record(80, "invented", 0.0, 4, "no_prompt", tuple(row)))
    return folder


@pytest.fixture
def records(folder: Path) -> Records:
    return load_records(folder, _Numbers(), HASH)


@pytest.fixture
def target() -> FrozenTarget:
    return FrozenTarget(_target(), CutVocabulary(tuple(range(0, VOCABULARY, 2)), VOCABULARY))


@pytest.fixture
def whole() -> FrozenTarget:
    return FrozenTarget(_target(), CutVocabulary(tuple(range(VOCABULARY)), VOCABULARY))


def test_records_are_split_by_request_and_the_first_stay_the_first(folder: Path, records: Records) -> None:
    assert len(records.train) == 76 and {record.index for record in records.held_out} == {0, 20, 40, 60}
    assert records.answer_tokens() == 76 * 16
    first = load_records(folder, _Numbers(), HASH, count=30)
    assert first.train == records.train[: len(first.train)] and first.sha256 != records.sha256


def test_text_of_another_target_and_too_little_text_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=f"model_sha256 is '{HASH}' there and '{OTHER}' here"):
        load_records(folder, _Numbers(), OTHER)
    with pytest.raises(ValueError, match="80 usable records.* expected 500"):
        load_records(folder, _Numbers(), HASH, count=500)


def test_records_that_repeat_an_evaluation_prompt_are_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, records: Records
) -> None:
    wanted = _Numbers().decode(records.train[0].tokens[:4])
    monkeypatch.setattr("specdec_labs.train.records.overlaps", lambda text: text == wanted)
    assert records.train[0] not in load_records(folder, _Numbers(), HASH).train


def test_every_record_comes_once_an_epoch(records: Records) -> None:
    seen = [record_batch(records.train, seed=2, step=step, batch=19, length=24).tokens for step in range(4)]
    assert sorted(torch.cat(seen).tolist()) == sorted(list(record.tokens) for record in records.train)
    again = record_batch(records.train, seed=2, step=3, batch=19, length=24)
    assert torch.equal(again.tokens, seen[3])


def test_padding_and_cutting_keep_the_answer() -> None:
    short, long = Record(0, "x", 0.0, 2, "stop", (1, 2, 3)), Record(1, "x", 0.0, 4, "stop", tuple(range(10, 18)))
    batch = padded([short, long], 6)
    assert batch.tokens.tolist() == [[1, 2, 3, 0, 0, 0], [12, 13, 14, 15, 16, 17]]
    assert batch.answer.tolist() == [[False, False, True, False, False, False], [False, False, True, True, True, True]]


def test_p51_labels_of_a_batch_stop_at_the_padding() -> None:
    batch = padded(
        [Record(0, "x", 0.0, 3, "stop", (10, 11, 12, 13, 14, 15)), Record(1, "x", 0.0, 1, "stop", (1, 2, 3))], 9
    )
    labels = batch_labels(batch, 3)
    pairs = [[(row, int(label)) for row, label in enumerate(head[0]) if label != IGNORED] for head in labels]
    assert pairs == [[(1, 13), (2, 14), (3, 15)], [(0, 13), (1, 14), (2, 15)], [(0, 14), (1, 15)]]
    assert [[int(label) for label in head[1] if label != IGNORED] for head in labels] == [[3], [], []]


def test_laws_of_the_cut_are_exact(target: FrozenTarget) -> None:
    tokens = torch.randint(VOCABULARY, (2, 7), generator=torch.Generator().manual_seed(3))
    states = target.states(tokens)
    law = target.module.logits(states).softmax(dim=-1)
    laws = target.laws(states)
    assert torch.allclose(laws.inside.exp(), law[..., ::2], atol=1e-6)
    assert torch.allclose(laws.renormalised.exp().sum(dim=-1), torch.ones(2, 7))
    best = law.argmax(dim=-1)
    assert torch.equal(laws.argmax, torch.where(best % 2 == 0, best // 2, -1))
    with pytest.raises(ValueError, match="the cut vocabulary is of 9 ids, the target has 24"):
        FrozenTarget(_target(), CutVocabulary((0, 1), 9))


@pytest.mark.parametrize("steps_ahead", [1, 2])
def test_an_eagle_head_learns(whole: FrozenTarget, records: Records, tmp_path: Path, steps_ahead: int) -> None:
    task = EagleTask(48, whole, records, SETTINGS, steps_ahead=steps_ahead)
    with torch.no_grad():
        before = task.evaluate()
    after = train(task, SETTINGS, tmp_path).evaluations[-1]
    # it starts as a copy of the state it is fed, which is right wherever this text repeats a token
    assert after["agree1"] > before["agree1"] + 0.1 and after["alpha1"] > before["alpha1"] + 0.02
    assert after["chain4"] > before["chain4"]
    assert not any(parameter.requires_grad for parameter in whole.module.parameters())


def test_medusa_heads_learn(whole: FrozenTarget, records: Records, tmp_path: Path) -> None:
    outcome = train(MedusaTask(2, whole, records, SETTINGS), SETTINGS, tmp_path)
    assert sum(outcome.curve[-10:]) < 0.9 * sum(outcome.curve[:10])
    after = outcome.evaluations[-1]
    assert 0.3 < after["head1_top1"] <= after["head1_top3"] <= after["head1_top10"]


def test_a_draft_learns_over_the_cut(target: FrozenTarget, records: Records, tmp_path: Path) -> None:
    small = replace(CONFIG, width=16, layers=1, heads=2, kv_heads=2, ffn_width=24)
    task = RecordDraftTask(small, target, records, SETTINGS, loss="tv")
    with torch.no_grad():
        before = task.evaluate()
    assert train(task, SETTINGS, tmp_path).evaluations[-1]["alpha"] > before["alpha"] + 0.03
    with pytest.raises(ValueError, match="the draft has 9 ids, the target 24"):
        RecordDraftTask(replace(small, vocab_size=9), target, records, SETTINGS)


def test_a_reduced_embedding_keeps_the_geometry() -> None:
    generator = torch.Generator().manual_seed(0)
    flat = torch.randn(50, 3, generator=generator) @ torch.randn(3, 12, generator=generator)
    narrow = reduced(flat, 3)
    left, right = flat @ flat.T, narrow @ narrow.T
    assert torch.allclose(left / left.norm(), right / right.norm(), atol=1e-4)


def test_tokens_per_round_of_a_chain_are_counted_along_the_draft() -> None:
    """Depth s of a draft that starts behind row j is judged on row j + s - 1."""
    first, second = torch.tensor([[True, True, False, True]]), torch.tensor([[False, True, True, False]])
    counted = [torch.ones(1, 4, dtype=torch.bool)] * 2
    # starts 0, 1, 2: depth one agrees at 0 and 1; depth two on rows 1, 2, 3: after start 0 and after start 1
    assert _chain_length([first, second], counted, torch.tensor([True])) == pytest.approx(1 + 2 / 3 + 2 / 3)
    assert _chain_length([first, second], counted, torch.tensor([False])) == 1.0


def test_unfit_options_are_refused(target: FrozenTarget, records: Records) -> None:
    with pytest.raises(ValueError, match="steps_ahead is 0"):
        EagleTask(8, target, records, SETTINGS, steps_ahead=0)
    with pytest.raises(ValueError, match="heads is 0"):
        MedusaTask(0, target, records, SETTINGS)


def _cross_entropy(target: FrozenTarget, wanted: torch.Tensor, guessed: torch.Tensor) -> float:
    law = target.cut_logits(wanted).softmax(dim=-1)
    return -float((law * target.cut_logits(guessed).log_softmax(dim=-1)).sum())


def test_p52_the_loss_of_an_eagle_head_row_by_row(target: FrozenTarget, records: Records) -> None:
    """Each answer token i is guessed from pair (state i - 2, token i - 1); the law is that behind state i - 1."""
    task = EagleTask(16, target, records, SETTINGS, regression=0.3)
    batch = record_batch(records.train, seed=SETTINGS.seed, step=2, batch=SETTINGS.batch, length=SETTINGS.length)
    found, rows = 0.0, 0
    with torch.no_grad():
        for record in batch.records:
            tokens = torch.tensor([record.tokens])
            states = target.states(tokens)
            own = task.module(states[:, :-2], target.embeddings(tokens[:, 1:-1]))
            for token in range(record.prompt_length, len(record.tokens)):
                guessed, wanted = own[0, token - 2], states[0, token - 1]
                found += _cross_entropy(target, wanted, guessed)
                found += 0.3 * float(torch.nn.functional.smooth_l1_loss(guessed, wanted))
                rows += 1
        assert float(task.loss(2)) == pytest.approx(found / rows, rel=1e-4)


def test_p51_the_loss_of_medusa_heads_row_by_row(target: FrozenTarget, records: Records) -> None:
    """Head k guesses answer token i from state i - 2 - k; heads count 1, 0.8, ..., each over its own rows."""
    task = MedusaTask(2, target, records, SETTINGS)
    batch = record_batch(records.train, seed=SETTINGS.seed, step=1, batch=SETTINGS.batch, length=SETTINGS.length)
    with torch.no_grad():
        for layer in task.module.layers:
            layer.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
        sums, rows = [0.0, 0.0], [0, 0]
        for record in batch.records:
            states = target.states(torch.tensor([record.tokens]))[0]
            for head, made in enumerate(task.module(states)):
                for token in range(record.prompt_length, len(record.tokens)):
                    if token - 2 - head >= 0:
                        sums[head] += _cross_entropy(target, states[token - 1], made[token - 2 - head])
                        rows[head] += 1
        found = (sums[0] / rows[0] + 0.8 * sums[1] / rows[1]) / 1.8
        assert float(task.loss(1)) == pytest.approx(found, rel=1e-4)
