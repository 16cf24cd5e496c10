"""The weights that come with the package, in `specdec_core/weights/`: a tiny pair, and drafters for SmolLM2.

Each folder has a card.json: what the weights were trained on, for how long, by which command, what was measured, and
the hash that is checked before they are used. Drafters carry the hash of their target's weights; on another target
they are refused.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from specdec_core.models.byte_bpe import load_text_tokenizer
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.head_file import load_eagle, load_medusa
from specdec_core.models.llama import Llama
from specdec_core.models.llama_folder import load_llama
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.pairs import SMOLLM2_SHA256, Pair

FOLDER = Path(__file__).resolve().parent.parent / "weights"
TINY_TARGET, TINY_DRAFT = "tiny-target", "tiny-draft"
SMOLLM2_DRAFT, SMOLLM2_MEDUSA, SMOLLM2_EAGLE = "smollm2-draft", "smollm2-medusa", "smollm2-eagle"
NAMES = (TINY_TARGET, TINY_DRAFT, SMOLLM2_DRAFT, SMOLLM2_MEDUSA, SMOLLM2_EAGLE)
_AGAIN = "install the lab again, the weights come with it"
CARD, HEAD, TOKENIZER, CUT = "card.json", "head.safetensors", "tokenizer.json", "cut_ids.json"


def read_card(name: str) -> dict[str, Any]:
    """The card of those weights. ValueError for an unknown name, or when they are not there."""
    if name not in NAMES:
        raise ValueError(f"name is {name!r}; expected one of {', '.join(NAMES)}")
    path = FOLDER / name / CARD
    card = _json(path)
    if not isinstance(card, dict) or card.get("name") != name:
        found = repr(card.get("name")) if isinstance(card, dict) else f"a {type(card).__name__}"
        raise ValueError(f"{path}: the card is of {found}, expected {name!r}; {_AGAIN}")
    learnt = card.get("trained")
    hashes = {"sha256": card.get("sha256")}
    if name == TINY_TARGET:
        hashes["trained.tokenizer_sha256"] = learnt.get("tokenizer_sha256") if isinstance(learnt, dict) else None
    else:
        hashes["target_sha256"] = card.get("target_sha256")
    for key, value in hashes.items():
        if not isinstance(value, str):
            raise ValueError(f"{path}: {key} is {value!r}, expected a hash; {_AGAIN}")
    return card


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); {_AGAIN}") from error


def load_tiny_pair(*, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Pair:
    """The tiny target and its draft, with their tokenizer.

    Raises:
        ValueError: a file is missing or damaged, or the draft was distilled from another target: both are named.
    """
    target = load_llama(FOLDER / TINY_TARGET, device=device, dtype=dtype, sha256=read_card(TINY_TARGET)["sha256"])
    card = read_card(TINY_DRAFT)
    _check_target(TINY_DRAFT, card["target_sha256"], target)
    draft = load_llama(FOLDER / TINY_DRAFT, device=device, dtype=dtype, sha256=card["sha256"])
    tokenizer = load_text_tokenizer(_tokenizer_file())
    sizes = " and ".join(f"{_parameters(model) / 1e6:.1f} M" for model in (target, draft))
    return Pair("tiny", target, draft, tokenizer, f"the lab's own tiny target and draft ({sizes} weights)")


def load_smollm2_draft(
    target: Llama | None = None, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[Llama, CutVocabulary]:
    """The draft distilled from SmolLM2, and the ids it was trained to propose (its head has all of them).

    Raises:
        ValueError: a file is missing or damaged, or `target` is another model: both are named.
    """
    card = read_card(SMOLLM2_DRAFT)
    if target is not None:
        _check_target(SMOLLM2_DRAFT, card["target_sha256"], target)
    draft = load_llama(FOLDER / SMOLLM2_DRAFT, device=device, dtype=dtype, sha256=card["sha256"])
    path, expected = FOLDER / SMOLLM2_DRAFT / CUT, card["trained"]["cut"]
    ids = _json(path)
    if not isinstance(ids, list) or len(ids) != expected:
        found = f"{len(ids):,} ids" if isinstance(ids, list) else f"a {type(ids).__name__}"
        raise ValueError(f"{path}: holds {found}, expected {expected:,}, those the draft learnt to propose; {_AGAIN}")
    return draft, CutVocabulary(tuple(ids), draft.vocab_size)


def load_medusa_head(target: Llama) -> tuple[MedusaHeads, CutVocabulary]:
    """The Medusa heads of SmolLM2 and the ids they propose. ValueError as `load_smollm2_draft`."""
    card = read_card(SMOLLM2_MEDUSA)
    _check_target(SMOLLM2_MEDUSA, card["target_sha256"], target)
    path = FOLDER / SMOLLM2_MEDUSA / HEAD
    heads, vocabulary = load_medusa(path, target.config, SMOLLM2_SHA256, sha256=card["sha256"])
    return heads.to(target.device), vocabulary


def load_eagle_head(target: Llama) -> tuple[EagleHead, CutVocabulary]:
    """The EAGLE head of SmolLM2 and the ids it proposes. ValueError as `load_smollm2_draft`."""
    card = read_card(SMOLLM2_EAGLE)
    _check_target(SMOLLM2_EAGLE, card["target_sha256"], target)
    path = FOLDER / SMOLLM2_EAGLE / HEAD
    head, vocabulary = load_eagle(path, target.config, SMOLLM2_SHA256, sha256=card["sha256"])
    return head.to(target.device), vocabulary


def _tokenizer_file() -> Path:
    """The tiny pair's tokenizer. ValueError naming both hashes unless it is the one the target learnt with."""
    path, wanted = FOLDER / TINY_TARGET / TOKENIZER, read_card(TINY_TARGET)["trained"]["tokenizer_sha256"]
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "none, it is missing"
    if found != wanted:
        raise ValueError(
            f"{path}: sha256 is {found}, expected {wanted}, the tokenizer the target was trained with; "
            "install the lab again, they come with it"
        )
    return path


def _check_target(name: str, wanted: str, target: Llama) -> None:
    """ValueError unless the target's weights are those the drafter learnt from."""
    if not hasattr(target, "weights_sha256"):
        raise ValueError(
            f"{name}: target is a {type(target).__name__}; expected a Llama, such as load_pair('smollm2').target"
        )
    if target.weights_sha256 != wanted:
        found = target.weights_sha256 or "of unknown origin (no hash was checked when they were loaded)"
        raise ValueError(
            f"{name}: made for the target with sha256 {wanted}, this one's weights are {found}; "
            "load the target with load_pair, or train a drafter for this one with `specdec train`"
        )


def _parameters(model: Llama) -> int:
    """Weights of a model whose head is its embedding."""
    layers = sum(
        part.shape[0] * part.shape[1]
        for layer in model.weights.layers
        for part in (layer.qkv, layer.attention_out, layer.gate_up, layer.down)
    )
    return model.weights.embedding.numel() + layers
