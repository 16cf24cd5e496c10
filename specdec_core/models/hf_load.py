"""Loads models and tokenizers through transformers: local folders and cached ids work without a network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
import urllib.error
import urllib.request

import torch

_HUB_TIMEOUT_S = 5.0


def load_causal_lm(name: str, *, dtype: torch.dtype = torch.float32) -> Any:
    """The transformers causal LM of an id or a local folder, from safetensors only, running no code of its own.

    Raises:
        ValueError: no such folder, an id that is neither cached nor reachable, no safetensors weights, or an
            architecture transformers does not know.
    """
    from transformers import AutoModelForCausalLM

    return _load(AutoModelForCausalLM.from_pretrained, name, dtype=dtype, use_safetensors=True)


def load_hf_tokenizer(name: str) -> Any:
    """The transformers tokenizer of an id or a local folder. ValueError as `load_causal_lm`."""
    from transformers import AutoTokenizer

    return _load(AutoTokenizer.from_pretrained, name)


def _load(from_pretrained: Callable[..., Any], name: str, **options: Any) -> Any:
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _attempt(from_pretrained, str(folder), "in that folder", local_files_only=True, **options)
    if name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1:
        raise ValueError(f"{name}: no such folder; give the folder save_pretrained wrote, or a Hugging Face id")
    try:
        return _attempt(from_pretrained, name, "in the local cache", local_files_only=True, **options)
    except ValueError:
        # transformers would retry for half a minute before it says that there is no network
        if not hub_is_reachable():
            raise
    return _attempt(from_pretrained, name, "on the hub", local_files_only=False, **options)


def _attempt(from_pretrained: Callable[..., Any], source: str, place: str, **options: Any) -> Any:
    try:
        return from_pretrained(source, trust_remote_code=False, **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            f"{source}: transformers found no usable model {place} ({reason}); expected a causal LM with config.json, "
            "*.safetensors and tokenizer files, in a folder or under an id that the hub knows"
        ) from error


def hub_is_reachable() -> bool:
    """Whether the Hugging Face hub answers at all, within a few seconds."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        urllib.request.urlopen(constants.ENDPOINT, timeout=_HUB_TIMEOUT_S).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
