"""The speed-up explorer without a script: the chosen place, a coarse map and the points as tables."""

from collections.abc import Mapping
from typing import Any

from specdec_labs.widgets.speedup.view_model import view_model
from specdec_labs.widgets.twin import StaticTwin, paragraph, table

SHOWN_ALPHAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SHOWN_GAMMAS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24)


def static_speedup(settings: Mapping[str, Any] | None = None) -> StaticTwin:
    """The explorer at `settings`, as HTML. ValueError for settings that `view_model` refuses."""
    return StaticTwin(render(view_model(settings)))


def render(view: Mapping[str, Any]) -> str:
    """HTML of what `view_model` returned."""
    columns = [round(50 * alpha) for alpha in SHOWN_ALPHAS]
    rows = []
    for gamma in (gamma for gamma in SHOWN_GAMMAS if gamma in view["gammas"]):
        place = view["gammas"].index(gamma)
        even = view["contours"]["1"][place]
        cells = [_cell(view["cells"][place][column]) for column in columns]
        rows.append([gamma, *cells, "never" if even is None else f"{even:.3f}"])
    best = ["best gamma", *(view["ridge"][column] or "plain" for column in columns), ""]
    headings = ["gamma", *(f"alpha {alpha:g}" for alpha in SHOWN_ALPHAS), "breaks even at"]
    return (
        paragraph(view["here"]["say"])
        + paragraph(f"Costs: {view['costs']}. {view['warning']}")
        + table(headings, [*rows, best])
        + paragraph("Values below 1 are slower than plain decoding, marked ▼.")
        + _points(view["points"])
    )


def _cell(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.2f} ▼"


def _points(points: list[Mapping[str, Any]]) -> str:
    if not points:
        return ""
    rows = [
        (
            p["label"],
            p["origin"],
            p["alpha"],
            p["gamma"],
            f"{p['speedup']:.2f}",
            "–" if p["modelled"] is None else f"{p['modelled']:.2f}",
            p["judged_by"] or "another machine",
            "–" if p["ratio"] is None else f"{p['ratio']:.2f}",
        )
        for p in points
    ]
    return table(("point", "origin", "alpha", "gamma", "speed-up", "expected", "by", "ratio"), rows)
