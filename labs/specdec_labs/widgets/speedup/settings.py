"""Settings of the explorer: defaults, limits, and the link that carries them."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from specdec_core.hardware_presets import hardware_names
from specdec_labs.widgets.speedup.costs import FREE, GAMMAS, TARGETS

DEFAULTS: dict[str, Any] = {
    "alpha": 0.8,
    "gamma": 5,
    "cost": "ratio",
    "c": 0.05,
    "hardware": "h100-sxm",
    "target": "llama-3-70b",
    "drafter": "llama-3.2-1b",
    "batch": 1,
    "context": 512,
    "devices": 8,
    "measured_drafter": "",
    "measured": None,
    "points": (),
}
LINKED = tuple(name for name in DEFAULTS if name not in ("points", "measured"))
_RANGES: dict[str, tuple[float, float]] = {
    "alpha": (0, 1),
    "gamma": (1, GAMMAS[-1]),
    "c": (0, 2),
    "batch": (1, 1024),
    "context": (0, 131072),
    "devices": (1, 64),
}
_WHOLE = ("gamma", "batch", "context", "devices")


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` over the defaults. ValueError naming the first one that is unknown or out of range."""
    unknown = set(settings) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"{min(unknown)} is not a setting of the explorer; expected one of {', '.join(DEFAULTS)}")
    chosen = {**DEFAULTS, **settings}
    for name, (low, high) in _RANGES.items():
        value = chosen[name]
        kind = int if name in _WHOLE else (int, float)
        if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
            raise ValueError(
                f"{name} is {value!r}; expected a {'whole ' if name in _WHOLE else ''}number, {low} to {high}"
            )
    lists = {
        "cost": ("ratio", "roofline", "measured"),
        "hardware": hardware_names(),
        "target": tuple(TARGETS),
        "drafter": (FREE, *TARGETS),
    }
    for name, allowed in lists.items():
        if chosen[name] not in allowed:
            raise ValueError(f"{name} is {chosen[name]!r}; expected one of {', '.join(allowed)}")
    return chosen


def settings_from_link(link: str) -> dict[str, Any]:
    """The settings that a link of the explorer carries: everything after its "speedup?".

    Raises:
        ValueError: no link of the explorer, or settings that `checked_settings` refuses.
    """
    _, found, query = link.rpartition("speedup?")
    if not found:
        raise ValueError(f"link is {link[:80]!r}; expected one that the explorer wrote, with 'speedup?' in it")
    settings: dict[str, Any] = {}
    for name, text in parse_qsl(query):
        try:
            settings[name] = int(text) if name in _WHOLE else float(text) if name in _RANGES else text
        except ValueError:
            raise ValueError(f"the link says {name}={text!r}; expected a number") from None
    return {name: value for name, value in checked_settings(settings).items() if name in LINKED}
