"""Text of a model, many sequences at a time: each is what it would be alone, and a stopped run goes on."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from specdec_core.models.byte_bpe import load_text_tokenizer, train_byte_bpe
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.trainable import TrainableLlama, reader_of
from specdec_labs.data.batch_decoder import BatchDecoder
from specdec_labs.data.corpus import SAMPLE, documents, source_documents
from specdec_labs.data.generate import GenerateOptions, Generator, generate
from specdec_labs.data.readers import Document
from specdec_labs.data.recipes import Recipes
from specdec_labs.data.shards import Record, ShardWriter, read_records

OPTIONS = GenerateOptions(seed=4, longest_prompt=250, longest_invented=12, longest_answer=8)
VOCABULARY = 300
CODE = '''
def first_word(text, default=None):
    """Return the first word of a text, or the default."""
    words = text.split()
    if not words:
        return default
    return words[0]

def add(x, y):
    return x + y
'''


@pytest.fixture(scope="module")
def model() -> Llama:
    config = LlamaConfig(
        vocab_size=VOCABULARY, width=24, ffn_width=32, layers=2, heads=6, kv_heads=2, head_dim=4, max_length=512
    )
    module = TrainableLlama(config, seed=1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(15.0 if parameter.ndim > 1 else 1.0)
    return llama_from_tensors(config, reader_of(module), tied=True)


class _Chat:
    """The sample's tokenizer with a template: end tokens frame what the user says."""

    def __init__(self, path: Path) -> None:
        self._text = load_text_tokenizer(path)
        self.vocab_size, self.eos_ids = self._text.vocab_size, self._text.eos_ids
        self.encode, self.decode = self._text.encode, self._text.decode

    def chat(self, prompt: str, system: str | None = None) -> list[int]:
        end = self.eos_ids[0]
        return [5, 6, *self.encode(prompt), end, 7, 8]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> _Chat:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    train_byte_bpe((document.text for document in documents(SAMPLE, "train")), VOCABULARY, path)
    return _Chat(path)


@pytest.fixture(scope="module")
def recipes() -> Recipes:
    (nouns,) = source_documents(SAMPLE, "nouns", "train")
    prose = list(source_documents(SAMPLE, "austen", "train"))
    return Recipes(4, nouns.text.splitlines(), prose, [Document("code.py", CODE)], greedy=0.5)


@pytest.fixture
def make(model: Llama, tokenizer: _Chat, recipes: Recipes):
    def generator(slots: int, options: GenerateOptions = OPTIONS) -> Generator:
        decoder = BatchDecoder(model, slots=slots, capacity=options.capacity, dtype=torch.float32)
        return Generator(decoder, tokenizer, recipes, options)  # pyright: ignore[reportArgumentType]

    return generator


def by_index(records: Iterator[Record]) -> dict[int, Record]:
    return {record.index: record for record in records}


def test_slots_of_different_length_get_the_logits_of_the_plain_forward(model: Llama) -> None:
    generator = torch.Generator().manual_seed(0)
    texts = [torch.randint(VOCABULARY, (length,), generator=generator) for length in (3, 17, 9)]
    decoder = BatchDecoder(model, slots=3, capacity=32, dtype=torch.float32)
    for slot, text in enumerate(texts):
        decoder.prefill(slot, text[:-2].tolist())
    decoder.step(torch.stack([text[-2] for text in texts]))
    logits = decoder.step(torch.stack([text[-1] for text in texts]))
    for row, text in zip(logits, texts):
        alone = model.forward(text, cache=model.new_cache(32), last_only=True).logits[0]
        assert torch.allclose(row, alone, atol=2e-4)


def test_a_slot_that_is_full_or_a_text_too_long_is_refused(model: Llama) -> None:
    decoder = BatchDecoder(model, slots=1, capacity=4, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"expected 1\.\.4"):
        decoder.prefill(0, [1] * 5)
    decoder.prefill(0, [1] * 4)
    with pytest.raises(ValueError, match="holds 4 rows already"):
        decoder.step(torch.zeros(1, dtype=torch.long))
    with pytest.raises(ValueError, match="capacity 1000"):
        BatchDecoder(model, slots=1, capacity=1000)


