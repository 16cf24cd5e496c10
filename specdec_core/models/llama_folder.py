"""A Llama as a folder that transformers opens too: config.json and model.safetensors, and a tokenizer beside them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdec_core.models.head_file import read_safetensors
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.trainable import TrainableLlama
from specdec_core.whole_file import write_whole

WEIGHTS, CONFIG = "model.safetensors", "config.json"


def save_llama(module: TrainableLlama, folder: Path, *, dtype: torch.dtype = torch.float16) -> str:
    """Writes the folder; the sha256 of the weights, which heads and drafts are bound to."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().to("cpu", dtype).contiguous() for name, value in module.state_dict().items()}
    partial = folder / (WEIGHTS + ".part")
    save_file(tensors, partial, metadata={"format": "pt"})
    partial.replace(folder / WEIGHTS)
    write_whole(folder / CONFIG, json.dumps(_as_transformers(module.config, dtype), indent=1) + "\n")
    return weights_hash(folder)


def weights_hash(folder: Path) -> str:
    """sha256 of the weights in the folder. ValueError when there are none."""
    path = folder / WEIGHTS
    if not path.is_file():
        raise ValueError(f"{path}: no such file; expected a folder with {WEIGHTS} and {CONFIG}")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_config(folder: Path) -> LlamaConfig:
    """The shape in config.json. ValueError when it is missing, damaged, or of a model that is no plain Llama."""
    path = folder / CONFIG
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); expected what `save_llama` wrote") from error
    if data.get("model_type") != "llama" or not data.get("tie_word_embeddings"):
        raise ValueError(f"{path}: model_type is {data.get('model_type')!r}; expected a llama with a tied head")
    return LlamaConfig(
        vocab_size=data["vocab_size"],
        width=data["hidden_size"],
        ffn_width=data["intermediate_size"],
        layers=data["num_hidden_layers"],
        heads=data["num_attention_heads"],
        kv_heads=data["num_key_value_heads"],
        head_dim=data["head_dim"],
        max_length=data["max_position_embeddings"],
        rope_theta=data["rope_theta"],
        norm_eps=data["rms_norm_eps"],
    )


def load_llama(
    folder: Path,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    sha256: str | None = None,
) -> Llama:
    """The model in the folder, without transformers. ValueError as `load_config` and `read_safetensors`."""
    tensors = _tensors(folder, sha256)
    model = llama_from_tensors(load_config(folder), tensors.__getitem__, tied=True, device=device, dtype=dtype)
    model.weights_sha256 = weights_hash(folder)
    return model


def load_trainable(folder: Path, *, sha256: str | None = None) -> TrainableLlama:
    """The same as a module, in float32."""
    module = TrainableLlama(load_config(folder))
    module.load_state_dict({name: tensor.float() for name, tensor in _tensors(folder, sha256).items()})
    return module


def _tensors(folder: Path, sha256: str | None) -> dict[str, Tensor]:
    return read_safetensors(folder / WEIGHTS, sha256=sha256)[0]


def _as_transformers(config: LlamaConfig, dtype: torch.dtype) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.width,
        "intermediate_size": config.ffn_width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_length,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.norm_eps,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }
