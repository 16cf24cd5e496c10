"""Models, tokenizers and pairs of them. Nothing here imports transformers until a Hugging Face model is asked for."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdec_core.models.compatibility import Compatibility, check_tokenizers
    from specdec_core.models.gguf import GGUFFile
    from specdec_core.models.hf import HFCache, HFModel
    from specdec_core.models.llama import Llama, LlamaConfig
    from specdec_core.models.llama_load import llama_from_gguf, llama_from_hf, llama_from_tensors
    from specdec_core.models.pairs import Pair, find_smollm2, load_pair
    from specdec_core.models.protocol import ForwardOutput, KVCache, LanguageModel, Tokenizer
    from specdec_core.models.streaming import TextStream
    from specdec_core.models.tokenizer import DigitTokenizer, GGUFTokenizer, HFTokenizer
    from specdec_core.models.vocabulary import ResizedVocabulary

_HOME = {
    "Compatibility": "compatibility",
    "DigitTokenizer": "tokenizer",
    "ForwardOutput": "protocol",
    "GGUFFile": "gguf",
    "GGUFTokenizer": "tokenizer",
    "HFCache": "hf",
    "HFModel": "hf",
    "HFTokenizer": "tokenizer",
    "KVCache": "protocol",
    "LanguageModel": "protocol",
    "Llama": "llama",
    "LlamaConfig": "llama",
    "Pair": "pairs",
    "ResizedVocabulary": "vocabulary",
    "TextStream": "streaming",
    "Tokenizer": "protocol",
    "check_tokenizers": "compatibility",
    "find_smollm2": "pairs",
    "llama_from_gguf": "llama_load",
    "llama_from_hf": "llama_load",
    "llama_from_tensors": "llama_load",
    "load_pair": "pairs",
}

__all__ = [
    "Compatibility",
    "DigitTokenizer",
    "ForwardOutput",
    "GGUFFile",
    "GGUFTokenizer",
    "HFCache",
    "HFModel",
    "HFTokenizer",
    "KVCache",
    "LanguageModel",
    "Llama",
    "LlamaConfig",
    "Pair",
    "ResizedVocabulary",
    "TextStream",
    "Tokenizer",
    "check_tokenizers",
    "find_smollm2",
    "llama_from_gguf",
    "llama_from_hf",
    "llama_from_tensors",
    "load_pair",
]


def __getattr__(name: str) -> Any:
    # on demand: the protocol alone must not pull in every model
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
