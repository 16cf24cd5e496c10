"""Trained heads as files: tensors, the cut vocabulary, and which target they belong to."""

from collections.abc import Mapping
from dataclasses import dataclass
import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.medusa import MedusaHeads

_IDS = "cut_ids"
_DESCRIBED = {"kind": str, "shape": dict, "target_sha256": str, "target_vocabulary": int, "card": dict}
_SHAPES = {"medusa": ("heads",), "eagle": ("ffn_width",)}


@dataclass(frozen=True, slots=True, eq=False)
class HeadFile:
    """What is in the file.

    Attributes:
        kind: "medusa" or "eagle".
        shape: what rebuilds the module: `heads`, or `ffn_width`.
        target_sha256: hash of the target's weights; the head is of no use on another.
        card: how it was trained, and what was measured.
        tensors: weights by parameter name, float32.
    """

    kind: str
    shape: dict[str, int]
    target_sha256: str
    vocabulary: CutVocabulary
    card: dict[str, Any]
    tensors: dict[str, Tensor]


def write_head(path: Path, head: HeadFile) -> None:
    """Writes the file in one move; weights in float16."""
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().to("cpu", torch.float16).contiguous() for name, tensor in head.tensors.items()}
    tensors[_IDS] = head.vocabulary.index.to(torch.int32)
    about = {
        "kind": head.kind,
        "shape": head.shape,
        "target_sha256": head.target_sha256,
        "target_vocabulary": head.vocabulary.target_size,
        "card": head.card,
    }
    partial = path.with_name(path.name + ".part")
    save_file(tensors, partial, metadata={"head": json.dumps(about)})
    partial.replace(path)


def read_head(path: Path, *, kind: str, target_sha256: str, sha256: str | None = None) -> HeadFile:
    """The head in the file, for a target of that hash.

    Raises:
        ValueError: no such file, cut off, another hash than `sha256`, another kind, or a head of another target;
            the message names both sides.
    """
    tensors, metadata = read_safetensors(path, sha256=sha256)
    if "head" not in metadata:
        raise ValueError(f"{path}: no head in it; expected a file that `specdec train {kind}` wrote")
    about = _description(path, metadata["head"])
    if about["kind"] != kind:
        raise ValueError(f"{path}: holds {about['kind']}, expected {kind}; name another file")
    if about["target_sha256"] != target_sha256:
        raise ValueError(
            f"{path}: trained for the target with sha256 {about['target_sha256']}, this one has {target_sha256}; "
            "a head only fits the target whose states it has seen"
        )
    if _IDS not in tensors:
        raise ValueError(f"{path}: damaged: it has no {_IDS}, the ids the head proposes; train the head again")
    vocabulary = CutVocabulary(tuple(tensors.pop(_IDS).tolist()), about["target_vocabulary"])
    weights = {name: tensor.float() for name, tensor in tensors.items()}
    return HeadFile(kind, about["shape"], about["target_sha256"], vocabulary, about["card"], weights)


def _description(path: Path, text: str) -> dict[str, Any]:
    """What `write_head` wrote about the head. ValueError when it is damaged, or an entry missing or of another type."""
    try:
        about = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: its description is damaged ({error}); train the head again") from error
    for key, type_ in _DESCRIBED.items():
        if not isinstance(about, dict) or not isinstance(about.get(key), type_):
            raise ValueError(f"{path}: its description has no {key}, or one of another type; train the head again")
    for key in _SHAPES.get(about["kind"], ()):
        if not isinstance(about["shape"].get(key), int):
            raise ValueError(f"{path}: its shape has no {key}, only {about['shape']}; train the head again")
    return about


def load_medusa(
    path: Path, target: LlamaConfig, target_sha256: str, *, sha256: str | None = None
) -> tuple[MedusaHeads, CutVocabulary]:
    """Medusa heads for that target. ValueError as `read_head`."""
    file = read_head(path, kind="medusa", target_sha256=target_sha256, sha256=sha256)
    heads = MedusaHeads(file.shape["heads"], target.width)
    check_shapes(path, _shapes(heads.state_dict()), file.tensors)
    heads.load_state_dict(file.tensors)
    return heads.requires_grad_(False), file.vocabulary


def load_eagle(
    path: Path, target: LlamaConfig, target_sha256: str, *, sha256: str | None = None
) -> tuple[EagleHead, CutVocabulary]:
    """An EAGLE head for that target. ValueError as `read_head`."""
    file = read_head(path, kind="eagle", target_sha256=target_sha256, sha256=sha256)
    head = EagleHead(target, ffn_width=file.shape["ffn_width"])
    check_shapes(path, _shapes(head.state_dict()), file.tensors)
    head.load_state_dict(file.tensors)
    return head.requires_grad_(False), file.vocabulary


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def check_shapes(
    path: Path, wanted: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor], *, by: str = "this target"
) -> None:
    """ValueError naming the first tensor that is missing, not known, or of another shape than `by` asks for."""
    found = _shapes(tensors)
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise ValueError(
                f"{path}: weights of another shape: {name} is {found.get(name, 'missing')} there and "
                f"{wanted.get(name, 'unknown')} for {by}"
            )


def read_safetensors(path: Path, *, sha256: str | None = None) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    """All tensors and the metadata of a file.

    Raises:
        ValueError: no such file, cut off or damaged, or another hash than `sha256`: both are named.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ValueError(f"{path}: no such file; check the path")
    if sha256 is not None:
        got = hashlib.sha256(path.read_bytes()).hexdigest()
        if got != sha256.lower():
            raise ValueError(f"{path}: sha256 is {got}, expected {sha256.lower()}; put the right file there")
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except SafetensorError as error:
        size = path.stat().st_size
        raise ValueError(
            f"{path}: cut off or damaged ({error}; {size:,} bytes here); put a whole copy there, or remove it"
        ) from error
