"""A Llama as a folder that transformers opens too: config.json and model.safetensors, and a tokenizer beside them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdec_core.models.head_file import check_shapes, read_safetensors
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.trainable import Body, TrainableLlama
from specdec_core.whole_file import write_whole

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_ENTRIES = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "ffn_width": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "max_length": "max_position_embeddings",
    "rope_theta": "rope_theta",
    "norm_eps": "rms_norm_eps",
}
"""Our names of a model's sizes, and those of transformers."""


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
    if not isinstance(data, dict):
        raise ValueError(f"{path}: holds a {type(data).__name__}; expected what `save_llama` wrote")
    if data.get("model_type") != "llama" or not data.get("tie_word_embeddings"):
        raise ValueError(f"{path}: model_type is {data.get('model_type')!r}; expected a llama with a tied head")
    missing = sorted(entry for entry in _ENTRIES.values() if entry not in data)
    if missing:
        raise ValueError(f"{path}: has no {', '.join(missing)}; expected what `save_llama` wrote")
    try:
        return LlamaConfig(**{name: data[entry] for name, entry in _ENTRIES.items()})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def load_llama(
    folder: Path,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    sha256: str | None = None,
) -> Llama:
    """The model in the folder, without transformers. ValueError as `load_config` and `read_safetensors`."""
    config, tensors = _parts(folder, sha256)
    model = llama_from_tensors(config, tensors.__getitem__, tied=True, device=device, dtype=dtype)
    model.weights_sha256 = weights_hash(folder)
    return model


def load_trainable(folder: Path, *, sha256: str | None = None) -> TrainableLlama:
    """The same as a module, in float32."""
    config, tensors = _parts(folder, sha256)
    module = TrainableLlama(config)
    module.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return module


def _parts(folder: Path, sha256: str | None) -> tuple[LlamaConfig, dict[str, Tensor]]:
    """Shape and tensors. ValueError unless the tensors are those of the shape: fewer layers would be another model."""
    config = load_config(folder)
    tensors, _ = read_safetensors(folder / WEIGHTS, sha256=sha256)
    with torch.device("meta"):
        wanted = {f"model.{name}": tuple(value.shape) for name, value in Body(config).state_dict().items()}
    check_shapes(folder / WEIGHTS, wanted, tensors, by=f"the {CONFIG} beside it")
    return config, tensors


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