def test_a_request_is_answered_the_same_whatever_runs_beside_it(make) -> None:
    many, alone = by_index(make(6).run(iter(range(14)))), by_index(make(1).run(iter(range(14))))
    assert many == alone and len(many) >= 10


def test_each_request_has_noise_of_its_own(make, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[tuple[int, ...]] = []
    philox = np.random.Philox

    def noted(*, key: list[int]) -> np.random.Philox:
        keys.append(tuple(key))
        return philox(key=key)

    monkeypatch.setattr(np.random, "Philox", noted)
    made = by_index(make(3).run(iter(range(8))))
    assert len(keys) == len(set(keys)) >= len(made) > 4
    assert set(keys) <= {(OPTIONS.seed, index) for index in range(8)}


def test_greedy_answers_are_the_models_own_and_others_vary(make, model: Llama) -> None:
    records = by_index(make(4).run(iter(range(20))))
    greedy = [record for record in records.values() if record.temperature == 0 and record.finish != "no_prompt"]
    assert greedy and any(record.temperature == 0.8 for record in records.values())
    for record in greedy[:3]:
        cache, fed = model.new_cache(len(record.tokens)), torch.tensor(record.tokens)
        logits = model.forward(fed, cache=cache).logits
        answer = record.tokens[record.prompt_length :]
        assert tuple(logits[record.prompt_length - 1 : -1].argmax(dim=-1).tolist()) == answer


def test_an_invented_prompt_stands_inside_the_template(make, tokenizer: _Chat) -> None:
    records = [record for record in make(4).run(iter(range(40))) if record.kind == "invented"]
    assert records and all(record.tokens[:2] == (5, 6) for record in records)
    for record in records:
        if record.finish == "no_prompt":
            assert record.prompt_length == 2
        else:
            assert record.tokens[record.prompt_length - 3 : record.prompt_length] == (tokenizer.eos_ids[0], 7, 8)


def test_a_stopped_run_goes_on_to_the_same_records(make, tmp_path: Path) -> None:
    whole, broken, identity = tmp_path / "whole", tmp_path / "broken", {"model_sha256": "a" * 64}
    generate(whole, make(4), identity, requests=12)
    generate(broken, make(4), identity, requests=12, minutes=0)
    with (broken / "shard-00000.jsonl").open("a") as file:
        file.write('{"index": 99, "ki')
    assert 0 < len(list(read_records(broken))) < 12
    generate(broken, make(3), identity, requests=12)
    assert by_index(read_records(whole)) == by_index(read_records(broken))
    assert generate(broken, make(3), identity, requests=12) == 0


def test_text_of_two_models_is_not_mixed(make, tmp_path: Path) -> None:
    generate(tmp_path, make(4), {"model_sha256": "a" * 64}, requests=1)
    with pytest.raises(ValueError, match=f"model_sha256 is '{'a' * 64}' there and '{'b' * 64}' here"):
        generate(tmp_path, make(4), {"model_sha256": "b" * 64}, requests=2)


def test_a_damaged_line_is_named_and_shards_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdec_labs.data.shards.SHARD_LINES", 2)
    records = [Record(index, "math", 0.0, 1, "stop", (1, 2)) for index in range(5)]
    for part in (records[:3], records[3:]):
        with ShardWriter(tmp_path) as shards:
            for record in part:
                shards.write(record)
    assert list(read_records(tmp_path)) == records
    assert len(list(tmp_path.glob("shard-*.jsonl"))) == 3
    path = tmp_path / "shard-00001.jsonl"
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(ValueError, match=r"shard-00001\.jsonl:1: not a record"):
        list(read_records(tmp_path))


def test_recipes_are_a_function_of_seed_and_index(recipes: Recipes) -> None:
    first, again = [recipes.request(index) for index in range(60)], [recipes.request(index) for index in range(60)]
    assert first == again
    assert len({request.kind for request in first}) >= 8
    assert {request.prompt is None for request in first if request.kind == "invented"} == {True}
    with pytest.raises(ValueError, match="0 nouns"):
        Recipes(0, [], [], [], greedy=0.5)
    with pytest.raises(ValueError, match="greedy is 2"):
        Recipes(0, ["x"], [], [], greedy=2)
