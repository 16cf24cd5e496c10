"""The contract of `LanguageModel` and `KVCache`, held by our Llama and by the transformers adapter alike."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from specdec_core.draft import DraftTree
from specdec_core.models.hf import HFModel
from specdec_core.models.llama import Llama
from specdec_core.models.llama_load import llama_from_hf
from specdec_core.models.protocol import KVCache, LanguageModel

VOCAB = 97
PROMPT = torch.tensor([5, 17, 3, 60, 2, 9, 41])
# 0 and 1 follow the pending token, 2 and 3 follow 0, 4 follows 2
TREE = DraftTree((11, 12, 13, 14, 15), (-1, -1, 0, 0, 2))
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def hf_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=56,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config)


@pytest.fixture(scope="module")
def llama(hf_llama: Any) -> Llama:
    return llama_from_hf(hf_llama)


@pytest.fixture(scope="module", params=["own", "transformers"])
def model(request: pytest.FixtureRequest, llama: Llama, hf_llama: Any) -> LanguageModel:
    return llama if request.param == "own" else HFModel(hf_llama)


def filled(model: LanguageModel, rows: int = len(PROMPT)) -> KVCache:
    cache = model.new_cache(32)
    model.forward(PROMPT[:rows], cache=cache)
    return cache


def rows_of(cache: Any) -> list[Tensor]:
    """Copies of every key and value row, layer by layer."""
    if hasattr(cache, "rows") and callable(cache.rows):
        blocks = [block for layer in range(3) for block in cache.rows(layer)]
    else:
        blocks = [block[0] for layer in cache.rows.layers for block in (layer.keys, layer.values)]
    return [block.clone() for block in blocks]


def distance(left: Tensor, right: Tensor) -> float:
    return float((left - right).detach().abs().max())


def test_both_are_language_models(model: LanguageModel) -> None:
    assert isinstance(model, LanguageModel)
    assert isinstance(model.new_cache(1), KVCache)
    assert (model.vocab_size, model.max_length, model.dtype) == (VOCAB, 64, torch.float32)


def test_own_forward_equals_transformers(llama: Llama, hf_llama: Any) -> None:
    for length in (1, 2, 5, 30, 64):
        tokens = torch.arange(length) * 7 % VOCAB
        output = llama.forward(tokens, cache=llama.new_cache(64))
        expected = hf_llama(tokens[None], output_hidden_states=True)
        assert distance(output.logits, expected.logits[0]) < TOLERANCE
        assert distance(output.hidden, expected.hidden_states[-1][0]) < TOLERANCE


def test_hidden_is_what_the_head_reads(model: LanguageModel, hf_llama: Any) -> None:
    output = model.forward(PROMPT, cache=model.new_cache(8))
    assert output.hidden is not None
    assert distance(hf_llama.lm_head(output.hidden), output.logits) < TOLERANCE


def test_pieces_equal_one_pass(model: LanguageModel) -> None:
    whole = model.forward(PROMPT, cache=model.new_cache(8))
    cache = model.new_cache(8)
    parts = [model.forward(PROMPT[start:stop], cache=cache) for start, stop in ((0, 3), (3, 4), (4, 7))]
    assert len(cache) == 7
    assert distance(torch.cat([part.logits for part in parts]), whole.logits) < TOLERANCE
    assert whole.logits.dtype == torch.float32


def test_last_only_gives_one_row_and_every_hidden_state(model: LanguageModel) -> None:
    whole = model.forward(PROMPT, cache=model.new_cache(8))
    last = model.forward(PROMPT, cache=model.new_cache(8), last_only=True)
    assert last.logits.shape == (1, VOCAB)
    assert distance(last.logits[0], whole.logits[-1]) < TOLERANCE
    assert last.hidden is not None and last.hidden.shape == (7, 32)


def test_outputs_may_be_changed_and_trained_on(model: LanguageModel) -> None:
    output = model.forward(PROMPT, cache=model.new_cache(8))
    output.logits[:, 0] = -torch.inf
    weight = torch.ones(32, requires_grad=True)
    assert output.hidden is not None
    (output.hidden @ weight).sum().backward()
    assert weight.grad is not None and weight.grad.abs().sum() > 0


@pytest.mark.parametrize("prefix", [0, 1, 7])
def test_a_tree_equals_its_paths(model: LanguageModel, prefix: int) -> None:
    pending = 33
    cache = filled(model, prefix) if prefix else model.new_cache(32)
    tokens = torch.tensor([pending, *TREE.tokens])
    tree = model.forward(tokens, TREE.position_ids(prefix), TREE.attention_mask(prefix), cache=cache)
    for node, path in enumerate(TREE.paths()):
        line = torch.tensor([*PROMPT[:prefix].tolist(), pending, *(TREE.tokens[step] for step in path)])
        alone = model.forward(line, cache=model.new_cache(32))
        assert distance(tree.logits[node + 1], alone.logits[-1]) < TOLERANCE
    assert distance(tree.logits[3], tree.logits[4]) > 1e-3  # siblings do not share a state


def test_positions_alone_matter(model: LanguageModel) -> None:
    plain = model.forward(PROMPT, cache=model.new_cache(8)).logits
    spelled = model.forward(PROMPT, torch.arange(7), cache=model.new_cache(8)).logits
    shifted = model.forward(PROMPT, torch.arange(7) * 2, cache=model.new_cache(8)).logits
    assert distance(plain, spelled) < TOLERANCE
    assert distance(plain, shifted) > 1e-3


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_any_whole_numbers_will_do(model: LanguageModel, dtype: torch.dtype) -> None:
    plain = model.forward(PROMPT, cache=model.new_cache(8)).logits
    other = model.forward(PROMPT.to(dtype), torch.arange(7, dtype=dtype), cache=model.new_cache(8)).logits
    assert distance(plain, other) < TOLERANCE


def test_p20_verify_rows_do_not_see_later_drafts(model: LanguageModel) -> None:
    first, second = filled(model), filled(model)
    left = model.forward(torch.tensor([20, 21, 22]), cache=first).logits
    right = model.forward(torch.tensor([20, 21, 77]), cache=second).logits
    assert distance(left[:2], right[:2]) <= 1e-6
    assert distance(left[2], right[2]) > 1e-3


def test_p24_rollback_is_not_a_reset(model: LanguageModel) -> None:
    cache = filled(model)
    before = rows_of(cache)
    cache.rollback(3)
    assert len(cache) == 4
    assert all(torch.equal(now, old[:, :4]) for now, old in zip(rows_of(cache), before, strict=True))
    after = model.forward(torch.tensor([50]), cache=cache).logits
    fresh = model.forward(torch.cat((PROMPT[:4], torch.tensor([50]))), cache=model.new_cache(8)).logits
    assert distance(after[-1], fresh[-1]) <= 1e-5


def keep_first(cache: KVCache, rows: int) -> None:
    cache.truncate(rows)


def remove(cache: KVCache, rows: int) -> None:
    cache.rollback(rows)


@pytest.mark.parametrize(
    ("cut", "rows", "left"),
    [(keep_first, 4, 4), (keep_first, 7, 7), (keep_first, 0, 0), (remove, 0, 7), (remove, 7, 0)],
)
def test_p25_meaning_of_crop(model: LanguageModel, cut: Callable[[KVCache, int], None], rows: int, left: int) -> None:
    cache = filled(model)
    before = rows_of(cache)
    cut(cache, rows)
    assert len(cache) == left
    assert all(torch.equal(now, old[:, :left]) for now, old in zip(rows_of(cache), before, strict=True))
    again = model.forward(PROMPT[left:] if left < 7 else torch.tensor([8]), cache=cache).logits
    fresh = model.forward(PROMPT if left < 7 else torch.tensor([*PROMPT, 8]), cache=model.new_cache(8)).logits
    assert distance(again[-1], fresh[-1]) < TOLERANCE


@pytest.mark.parametrize(("cut", "rows"), [(remove, 8), (keep_first, 8), (remove, -1), (keep_first, -1)])
def test_p25_impossible_crops(model: LanguageModel, cut: Callable[[KVCache, int], None], rows: int) -> None:
    cache = filled(model)
    with pytest.raises(ValueError, match=rf"is {rows}; the cache has 7 rows, so expected 0\.\.7"):
        cut(cache, rows)
    assert len(cache) == 7


@pytest.mark.parametrize(
    ("kept", "moved"), [((0, 1, 3, 5), 2), ((0, 2), 1), ((0, 1, 2), 0), ((0,), 0), ((), 0), ((0, 1, 2, 3, 4, 5), 0)]
)
def test_keep_leaves_the_accepted_path(model: LanguageModel, kept: tuple[int, ...], moved: int) -> None:
    cache = filled(model)
    before = rows_of(cache)
    tokens = torch.tensor([33, *TREE.tokens])
    model.forward(tokens, TREE.position_ids(7), TREE.attention_mask(7), cache=cache)
    written = rows_of(cache)
    cache.keep(kept)
    assert len(cache) == 7 + len(kept)
    assert cache.rows_moved == moved
    for now, old, new in zip(rows_of(cache), before, written, strict=True):
        assert torch.equal(now[:, :7], old)
        assert torch.equal(now[:, 7:], new[:, [7 + node for node in kept]])


def test_generation_goes_on_after_keep(model: LanguageModel) -> None:
    cache = filled(model)
    model.forward(torch.tensor([33, *TREE.tokens]), TREE.position_ids(7), TREE.attention_mask(7), cache=cache)
    cache.keep((0, 1, 3, 5))  # the pending token, then nodes 0, 2 and 4
    after = model.forward(torch.tensor([70]), cache=cache).logits
    line = torch.tensor([*PROMPT, 33, 11, 13, 15, 70])
    assert distance(after[-1], model.forward(line, cache=model.new_cache(16)).logits[-1]) < TOLERANCE


@pytest.mark.parametrize("kept", [(1, 0), (0, 0), (0, 6), (-1,)])
def test_keep_refuses_other_rows(model: LanguageModel, kept: tuple[int, ...]) -> None:
    cache = filled(model)
    model.forward(torch.tensor([1, 2, 3, 4, 5, 6]), cache=cache)
    with pytest.raises(ValueError, match="expected increasing offsets below 6"):
        cache.keep(kept)
    assert len(cache) == 13


BAD_INPUT: dict[str, tuple[dict[str, Any], str]] = {
    "id too large": ({"tokens": torch.tensor([1, VOCAB])}, rf"tokens holds {VOCAB}, outside the vocabulary"),
    "id negative": ({"tokens": torch.tensor([-1, 2])}, r"tokens holds -1, outside the vocabulary; expected 0\.\.96"),
    "no ids": ({"tokens": torch.tensor([], dtype=torch.long)}, "tokens is empty"),
    "two axes": ({"tokens": torch.ones(1, 2, dtype=torch.long)}, r"tokens has shape \(1, 2\)"),
    "floats": ({"tokens": torch.ones(2)}, "expected whole numbers"),
    "position too large": ({"positions": torch.tensor([7, 64])}, r"position 64 is outside .* expected 0\.\.63"),
    "position negative": ({"positions": torch.tensor([-1, 3])}, "position -1 is outside"),
    "positions too few": ({"positions": torch.tensor([7])}, "positions has 1 entries for 2 tokens"),
    "mask too narrow": ({"mask": torch.ones(2, 2, dtype=torch.bool)}, r"mask has shape \(2, 2\); expected \(2, 9\)"),
    "mask of floats": ({"mask": torch.ones(2, 9)}, r"mask is torch\.float32; expected torch\.bool"),
    "no room": ({"tokens": torch.ones(26, dtype=torch.long)}, "26 rows do not fit: the cache holds 7 of 32"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_leaves_the_cache_as_it_was(model: LanguageModel, case: str) -> None:
    changed, message = BAD_INPUT[case]
    cache = filled(model)
    before = rows_of(cache)
    arguments = {"tokens": torch.tensor([1, 2]), **changed}
    with pytest.raises(ValueError, match=message):
        model.forward(**arguments, cache=cache)
    assert all(torch.equal(now, old) for now, old in zip(rows_of(cache), before, strict=True))


def test_the_context_ends(model: LanguageModel) -> None:
    cache = model.new_cache(100)
    model.forward(torch.ones(64, dtype=torch.long), cache=cache)
    with pytest.raises(ValueError, match=r"position 64 is outside the model's context; expected 0\.\.63"):
        model.forward(torch.tensor([1]), cache=cache)
    with pytest.raises(ValueError, match="capacity is 0"):
        model.new_cache(0)


def test_a_cache_of_another_kind(llama: Llama, hf_llama: Any) -> None:
    adapter = HFModel(hf_llama)
    with pytest.raises(ValueError, match=r"cache is a HFCache; make it with this model's new_cache"):
        llama.forward(PROMPT, cache=adapter.new_cache(8))
    with pytest.raises(ValueError, match=r"cache is a ContiguousKVCache; make it with this model's new_cache"):
        adapter.forward(PROMPT, cache=llama.new_cache(8))


def test_an_interrupted_forward_leaves_the_cache_as_it_was(
    model: LanguageModel, llama: Llama, hf_llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = filled(model)
    before = rows_of(cache)

    def interrupt(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if model is llama:
            patch.setattr(type(llama.weights.layers[1].gate_up), "__call__", interrupt)
        else:
            patch.setattr(hf_llama.model.layers[1].mlp, "forward", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.forward(torch.tensor([1, 2]), cache=cache)
    assert len(cache) == 7
    assert all(torch.equal(now, old) for now, old in zip(rows_of(cache), before, strict=True))
    after = model.forward(torch.tensor([1]), cache=cache).logits
    fresh = model.forward(torch.tensor([*PROMPT, 1]), cache=model.new_cache(8)).logits
    assert distance(after[-1], fresh[-1]) < TOLERANCE


def test_a_row_that_sees_nothing_takes_nothing_in(model: LanguageModel) -> None:
    cache = filled(model)
    mask = torch.ones(2, 9, dtype=torch.bool).tril(7)
    usual = model.forward(torch.tensor([1, 2]), mask=mask, cache=cache).logits
    cache.rollback(2)
    mask[1] = False
    blind = model.forward(torch.tensor([1, 2]), mask=mask, cache=cache).logits
    assert torch.isfinite(blind).all()
    assert distance(blind[0], usual[0]) < TOLERANCE
    # nothing it could have seen matters: neither the prompt nor the positions
    other = model.new_cache(32)
    model.forward(torch.tensor([90]), cache=other)
    alone = model.forward(torch.tensor([2]), mask=torch.zeros(1, 2, dtype=torch.bool), cache=other).logits
    assert distance(alone[0], blind[1]) < TOLERANCE


def test_shallow_shares_weights_and_runs_just_these_layers(llama: Llama, hf_llama: Any) -> None:
    draft = llama.shallow((0, 2))
    assert draft.weights.embedding is llama.weights.embedding
    assert draft.weights.layers[1] is llama.weights.layers[2]
    middle = hf_llama.model.layers[1]
    state = {}

    def skip(module: Any, args: Any, kwargs: Any, output: Tensor) -> Tensor:
        state["skipped"] = True
        return args[0]

    handle = middle.register_forward_hook(skip, with_kwargs=True)
    expected = hf_llama(PROMPT[None]).logits[0]
    handle.remove()
    assert state == {"skipped": True}
    assert distance(draft.forward(PROMPT, cache=draft.new_cache(8)).logits, expected) < TOLERANCE
    assert distance(llama.forward(PROMPT, cache=llama.new_cache(8)).logits, expected) > 1e-3
    for wrong, message in (((), "layers is empty"), ((3,), r"layer 3 is not one of 0\.\.2"), ((-1,), "layer -1")):
        with pytest.raises(ValueError, match=message):
            llama.shallow(wrong)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gives_float32_logits_near_the_truth(hf_llama: Any, llama: Llama, dtype: torch.dtype) -> None:
    half = llama_from_hf(hf_llama, dtype=dtype)
    output = half.forward(PROMPT, cache=half.new_cache(8))
    truth = llama.forward(PROMPT, cache=llama.new_cache(8)).logits
    assert half.dtype == dtype
    assert output.logits.dtype == torch.float32
    assert distance(output.logits, truth) < 0.1 * float(truth.std())
