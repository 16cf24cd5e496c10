"""Builds `Llama` from a GGUF file, a Hugging Face checkpoint, or named tensors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.models.gguf import GGUFFile
from specdec_core.models.hf_load import load_causal_lm
from specdec_core.models.linear import Linear
from specdec_core.models.llama import LayerWeights, Llama, LlamaConfig, LlamaWeights

Reader = Callable[[str], Float[Tensor, "..."]]

_GGUF_OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_GGUF_INNER = {
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


def llama_from_tensors(
    config: LlamaConfig,
    read: Reader,
    *,
    tied: bool,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Llama:
    """A model from `read(name)`, which gives the tensor of that Hugging Face name (`model.norm.weight`, ...)."""

    def get(*names: str) -> Tensor:
        parts = [read(name).to(device=device, dtype=dtype) for name in names]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def layer(index: int) -> LayerWeights:
        at = f"model.layers.{index}."
        return LayerWeights(
            attention_norm=get(f"{at}input_layernorm.weight"),
            qkv=Linear(get(*(f"{at}self_attn.{part}_proj.weight" for part in "qkv"))),
            attention_out=Linear(get(f"{at}self_attn.o_proj.weight")),
            ffn_norm=get(f"{at}post_attention_layernorm.weight"),
            gate_up=Linear(get(f"{at}mlp.gate_proj.weight", f"{at}mlp.up_proj.weight")),
            down=Linear(get(f"{at}mlp.down_proj.weight")),
        )

    embedding = get("model.embed_tokens.weight")
    weights = LlamaWeights(
        embedding=embedding,
        layers=tuple(layer(index) for index in range(config.layers)),
        norm=get("model.norm.weight"),
        head=Linear(embedding, shared=True) if tied else Linear(get("lm_head.weight")),
    )
    return Llama(config, weights)


def llama_from_gguf(
    source: str | Path | GGUFFile,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Llama:
    """The Llama in a GGUF file.

    Raises:
        ValueError: as `GGUFFile`; or an architecture or rotary scaling this forward does not have.
    """
    file = source if isinstance(source, GGUFFile) else GGUFFile(source)
    config = gguf_config(file)
    tied = "output.weight" not in file.tensors
    model = llama_from_tensors(config, gguf_reader(file, config), tied=tied, device=device, dtype=dtype)
    model.weights_sha256 = file.sha256
    return model


def gguf_config(file: GGUFFile) -> LlamaConfig:
    """The shape of the Llama in a GGUF file."""
    architecture = file.require("general.architecture")
    scaled = file.metadata.get("llama.rope.scaling.type", "none") != "none" or "rope_freqs.weight" in file.tensors
    if architecture != "llama" or scaled:
        kind = "llama with scaled rotary positions" if architecture == "llama" else repr(architecture)
        raise ValueError(f"{file.path}: the model is {kind}; expected a plain llama - load it through transformers")
    width, heads = file.require("llama.embedding_length"), file.require("llama.attention.head_count")
    config = LlamaConfig(
        vocab_size=file.info("token_embd.weight").shape[0],
        width=width,
        ffn_width=file.require("llama.feed_forward_length"),
        layers=file.require("llama.block_count"),
        heads=heads,
        kv_heads=file.metadata.get("llama.attention.head_count_kv", heads),
        head_dim=file.metadata.get("llama.attention.key_length", width // heads),
        max_length=file.require("llama.context_length"),
        rope_theta=file.metadata.get("llama.rope.freq_base", 10000.0),
        norm_eps=file.require("llama.attention.layer_norm_rms_epsilon"),
    )
    rotated = file.metadata.get("llama.rope.dimension_count", config.head_dim)
    if rotated != config.head_dim:
        raise ValueError(f"{file.path}: rotates {rotated} of {config.head_dim} dimensions; expected all of them")
    return config


def gguf_reader(file: GGUFFile, config: LlamaConfig) -> Reader:
    """Reads tensors of a GGUF file by their Hugging Face names, query and key rows in half-split order."""

    def read(name: str) -> Tensor:
        if name in _GGUF_OUTER:
            return file.read(_GGUF_OUTER[name])
        index, inner = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
        weight = file.read(f"blk.{index}.{_GGUF_INNER[inner]}.weight")
        return _half_split(weight, config.head_dim) if inner.endswith(("q_proj", "k_proj")) else weight

    return read


def _half_split(weight: Float[Tensor, "rows width"], head_dim: int) -> Float[Tensor, "rows width"]:
    """Undoes llama.cpp's row order: there the rotated pairs are neighbours, here half a head apart."""
    return weight.view(-1, head_dim // 2, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def llama_from_hf(
    source: Any,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Llama:
    """The same model as a loaded `LlamaForCausalLM`, or as the folder or id of one.

    Raises:
        ValueError: another architecture, biases or scaled rotary positions: use `HFModel` then.
    """
    if isinstance(source, (str, Path)):
        source = load_causal_lm(str(source), dtype=dtype)
    config = hf_config(source.config)
    state = source.state_dict()
    tied = source.config.tie_word_embeddings
    return llama_from_tensors(config, state.__getitem__, tied=tied, device=device, dtype=dtype)


def hf_config(config: Any) -> LlamaConfig:
    """The shape of a transformers `LlamaConfig`."""
    rope = getattr(config, "rope_parameters", None) or {}
    unlike = {
        "model_type": (config.model_type, "llama"),
        "hidden_act": (config.hidden_act, "silu"),
        "rope_type": (rope.get("rope_type", "default"), "default"),
        "attention_bias": (config.attention_bias, False),
        "mlp_bias": (config.mlp_bias, False),
    }
    for name, (got, expected) in unlike.items():
        if got != expected:
            raise ValueError(f"{name} is {got!r}; this forward has {expected!r} only - use HFModel for this model")
    return LlamaConfig(
        vocab_size=config.vocab_size,
        width=config.hidden_size,
        ffn_width=config.intermediate_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim or config.hidden_size // config.num_attention_heads,
        max_length=config.max_position_embeddings,
        rope_theta=rope.get("rope_theta", 10000.0),
        norm_eps=config.rms_norm_eps,
    )
