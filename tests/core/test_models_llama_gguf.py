"""A Llama written to a GGUF file the way llama.cpp does comes back as the same model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specdec_core.models.llama_load import llama_from_gguf

gguf = pytest.importorskip("gguf", reason="the package gguf (extra dev) writes the files of these tests")

HEADS, KV_HEADS, WIDTH = 4, 2, 32
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
METADATA: dict[str, Any] = {
    "llama.block_count": 2,
    "llama.embedding_length": WIDTH,
    "llama.feed_forward_length": 48,
    "llama.context_length": 32,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.rope.freq_base": 500.0,
    "llama.attention.layer_norm_rms_epsilon": 1e-6,
}


def small_llama(tied: bool) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(4)
    config = LlamaConfig(
        vocab_size=60,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=32,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        tie_word_embeddings=tied,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config)


def neighbouring_pairs(weight: np.ndarray, heads: int) -> np.ndarray:
    """The row order of llama.cpp's converter: the halves of a head interleaved."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def make(model: Any, *, architecture: str = "llama", **changes: Any) -> Path:
        path = tmp_path / "model.gguf"
        writer = gguf.GGUFWriter(path, architecture)
        for key, value in {**METADATA, **changes}.items():
            add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
            add(key, value)
        for name, weight in model.state_dict().items():
            if name == "lm_head.weight" and model.config.tie_word_embeddings:
                continue
            inner, prefix = name.removesuffix(".weight"), ""
            if inner.startswith("model.layers."):
                index, inner = inner.removeprefix("model.layers.").split(".", 1)
                prefix = f"blk.{index}."
            rows = weight.numpy()
            if inner.endswith(("q_proj", "k_proj")):
                rows = neighbouring_pairs(rows, HEADS if inner.endswith("q_proj") else KV_HEADS)
            writer.add_tensor(f"{prefix}{NAMES[inner]}.weight", np.ascontiguousarray(rows))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return make


@pytest.mark.parametrize("tied", [True, False])
def test_the_same_logits(write: Callable[..., Path], tied: bool) -> None:
    oracle = small_llama(tied)
    own = llama_from_gguf(write(oracle))
    assert (own.weights.head.weight is own.weights.embedding) == tied
    tokens = torch.arange(32) * 7 % 60
    with torch.inference_mode():
        expected = oracle(tokens[None]).logits[0]
    assert float((own.forward(tokens, cache=own.new_cache(32)).logits - expected).abs().max()) < 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "qwen2"}, "the model is 'qwen2'; expected a plain llama"),
        ({"llama.rope.scaling.type": "yarn"}, "llama with scaled rotary positions; expected a plain llama"),
        ({"llama.rope.dimension_count": 4}, "rotates 4 of 8 dimensions"),
    ],
)
def test_what_this_forward_does_not_have(write: Callable[..., Path], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"model\.gguf: .*{message}"):
        llama_from_gguf(write(small_llama(True), **changes))


def test_a_file_without_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "empty.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in METADATA.items():
        (writer.add_uint32 if isinstance(value, int) else writer.add_float32)(key, value)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ValueError, match=r"empty\.gguf: no tensor 'token_embd\.weight'; it holds 1"):
        llama_from_gguf(path)
