"""A training run on disk: weights, optimiser and curve in one safetensors file, replaced whole.

A stop leaves the old file or the new one, never half of one.
"""

from dataclasses import dataclass
import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specdec_core.models.head_file import read_safetensors

CHECKPOINT = "checkpoint.safetensors"
_WEIGHT, _FIRST, _SECOND, _CURVE = "weight/", "first_moment/", "second_moment/", "curve"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What a run needs to go on. `curve` is the loss of every step so far, `description` what is being trained."""

    step: int
    description: dict[str, Any]
    evaluations: list[dict[str, Any]]
    curve: list[float]
    tensors: dict[str, Tensor]

    @classmethod
    def of(
        cls,
        module: nn.Module,
        optimiser: torch.optim.Optimizer,
        *,
        step: int,
        description: dict[str, Any],
        evaluations: list[dict[str, Any]],
        curve: list[float],
    ) -> "Checkpoint":
        """The run's state, copied to the CPU."""
        tensors: dict[str, Tensor] = {_CURVE: torch.tensor(curve, dtype=torch.float64)}
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            tensors[_WEIGHT + name] = parameter.detach()
            moments = optimiser.state.get(parameter)
            if moments:
                tensors[_FIRST + name], tensors[_SECOND + name] = moments["exp_avg"], moments["exp_avg_sq"]
        tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
        return cls(step, description, list(evaluations), list(curve), tensors)

    def save(self, folder: Path) -> None:
        """Writes the file, beside the old one first."""
        from safetensors.torch import save_file

        state = {"step": self.step, "description": self.description, "evaluations": self.evaluations}
        partial = folder / (CHECKPOINT + ".part")
        save_file(self.tensors, partial, metadata={"state": json.dumps(state)})
        partial.replace(folder / CHECKPOINT)

    def restore(self, module: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Puts weights and moments back.

        Raises:
            ValueError: the module has other parameters than the file: both lists are named.
        """
        for name, parameter in self.copy_weights(module).items():
            if _FIRST + name in self.tensors:
                optimiser.state[parameter] = {
                    "step": torch.tensor(float(self.step)),
                    "exp_avg": self.tensors[_FIRST + name].to(parameter.device),
                    "exp_avg_sq": self.tensors[_SECOND + name].to(parameter.device),
                }

    def copy_weights(self, module: nn.Module) -> dict[str, nn.Parameter]:
        """Puts the weights alone back; the parameters by name. ValueError as `restore`, or for another shape."""
        own = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        stored = {name.removeprefix(_WEIGHT) for name in self.tensors if name.startswith(_WEIGHT)}
        if stored != set(own):
            raise ValueError(
                f"the checkpoint holds {sorted(stored - set(own))[:3]} which this model lacks, "
                f"and lacks {sorted(set(own) - stored)[:3]}; it belongs to another model"
            )
        with torch.no_grad():
            for name, parameter in own.items():
                found = self.tensors[_WEIGHT + name]
                if found.shape != parameter.shape:
                    raise ValueError(
                        f"{name} is {tuple(found.shape)} in the checkpoint and {tuple(parameter.shape)} here; "
                        "it belongs to another model"
                    )
                parameter.copy_(found)
        return own


def run_hash(folder: Path) -> str:
    """sha256 of the checkpoint in `folder`. ValueError when there is none."""
    path = folder / CHECKPOINT
    if not path.is_file():
        raise ValueError(f"{path}: no such file; name the folder of a run")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The checkpoint in `folder`, or None when there is none.

    Raises:
        ValueError: the file is cut off or damaged, or no checkpoint.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    tensors, metadata = read_safetensors(path)
    if "state" not in metadata or _CURVE not in tensors:
        raise ValueError(f"{path}: no run in it; expected what `specdec train` wrote - use another folder")
    state = json.loads(metadata["state"])
    return Checkpoint(state["step"], state["description"], state["evaluations"], tensors[_CURVE].tolist(), tensors)
