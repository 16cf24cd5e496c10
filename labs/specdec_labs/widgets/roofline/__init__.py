"""The roofline explorer: why a few more tokens in a pass are almost free, and where that ends.

`view_model` answers settings with plain data, `roofline_explorer` shows it live in a notebook, `static_roofline` as
HTML without a script. Only the live widget needs anywidget.
"""

from typing import TYPE_CHECKING, Any

from specdec_labs.widgets.roofline.static import static_roofline
from specdec_labs.widgets.roofline.view_model import view_model

if TYPE_CHECKING:
    from specdec_labs.widgets.roofline.live import RooflineExplorer

__all__ = ["roofline_explorer", "static_roofline", "view_model"]


def roofline_explorer(**settings: Any) -> "RooflineExplorer":
    """The live explorer at `settings`, as in `view_model`.

    Raises:
        ImportError: ipywidgets or anywidget is missing; `static_roofline` needs neither.
        ValueError: settings that `view_model` refuses.
    """
    from specdec_labs.widgets.needs import require

    require(
        "ipywidgets", "anywidget", what="the live roofline explorer", instead="static_roofline(...) works without it"
    )
    from specdec_labs.widgets.roofline.live import RooflineExplorer

    return RooflineExplorer(settings)
