"""The live coin editor."""

from pathlib import Path

from specdec_labs.widgets.coin.static import render
from specdec_labs.widgets.coin.view_model import view_model
from specdec_labs.widgets.panel import Panel, front_end


class CoinEditor(Panel):
    """Edit p and q, drag u, choose a bug, draw samples: the page changes `settings`, `view_model` answers."""

    _esm, _css = front_end(Path(__file__).parent, "coin")

    view_of = staticmethod(view_model)
    twin_of = staticmethod(render)
