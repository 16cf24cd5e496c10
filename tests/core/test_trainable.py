"""The batched Llama that is trained equals the one that decodes; folders and head files keep what they were given."""

import json
from pathlib import Path

import pytest
from safetensors.torch import save_file
import torch

from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead, shifted
from specdec_core.models.head_file import HeadFile, load_eagle, load_medusa, read_head, read_safetensors, write_head
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.llama_folder import load_llama, load_trainable, save_llama
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.trainable import (
    Block,
    TrainableLlama,
    attend,
    initialise,
    pass_mask,
    reader_of,
    rotation_table,
    trainable_from,
)

CONFIG = LlamaConfig(
    vocab_size=31, width=24, ffn_width=40, layers=2, heads=6, kv_heads=2, head_dim=4, max_length=64, rope_theta=500.0
)
HASH, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def module() -> TrainableLlama:
    return _lively(TrainableLlama(CONFIG, seed=3))


def _lively(module: torch.nn.Module) -> torch.nn.Module:
    """Weights so large that attention is far from uniform."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(15.0 if parameter.ndim > 1 else 1.0)
    return module


def test_the_trained_forward_is_the_decoding_forward(module: TrainableLlama) -> None:
    tokens = torch.randint(31, (3, 17), generator=torch.Generator().manual_seed(0))
    model = llama_from_tensors(CONFIG, reader_of(module), tied=True)
    with torch.no_grad():
        batched = module.logits(module(tokens))
    for row, sequence in enumerate(tokens):
        alone = model.forward(sequence, cache=model.new_cache(20)).logits
        assert torch.allclose(batched[row], alone, atol=2e-4)


def test_a_loaded_model_becomes_trainable_and_back(module: TrainableLlama) -> None:
    again = trainable_from(llama_from_tensors(CONFIG, reader_of(module), tied=True))
    assert all(torch.equal(left, right) for left, right in zip(module.parameters(), again.parameters()))


def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, second, other = (TrainableLlama(CONFIG, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(left, right) for left, right in zip(first.parameters(), second.parameters()))
    assert not torch.equal(first.model.embed_tokens.weight, other.model.embed_tokens.weight)


@pytest.mark.parametrize("steps", [2, 3, 4])
def test_a_later_pass_is_what_the_head_computes_when_it_really_drafts(steps: int) -> None:
    """Row j of pass s equals the last row of: the target's states up to row j - s + 1, then s - 1 own states."""
    generator = torch.Generator().manual_seed(1)
    head = _lively(EagleHead(CONFIG, ffn_width=16, seed=2))
    states, embeddings = (torch.randn(1, 9, 24, generator=generator) for _ in range(2))
    with torch.no_grad():
        passes, fed = [], states
        for _ in range(steps):
            own = head(fed, embeddings, passes)
            fed = shifted(own)
        for row in range(steps - 1, 9):
            drafted = states[:, : row - steps + 2]
            for _ in range(steps - 1):
                drafted = torch.cat((drafted, head(drafted, embeddings[:, : drafted.shape[1]])[:, -1:]), dim=1)
            alone = head(drafted, embeddings[:, : row + 1])
            assert torch.allclose(own[:, row], alone[:, -1], atol=1e-4), row


def test_passes_change_nothing_for_the_first(module: TrainableLlama) -> None:
    block = Block(CONFIG)
    initialise(block, 0, layers=1)
    state, rotation = torch.randn(2, 5, 24), rotation_table(CONFIG, 5, torch.device("cpu"))
    with torch.no_grad():
        assert torch.equal(block(state, rotation), block(state, rotation, []))


def test_a_folder_opens_with_both_readers(module: TrainableLlama, tmp_path: Path) -> None:
    digest = save_llama(module, tmp_path, dtype=torch.float32)
    tokens = torch.arange(8)
    model = load_llama(tmp_path, sha256=digest)
    logits = model.forward(tokens, cache=model.new_cache(8)).logits
    with torch.no_grad():
        again = load_trainable(tmp_path)
        assert torch.allclose(again.logits(again(tokens[None]))[0], logits, atol=2e-4)


def test_a_folder_opens_with_transformers(module: TrainableLlama, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    save_llama(module, tmp_path, dtype=torch.float32)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokens = torch.arange(8)[None]
    with torch.no_grad():
        assert torch.allclose(theirs(tokens).logits, module.logits(module(tokens)), atol=2e-4)


def test_weights_of_another_hash_and_a_cut_off_file_are_refused(module: TrainableLlama, tmp_path: Path) -> None:
    digest = save_llama(module, tmp_path)
    with pytest.raises(ValueError, match=f"sha256 is {digest}, expected {HASH}"):
        load_llama(tmp_path, sha256=HASH)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cut off or damaged"):
        load_trainable(tmp_path)
    weights.unlink()
    with pytest.raises(ValueError, match="no such file"):
        load_llama(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 1}, r"layers\.1\..* is .* there and unknown for the config"),
        ({"num_hidden_layers": 3}, r"layers\.2\..* is missing there"),
        ({"hidden_size": 16}, r"is \(.*\) there and \(.*\) for the config\.json beside it"),
        ({"head_dim": 8}, "q_proj|k_proj"),
        ({"num_key_value_heads": 0}, "kv_heads is 0; expected a whole number"),
        ({"max_position_embeddings": 0}, "max_length is 0"),
        ({"rope_theta": "x"}, "rope_theta is 'x'; expected a finite number"),
        ({"hidden_size": None}, "width is None"),
    ],
)
def test_a_config_that_is_not_of_the_weights_is_refused(
    module: TrainableLlama, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    """With fewer layers the file would load as another model, under the hash of the whole one."""
    save_llama(module, tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}), encoding="utf-8")
    for load in (load_llama, load_trainable):
        with pytest.raises(ValueError, match=message):
            load(tmp_path)


