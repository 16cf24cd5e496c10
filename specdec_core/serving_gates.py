"""Rules of thumb for when to speculate, as quoted, beside the limits that a cost model gives.

The quoted ones contradict each other; they are presets to compare with, never defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from specdec_core.hardware_presets import Hardware
from specdec_core.model_shapes import ModelShape
from specdec_core.roofline import forward_time, forward_work
from specdec_core.speed_formulas import expected_tokens
from specdec_core.step_costs import roofline_costs

Quantity = Literal["batch", "alpha", "intensity", "memory_bound_share", "draft_cost"]


@dataclass(frozen=True, slots=True)
class Gate:
    """Speculation is said to pay while `quantity` is at most (or at least) `limit`.

    `document` is the seed document that says so, `says` what is to happen beyond it.
    """

    name: str
    quantity: Quantity
    sense: Literal["at most", "at least"]
    limit: float
    document: int
    says: str

    def allows(self, value: float) -> bool:
        """Whether this gate would speculate at the value."""
        return value <= self.limit if self.sense == "at most" else value >= self.limit


GATES: Mapping[str, Gate] = {
    gate.name: gate
    for gate in (
        Gate("deploy-batch", "batch", "at most", 8, 0, "do not deploy"),
        Gate("disable-batch", "batch", "at most", 15, 0, "switch off (batch 16 and more)"),
        Gate("review-batch", "batch", "at most", 32, 0, "review the decision"),
        Gate("inversion-batch", "batch", "at most", 63, 0, "slower than plain (batch 64 and more)"),
        Gate("intensity", "intensity", "at most", 20, 0, "do not deploy"),
        Gate("memory-bound", "memory_bound_share", "at least", 0.85, 0, "do not deploy"),
        Gate("review-alpha", "alpha", "at least", 0.55, 0, "review the window"),
        Gate("throttle-alpha", "alpha", "at least", 0.50, 0, "shorten the window"),
        Gate("collapse-alpha", "alpha", "at least", 0.40, 0, "slower than plain"),
        Gate("draft-cost", "draft_cost", "at most", 0.2, 3, "the draft is too large"),
    )
}


def modelled_speedup(
    target: ModelShape,
    draft: ModelShape | None,
    device: Hardware,
    *,
    alpha: float,
    gamma: int,
    batch: int,
    context: int = 0,
    dtype: str = "float16",
    degree: int = 1,
) -> float:
    """The roofline's speed-up of a batch; below 1 is slower."""
    costs = roofline_costs(
        target, draft, device, context=context, batch=batch, dtype=dtype, degree=degree, largest_gamma=gamma
    )
    return costs.speedup(float(expected_tokens(alpha, gamma)), gamma)


def break_even_batch(
    target: ModelShape,
    draft: ModelShape | None,
    device: Hardware,
    *,
    alpha: float,
    gamma: int,
    context: int = 0,
    dtype: str = "float16",
    degree: int = 1,
    largest: int = 1024,
) -> int:
    """The first batch at which the roofline's speed-up is below 1; `largest` + 1 when none up to `largest` is.

    Every batch is tried: with a long context the speed-up can rise again, since the KV cache is read once for all
    rows of a sequence.
    """
    for batch in range(1, largest + 1):
        gain = modelled_speedup(
            target, draft, device, alpha=alpha, gamma=gamma, batch=batch, context=context, dtype=dtype, degree=degree
        )
        if gain < 1:
            return batch
    return largest + 1


def gate_values(
    target: ModelShape, device: Hardware, *, gamma: int, batch: int, context: int = 0, dtype: str = "float16"
) -> dict[Quantity, float]:
    """What the gates on batch, intensity and memory look at, for one verify pass (modelled)."""
    work = forward_work(target, gamma + 1, context, batch=batch, dtype=dtype)
    return {
        "batch": float(batch),
        "intensity": work.arithmetic_intensity,
        "memory_bound_share": forward_time(work, device, dtype).memory_bound_share,
    }
