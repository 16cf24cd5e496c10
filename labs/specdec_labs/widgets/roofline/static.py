"""The roofline explorer without a script: the passes and the cost of more tokens as tables."""

from collections.abc import Mapping
from typing import Any

from specdec_labs.widgets.roofline.view_model import view_model
from specdec_labs.widgets.twin import StaticTwin, paragraph, table

_HEADINGS = ("pass", "tokens a sequence", "FLOP/byte", "TFLOP/s attained", "ms at least", "bound by")


def static_roofline(settings: Mapping[str, Any] | None = None) -> StaticTwin:
    """The explorer at `settings`, as HTML. ValueError for settings that `view_model` refuses."""
    return StaticTwin(render(view_model(settings)))


def render(view: Mapping[str, Any]) -> str:
    """HTML of what `view_model` returned."""
    rows = [
        (
            entry["name"],
            entry["rows"],
            f"{entry['intensity']:.2f}",
            f"{entry['flops_per_s'] / 1e12:.2f}",
            f"{1000 * entry['seconds']:.3g}",
            entry["bound"],
        )
        for entry in view["passes"]
    ]
    curve = [(rows_, f"{relative:.3f}") for rows_, relative in view["curve"]]
    return (
        paragraph(view["say"])
        + paragraph(view["gate"]["say"])
        + paragraph(view["warning"])
        + table(_HEADINGS, rows)
        + paragraph(f"Modelled for one device: {view['source']}, {view['dtype']}. Time of a pass in single steps:")
        + table(("tokens a sequence", "time"), curve)
    )
