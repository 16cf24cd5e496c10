"""Which prices of a round the explorer's settings name: one ratio c, or the roofline of two models."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from specdec_core.hardware_presets import Hardware, hardware, hardware_names
from specdec_core.model_shapes import SHAPES, ModelShape, model_shape
from specdec_core.roofline import bytes_of, fits
from specdec_core.step_costs import StepCosts, formula_costs, roofline_costs

GAMMAS = tuple(range(1, 25))
"""The windows on the map."""

LARGEST = 64
"""The largest window the best one is sought among."""

FREE = "free"
"""A drafter without a model, such as prompt lookup: its steps cost nothing here."""

TARGETS = sorted((name for name, shape in SHAPES.items() if shape.layers), key=lambda name: -SHAPES[name].parameters)
_ROOFLINE = ("hardware", "target", "drafter", "batch", "context", "devices")


@dataclass(frozen=True, slots=True)
class PricedRounds:
    """Prices of a round with where they come from in words, and what speaks against the setting."""

    costs: StepCosts
    says: str
    warning: str = ""


def prices_of(settings: Mapping[str, Any]) -> PricedRounds:
    """The prices these settings name: "ratio" reads c, "roofline" the hardware, the two models and the load."""
    if settings["cost"] == "ratio":
        return _by_ratio(settings["c"])
    return _by_roofline(*(settings[name] for name in _ROOFLINE))


@lru_cache(maxsize=256)
def _by_ratio(c: float) -> PricedRounds:
    return PricedRounds(
        formula_costs(c, LARGEST), f"a draft step costs c = {c:g} of a target step; a verify pass costs 1"
    )


@lru_cache(maxsize=256)
def _by_roofline(device: str, target: str, drafter: str, batch: int, context: int, devices: int) -> PricedRounds:
    machine, shape = hardware(device), model_shape(target)
    devices, warning = linked_devices(machine, devices)
    dtype = "float16" if "float16" in machine.flops_per_s else "float32"
    draft = None if drafter == FREE else model_shape(drafter)
    costs = roofline_costs(
        shape, draft, machine, context=context, batch=batch, dtype=dtype, degree=devices, largest_gamma=LARGEST
    )
    says = (
        f"{costs.origin}, {dtype}, {context} tokens of context: a draft step costs {costs.draft[1]:.3g} of a target "
        f"step, verifying 5 tokens {costs.verify[4]:.3g}"
    )
    return PricedRounds(costs, says, " ".join(filter(None, (warning, misfit(shape, machine, dtype, devices)))))


def linked_devices(machine: Hardware, wanted: int) -> tuple[int, str]:
    """How many devices the roofline may use, and what to say when that is not `wanted`.

    A machine without a link, such as the one measured here, works alone: whoever picks it from the menu while the
    count still says 8 sees it, not a refusal.
    """
    if wanted == 1 or machine.link_bytes_per_s is not None:
        return wanted, ""
    return 1, f"{machine.name} has no link to other devices: shown for 1, not {wanted}."


def misfit(shape: ModelShape, machine: Hardware, dtype: str, devices: int) -> str:
    """A sentence when the weights are larger than the memory of the devices, else empty."""
    if fits(shape, machine, dtype=dtype, degree=devices):
        return ""
    weights = shape.parameters * bytes_of(dtype) / 1e9
    return f"{shape.name} does not fit: {weights:.0f} GB of weights, {devices} x {machine.memory_bytes / 1e9:.0f} GB."


def choices() -> dict[str, list[list[str]]]:
    """Menus: [value, title] of hardware, target and drafter."""
    devices = [hardware(name) for name in hardware_names()]
    return {
        "hardware": [[name, f"{device.name} ({device.kind})"] for name, device in zip(hardware_names(), devices)],
        "target": [[name, name] for name in TARGETS],
        "drafter": [[FREE, "no model (prompt lookup)"], *([name, name] for name in reversed(TARGETS))],
    }
