"""Which prices of a round the explorer's settings name: one ratio c, the roofline of two models, or measured ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
import statistics
from typing import Any

from specdec_core.cost_curve import CostCurve
from specdec_core.hardware_presets import Hardware, hardware, hardware_names
from specdec_core.model_shapes import SHAPES, ModelShape, model_shape
from specdec_core.roofline import bytes_of, fits
from specdec_core.step_costs import StepCosts, curve_costs, formula_costs, roofline_costs

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
    """The prices these settings name: "ratio" reads c, "roofline" the hardware, the two models and the load.

    "measured" reads the prices of the drafter `measured_drafter` in `measured`.

    Raises:
        ValueError: "measured" without measured prices, or of a drafter that has none.
    """
    if settings["cost"] == "ratio":
        return _by_ratio(settings["c"])
    if settings["cost"] == "measured":
        return _by_measurement(settings["measured"], settings["measured_drafter"])
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


def _by_measurement(measured: Mapping[str, Any] | None, drafter: str) -> PricedRounds:
    if measured is None:
        raise ValueError("cost is 'measured', but no measurement was given; pass costs=, a report of `specdec bench`")
    name = drafter or next(iter(measured["drafters"]))
    costs = measured_prices(measured, name)
    if costs is None:
        known = ", ".join(measured["drafters"])
        raise ValueError(f"measured_drafter is {drafter!r}; the measurement has {known}")
    says = (
        f"measured, {measured['says']}, drafts from {name}: verifying 5 tokens costs {costs.verify[4]:.3g} plain steps"
    )
    if costs.largest_gamma < 4:
        says = f"measured, {measured['says']}, drafts from {name}"
    return PricedRounds(costs, says)


def measured_prices(measured: Mapping[str, Any] | None, drafter: str | None) -> StepCosts | None:
    """The prices of rounds with this drafter; None where they were not measured."""
    if measured is None or drafter not in measured["drafters"]:
        return None
    parts = measured["drafters"][drafter]
    return StepCosts(*(tuple(parts[name]) for name in ("draft", "verify", "host")), origin=f"measured, {drafter}")


def measured_costs(source: CostCurve | Mapping[str, Any]) -> dict[str, Any]:
    """Prices by drafter and gamma for the setting `measured`, in plain steps, with where they come from in words.

    `source` is the JSON of `specdec bench curve` or of `specdec bench speedup`, or a `CostCurve` of the target alone,
    which prices a drafter that costs nothing. Drafting and host work lie on the line between the measured windows
    and go on along its last slope; a pass has its price from the curve, and beyond its rows there is none.

    Raises:
        ValueError: none of these.
    """
    if isinstance(source, CostCurve):
        costs = curve_costs(source, None, _middle(source), largest_gamma=min(LARGEST, source.rows[-1] - 1))
        return {"says": _machine(source), "drafters": {FREE: _parts(costs.draft, costs.verify, costs.host)}}
    if isinstance(source, Mapping) and source.get("schema") == "specdec.speedup":
        curve, rounds = CostCurve.from_dict(source["curve"]), source["break_even"]
    elif isinstance(source, Mapping) and source.get("curves") and source.get("drafting"):
        curve = CostCurve.from_dict(source["curves"][0])
        scaled = ({**row, **{part: row[f"{part}_s"] / row["plain_s"] for part in _PARTS}} for row in source["drafting"])
        rounds = list(scaled)
    else:
        raise ValueError("costs is no CostCurve and no JSON of `specdec bench curve` or `specdec bench speedup`")
    names = dict.fromkeys(row["drafter"] for row in rounds)
    return {
        "says": _machine(curve),
        "drafters": {name: _along(curve, [row for row in rounds if row["drafter"] == name]) for name in names},
    }


_PARTS = ("draft", "verify", "host")


def _parts(*values: Iterable[float]) -> dict[str, list[float]]:
    return {name: list(part) for name, part in zip(_PARTS, values)}


def _along(curve: CostCurve, rounds: list[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The parts of a round by gamma, from rounds measured at some windows and the curve of the target."""
    held = _middle(curve)
    # seconds of a plain step: what the measured rounds' verify passes were divided by
    step = statistics.median(curve.seconds(row["gamma"] + 1, held) / row["verify"] for row in rounds)
    draft = {0: 0.0} | {row["gamma"]: row["draft"] for row in rounds}
    host = {row["gamma"]: row["host"] for row in rounds}
    gammas = range(min(LARGEST, curve.rows[-1] - 1) + 1)
    return _parts(
        (_on_line(draft, gamma) for gamma in gammas),
        (curve.seconds(gamma + 1, held) / step for gamma in gammas),
        (_on_line(host, gamma) for gamma in gammas),
    )


def _on_line(known: Mapping[int, float], place: int) -> float:
    """Between known places on the line that joins them, outside on the nearest one; a single place is a constant."""
    places = sorted(known)
    if len(places) == 1:
        return known[places[0]]
    right = next((index for index, other in enumerate(places) if index and other >= place), len(places) - 1)
    low, high = places[right - 1], places[right]
    return max(0.0, known[low] + (place - low) / (high - low) * (known[high] - known[low]))


def _middle(curve: CostCurve) -> float:
    return (curve.contexts[0] + curve.contexts[-1]) / 2


def _machine(curve: CostCurve) -> str:
    facts = curve.hardware
    where = facts.get("gpu") or f"{facts.get('threads')} thread(s) of {facts.get('processor')}"
    return f"{curve.model} on {where}, {facts.get('date')}, at {_middle(curve):g} cached tokens"


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


def choices(measured: Mapping[str, Any] | None = None) -> dict[str, list[list[str]]]:
    """Menus: [value, title] of cost, hardware, target, drafter and measured drafter."""
    devices = [hardware(name) for name in hardware_names()]
    sources = [["ratio", "one ratio c"], ["roofline", "roofline of two models"]]
    if measured is not None:
        sources.append(["measured", "measured costs"])
    return {
        "cost": sources,
        "measured_drafter": [[name, name] for name in (measured or {"drafters": ()})["drafters"]],
        "hardware": [[name, f"{device.name} ({device.kind})"] for name, device in zip(hardware_names(), devices)],
        "target": [[name, name] for name in TARGETS],
        "drafter": [[FREE, "no model (prompt lookup)"], *([name, name] for name in reversed(TARGETS))],
    }
