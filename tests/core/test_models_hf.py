"""The transformers adapter: models it must refuse, masks, cache argument, loading without a network."""

from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_core.draft import DraftTree
from specdec_core.models import hf_load
from specdec_core.models.hf import HFModel
from specdec_core.models.hf_load import load_causal_lm, load_hf_tokenizer
from specdec_core.models.llama_load import hf_config, llama_from_hf

SMALL: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32,
}
TREE = DraftTree((4, 5, 6), (-1, -1, 0))


def small_llama(**changes: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    attention = changes.pop("attn_implementation", "sdpa")
    return LlamaForCausalLM._from_config(LlamaConfig(**SMALL, **changes), attn_implementation=attention)


def test_p27_a_sliding_window_is_refused_at_once() -> None:
    from transformers import MistralConfig, MistralForCausalLM

    model = MistralForCausalLM(MistralConfig(**SMALL, sliding_window=8))
    with pytest.raises(ValueError, match="MistralForCausalLM keeps a sliding window, which cannot be rolled back"):
        HFModel(model)
    whole = HFModel(MistralForCausalLM(MistralConfig(**SMALL, sliding_window=None)))
    assert whole.forward(torch.tensor([1, 2]), cache=whole.new_cache(4)).logits.shape == (2, 50)


def test_p27_a_recurrent_state_is_refused_at_once() -> None:
    from transformers import MambaConfig, MambaForCausalLM

    model = MambaForCausalLM(MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, state_size=4))
    with pytest.raises(ValueError, match="MambaForCausalLM keeps recurrent state, which cannot be rolled back"):
        HFModel(model)


def test_p27_a_mixed_model_is_refused_at_once() -> None:
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    config = Qwen3NextConfig(
        **SMALL,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=1,
        linear_num_value_heads=1,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_experts=0,
    )
    with pytest.raises(ValueError, match="keeps recurrent state"):
        HFModel(Qwen3NextForCausalLM(config))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_tree_mask_means_the_same_to_every_attention(attention: str) -> None:
    model = HFModel(small_llama(attn_implementation=attention))
    cache = model.new_cache(16)
    prompt = torch.tensor([7, 8, 9])
    model.forward(prompt, cache=cache)
    fed = torch.tensor([3, *TREE.tokens])
    tree = model.forward(fed, TREE.position_ids(3), TREE.attention_mask(3), cache=cache).logits
    for node, path in enumerate(TREE.paths()):
        line = torch.tensor([*prompt, 3, *(TREE.tokens[step] for step in path)])
        alone = model.forward(line, cache=model.new_cache(16)).logits
        assert float((tree[node + 1] - alone[-1]).abs().max()) < 1e-6


def test_learned_positions() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = HFModel(GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=32)))
    assert model.max_length == 32
    cache = model.new_cache(16)
    model.forward(torch.tensor([7, 8, 9]), cache=cache)
    tree = model.forward(
        torch.tensor([3, *TREE.tokens]), TREE.position_ids(3), TREE.attention_mask(3), cache=cache
    ).logits
    alone = model.forward(torch.tensor([7, 8, 9, 3, 4, 6]), cache=model.new_cache(8)).logits
    assert float((tree[3] - alone[-1]).abs().max()) < 1e-6


@pytest.mark.parametrize("keyword", ["cache", "past_key_values"])
def test_the_cache_argument_is_found_by_its_name(keyword: str) -> None:
    """transformers renamed it; the model says which one it has."""
    inner = small_llama()
    seen = []

    class Named:
        """Passes everything on under the name the installed release wants."""

        config, device, dtype, generation_config = inner.config, inner.device, inner.dtype, inner.generation_config
        base_model = inner.base_model

        def eval(self) -> "Named":
            return self

        def __call__(self, **kwargs: Any) -> Any:
            seen.append(keyword in kwargs)
            rows = kwargs.pop(keyword)
            return inner(**kwargs, **{HFModel(inner)._cache_keyword: rows})

    named = Named()
    if keyword == "cache":
        named.forward = lambda input_ids, cache, position_ids, logits_to_keep: None  # type: ignore[attr-defined]
    else:
        named.forward = lambda input_ids, past_key_values, position_ids, logits_to_keep: None  # type: ignore[attr-defined]
    model = HFModel(named)
    cache = model.new_cache(4)
    model.forward(torch.tensor([1, 2]), cache=cache)
    assert (seen, len(cache)) == ([True], 2)


def test_a_model_without_a_cache() -> None:
    inner = small_llama()
    inner.forward = lambda input_ids: None
    with pytest.raises(ValueError, match="LlamaForCausalLM takes no key-value cache"):
        HFModel(inner)


def test_eos_ids_of_the_generation_config() -> None:
    inner = small_llama()
    for ends, expected in ((None, ()), (3, (3,)), ([3, 4], (3, 4))):
        inner.generation_config.eos_token_id = ends
        assert HFModel(inner).eos_ids == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_bias": True}, "attention_bias is True"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}, "rope_type is 'linear'"),
    ],
)
def test_own_forward_refuses_what_it_does_not_have(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"{message}; this forward has .* use HFModel"):
        llama_from_hf(small_llama(**changes))


def test_own_forward_of_a_tied_model_with_other_constants() -> None:
    model = small_llama(
        tie_word_embeddings=True,
        head_dim=12,
        rms_norm_eps=1e-3,
        rope_parameters={"rope_type": "default", "rope_theta": 777.0},
    )
    own = llama_from_hf(model)
    assert (own.config.rope_theta, own.config.head_dim) == (777.0, 12)
    assert own.weights.head.weight is own.weights.embedding
    tokens = torch.arange(32)
    with torch.inference_mode():
        expected = model(tokens[None]).logits[0]
    assert float((own.forward(tokens, cache=own.new_cache(32)).logits - expected).abs().max()) < 1e-6
    assert hf_config(model.config) == own.config


def test_a_folder_is_read_without_a_network(tmp_path: Path) -> None:
    model = small_llama()
    model.save_pretrained(tmp_path / "model")
    tokens = torch.tensor([1, 2, 3])
    expected = model(tokens[None]).logits[0]
    loaded = HFModel.load(str(tmp_path / "model"))
    own = llama_from_hf(tmp_path / "model")
    for other in (loaded, own):
        logits = other.forward(tokens, cache=other.new_cache(4)).logits
        assert float((logits - expected).detach().abs().max()) < 1e-6


def test_an_unknown_id_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_load, "hub_is_reachable", lambda: False)
    with pytest.raises(ValueError, match="nobody/nothing: transformers found no usable model in the local cache"):
        load_causal_lm("nobody/nothing")
    with pytest.raises(ValueError, match="nobody/nothing: transformers found no usable model in the local cache"):
        load_hf_tokenizer("nobody/nothing")


def test_offline_means_not_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert not hf_load.hub_is_reachable()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert not hf_load.hub_is_reachable()


@pytest.mark.parametrize("name", ["./missing", "/missing/folder", "a/b/c"])
def test_a_missing_folder_is_a_clear_error(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: no such folder; give the folder save_pretrained wrote"):
        load_causal_lm(name)


def test_pickled_weights_and_foreign_code_are_refused(tmp_path: Path) -> None:
    model = small_llama()
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"found no usable model in that folder .*safetensors"):
        load_causal_lm(str(tmp_path))
    (tmp_path / "config.json").write_text(
        '{"model_type": "own", "auto_map": {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}}'
    )
    (tmp_path / "code.py").write_text("raise SystemExit('foreign code ran')")
    with pytest.raises(ValueError, match="found no usable model in that folder"):
        load_causal_lm(str(tmp_path))
