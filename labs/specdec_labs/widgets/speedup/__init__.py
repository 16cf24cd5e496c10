"""The speed-up explorer: alpha against gamma, where speculation breaks even, the best window, and your own points.

`view_model` answers settings with plain data, `speedup_explorer` shows it live in a notebook, `static_speedup` as HTML
without a script. Only the live widget needs anywidget.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from specdec_labs.widgets.speedup.costs import measured_costs
from specdec_labs.widgets.speedup.points import SEED_POINTS, measured_points
from specdec_labs.widgets.speedup.settings import settings_from_link
from specdec_labs.widgets.speedup.static import static_speedup
from specdec_labs.widgets.speedup.view_model import view_model

if TYPE_CHECKING:
    from specdec_core.cost_curve import CostCurve
    from specdec_labs.widgets.speedup.live import SpeedupExplorer

__all__ = [
    "SEED_POINTS",
    "measured_costs",
    "measured_points",
    "settings_from_link",
    "speedup_explorer",
    "static_speedup",
    "view_model",
]


def speedup_explorer(
    points: Iterable[Mapping[str, Any]] = SEED_POINTS,
    *,
    costs: "CostCurve | Mapping[str, Any] | None" = None,
    link: str = "",
    **settings: Any,
) -> "SpeedupExplorer":
    """The live explorer at `settings` (as in `view_model`), or at those of a `link` it wrote, with `points` on it.

    `costs`, a measurement that `measured_costs` takes, adds "measured costs" to where costs come from, opens
    with it, and judges measured points by it.

    Raises:
        ImportError: ipywidgets or anywidget is missing; `static_speedup` needs neither.
        ValueError: a link, settings or points that cannot be used.
    """
    from specdec_labs.widgets.needs import require

    require(
        "ipywidgets", "anywidget", what="the live speed-up explorer", instead="static_speedup(...) works without it"
    )
    from specdec_labs.widgets.speedup.live import SpeedupExplorer

    carried = settings_from_link(link) if link else {}
    given = {} if costs is None else {"cost": "measured", "measured": measured_costs(costs)}
    return SpeedupExplorer({**given, **carried, **settings, "points": [dict(point) for point in points]})
