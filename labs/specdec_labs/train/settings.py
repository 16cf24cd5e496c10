"""How a training run goes: everything that, with the data, decides its loss curve."""

from dataclasses import dataclass
import math

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """AdamW with a warm-up and a cosine.

    Attributes:
        batch, length: sequences a step, and tokens a sequence.
        rate, last_rate: the learning rate after the warm-up, and at the end as a share of it.
        clip: largest norm of the whole gradient.
        precision: "float32" or "bfloat16", the format of matrix products (weights and sums stay float32).
        evaluate_every, save_every: steps.
    """

    steps: int
    batch: int = 16
    length: int = 256
    rate: float = 1e-3
    last_rate: float = 0.1
    warmup: int = 50
    weight_decay: float = 0.1
    beta2: float = 0.95
    clip: float = 1.0
    seed: int = 0
    precision: str = "float32"
    evaluate_every: int = 100
    save_every: int = 50

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "length", "evaluate_every", "save_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        if not (0 < self.rate < math.inf and 0 < self.clip < math.inf):
            raise ValueError(f"rate is {self.rate} and clip {self.clip}; expected both above 0 and finite")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}; expected 0..2**63 - 1")
        if self.precision not in ("float32", "bfloat16"):
            raise ValueError(f"precision is {self.precision!r}; expected 'float32' or 'bfloat16'")

    def rate_at(self, step: int) -> float:
        """The learning rate of step `step`, counted from 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.rate * (self.last_rate + (1 - self.last_rate) * (1 + math.cos(math.pi * min(1.0, done))) / 2)


def matrix_products(precision: str, device: torch.device) -> torch.autocast:
    """A block in which matrix products run in that format."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")