def test_a_config_with_gaps_is_refused(module: TrainableLlama, tmp_path: Path) -> None:
    save_llama(module, tmp_path)
    path = tmp_path / "config.json"
    entries = json.loads(path.read_text(encoding="utf-8"))
    del entries["hidden_size"]
    path.write_text(json.dumps(entries), encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json: has no hidden_size"):
        load_llama(tmp_path)
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json: holds a list"):
        load_llama(tmp_path)


@pytest.fixture
def head_files(tmp_path: Path) -> dict[str, Path]:
    vocabulary, files = CutVocabulary((0, 3, 7), 31), {}
    modules = {
        "medusa": (MedusaHeads(2, 24), {"heads": 2}),
        "eagle": (EagleHead(CONFIG, ffn_width=16), {"ffn_width": 16}),
    }
    for kind, (head, shape) in modules.items():
        files[kind] = tmp_path / f"{kind}.safetensors"
        card = {"steps": 1}
        write_head(files[kind], HeadFile(kind, shape, HASH, vocabulary, card, dict(head.state_dict())))
    return files


def test_heads_come_back_with_their_vocabulary(head_files: dict[str, Path]) -> None:
    medusa, vocabulary = load_medusa(head_files["medusa"], CONFIG, HASH)
    assert vocabulary.ids == (0, 3, 7) and len(medusa.layers) == 2
    eagle, _ = load_eagle(head_files["eagle"], CONFIG, HASH)
    fresh = EagleHead(CONFIG, ffn_width=16)
    assert torch.allclose(eagle.join.weight, fresh.join.weight, atol=1e-4)


def test_a_head_of_another_target_another_kind_and_a_damaged_one_are_refused(head_files: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match=f"sha256 {HASH}, this one has {OTHER}"):
        load_eagle(head_files["eagle"], CONFIG, OTHER)
    with pytest.raises(ValueError, match="holds medusa, expected eagle"):
        load_eagle(head_files["medusa"], CONFIG, HASH)
    with pytest.raises(ValueError, match=f"expected {OTHER}"):
        read_head(head_files["eagle"], kind="eagle", target_sha256=HASH, sha256=OTHER)
    head_files["eagle"].write_bytes(head_files["eagle"].read_bytes()[:200])
    with pytest.raises(ValueError, match="cut off or damaged"):
        load_eagle(head_files["eagle"], CONFIG, HASH)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ("{", "its description is damaged"),
        ("[]", "its description has no kind"),
        ({"target_sha256": None}, "has no target_sha256"),
        ({"target_vocabulary": "31"}, "has no target_vocabulary, or one of another type"),
        ({"shape": {}}, "its shape has no ffn_width"),
        ({"card": 3}, "has no card"),
    ],
)
def test_a_head_whose_description_has_gaps_is_refused(
    head_files: dict[str, Path], about: str | dict[str, object], message: str
) -> None:
    tensors, metadata = read_safetensors(head_files["eagle"])
    text = about if isinstance(about, str) else json.dumps({**json.loads(metadata["head"]), **about})
    save_file(tensors, head_files["eagle"], metadata={"head": text})
    with pytest.raises(ValueError, match=rf"eagle\.safetensors: .*{message}|eagle\.safetensors: {message}"):
        load_eagle(head_files["eagle"], CONFIG, HASH)
    del tensors["cut_ids"]
    save_file(tensors, head_files["eagle"], metadata=dict(metadata))
    with pytest.raises(ValueError, match="it has no cut_ids"):
        load_eagle(head_files["eagle"], CONFIG, HASH)


def test_a_cut_vocabulary_keeps_the_most_frequent_ids_and_is_exact() -> None:
    cut = CutVocabulary.most_frequent([5, 5, 2, 9, 9, 9, 1], 3, 12, always=[11])
    assert cut.ids == (5, 9, 11)
    law = cut.spread(torch.tensor([0.25, 0.5, 0.25]))
    assert law.tolist() == [0, 0, 0, 0, 0, 0.25, 0, 0, 0, 0.5, 0, 0.25]
    assert cut.inverse[[5, 9, 11, 0]].tolist() == [0, 1, 2, -1]
    for ids, size in (((3, 1), 12), ((), 12), ((1, 12), 12)):
        with pytest.raises(ValueError, match="ids"):
            CutVocabulary(ids, size)
    with pytest.raises(ValueError, match="the cut vocabulary 3"):
        cut.spread(torch.ones(4))


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_attention_by_products_is_attention(passes: int) -> None:
    """bfloat16 with gradients goes another way than float32; the two agree as far as bfloat16 carries."""
    generator = torch.Generator().manual_seed(passes)
    queries = torch.randn(2, 6, 9, 16, generator=generator)
    keys, values = (torch.randn(2, 2, 9 * passes, 16, generator=generator) for _ in range(2))
    mask = None if passes == 1 else pass_mask(9, passes, torch.device("cpu"))
    exact = [part.clone().requires_grad_() for part in (queries, keys, values)]
    rounded = [part.to(torch.bfloat16).requires_grad_() for part in (queries, keys, values)]
    left, right = attend(*exact, mask), attend(*rounded, mask)
    assert right.dtype == torch.bfloat16 and torch.allclose(left, right.float(), atol=0.05)
    wanted = torch.randn(left.shape, generator=generator)
    (left * wanted).sum().backward()
    (right.float() * wanted).sum().backward()
    for one, other in zip(exact, rounded):
        assert one.grad is not None and other.grad is not None
        assert torch.allclose(one.grad, other.grad.float(), atol=0.1)
