"""The live speed-up explorer."""

from pathlib import Path

from specdec_labs.widgets.panel import Panel, front_end
from specdec_labs.widgets.speedup.static import render
from specdec_labs.widgets.speedup.view_model import view_model


class SpeedupExplorer(Panel):
    """Alpha, gamma and costs in, the map out: the page changes `settings`, `view_model` answers."""

    _esm, _css = front_end(Path(__file__).parent, "speedup")

    view_of = staticmethod(view_model)
    twin_of = staticmethod(render)
