"""The roofline explorer's numbers: how far a pass is from the limits of a device, and what more tokens in it cost.

All of it is modelled by `specdec_core.roofline`; nothing here is measured.
"""

from collections.abc import Mapping
from typing import Any

from specdec_core.hardware_presets import Hardware, hardware, hardware_names
from specdec_core.model_shapes import ModelShape, model_shape
from specdec_core.roofline import forward_time, forward_work, ridge_intensity, ridge_rows
from specdec_core.serving_gates import GATES
from specdec_labs.impossible import machine_problem
from specdec_labs.widgets.speedup.costs import TARGETS, linked_devices, misfit

DEFAULTS: dict[str, Any] = {
    "hardware": "h100-sxm",
    "target": "llama-3-70b",
    "gamma": 4,
    "batch": 1,
    "context": 512,
    "devices": 8,
}
ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
PREFILL = 512
_RANGES = {"gamma": (0, 63), "batch": (1, 1024), "context": (0, 131072), "devices": (1, 64)}


def view_model(settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the explorer shows for `settings` (missing ones as in `DEFAULTS`), ready for `json.dumps`.

    `passes` has one decoded token, gamma + 1 verified ones and a prefill of 512: rows, intensity (FLOP/byte),
    flops_per_s (attained at the modelled time), seconds and bound. `curve` has [rows, relative time] for the target.
    Figures are those of one device.

    Raises:
        ValueError: settings out of range or an unknown preset.
    """
    chosen = _checked(settings or {})
    device, shape = hardware(chosen["hardware"]), model_shape(chosen["target"])
    dtype = "float16" if "float16" in device.flops_per_s else "float32"
    devices, alone = linked_devices(device, chosen["devices"])
    used = {**chosen, "devices": devices}
    rows = {"one token": 1, f"verify {chosen['gamma'] + 1}": chosen["gamma"] + 1, f"prefill {PREFILL}": PREFILL}
    passes = [_pass(name, count, shape, device, dtype, used) for name, count in rows.items()]
    one, verify = passes[0], passes[1]
    return {
        "version": 1,
        "settings": chosen,
        "choices": {
            "hardware": [[name, f"{hardware(name).name} ({hardware(name).kind})"] for name in hardware_names()],
            "target": [[name, name] for name in TARGETS],
        },
        "dtype": dtype,
        "peak": device.peak(dtype),
        "bandwidth": device.bytes_per_s,
        "source": device.source,
        "ridge": ridge_intensity(device, dtype),
        "ridge_rows": ridge_rows(device, dtype),
        "passes": passes,
        "curve": [[count, _pass("", count, shape, device, dtype, used)["seconds"] / one["seconds"]] for count in ROWS],
        "relative": verify["seconds"] / one["seconds"],
        "say": _sentence(one, verify, chosen, ridge_rows(device, dtype)),
        "gate": _gate(one),
        "warning": " ".join(filter(None, (alone, misfit(shape, device, dtype, devices), machine_problem(device)))),
        "problem": "",
    }


def _pass(
    name: str, rows: int, shape: ModelShape, device: Hardware, dtype: str, chosen: Mapping[str, Any]
) -> dict[str, Any]:
    work = forward_work(shape, rows, chosen["context"], batch=chosen["batch"], dtype=dtype, degree=chosen["devices"])
    time = forward_time(work, device, dtype)
    return {
        "name": name,
        "rows": rows,
        "bytes": work.bytes,
        "intensity": work.arithmetic_intensity,
        "flops_per_s": work.flops / time.seconds,
        "seconds": time.seconds,
        "bound": time.bound,
        "memory_bound_share": time.memory_bound_share,
    }


def _sentence(one: Mapping[str, Any], verify: Mapping[str, Any], chosen: Mapping[str, Any], ridge: float) -> str:
    ratio = verify["seconds"] / one["seconds"]
    fed = chosen["batch"] * verify["rows"]
    place = "below" if fed < ridge else "above"
    sequences = "one sequence" if chosen["batch"] == 1 else f"each of {chosen['batch']} sequences"
    return (
        f"One token for {sequences} takes at least {1000 * one['seconds']:.3g} ms, bound by "
        f"{one['bound']}. Verifying {verify['rows']} takes {ratio:.3f} times that: {fed} tokens in the pass, "
        f"{place} the ridge of {ridge:.0f}."
    )


def _gate(one: Mapping[str, Any]) -> dict[str, Any]:
    intensity, share = GATES["intensity"], GATES["memory-bound"]
    met = intensity.allows(one["intensity"]) and share.allows(one["memory_bound_share"])
    found = f"{one['intensity']:.1f} and {one['memory_bound_share']:.0%}, {'met' if met else 'not met'}"
    demand = f"under {intensity.limit:g} FLOPs a byte, over {share.limit:.0%} bound by memory"
    return {"met": met, "say": f"The seed documents' gate for deploying ({demand}): {found}."}


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    unknown = set(settings) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"{min(unknown)} is not a setting of the explorer; expected one of {', '.join(DEFAULTS)}")
    chosen = {**DEFAULTS, **settings}
    for name, (low, high) in _RANGES.items():
        if type(chosen[name]) is not int or not low <= chosen[name] <= high:
            raise ValueError(f"{name} is {chosen[name]!r}; expected a whole number, {low} to {high}")
    for name, allowed in (("hardware", hardware_names()), ("target", tuple(TARGETS))):
        if chosen[name] not in allowed:
            raise ValueError(f"{name} is {chosen[name]!r}; expected one of {', '.join(allowed)}")
    return chosen
