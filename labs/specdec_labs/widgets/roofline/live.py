"""The live roofline explorer."""

from pathlib import Path

from specdec_labs.widgets.panel import Panel, front_end
from specdec_labs.widgets.roofline.static import render
from specdec_labs.widgets.roofline.view_model import view_model


class RooflineExplorer(Panel):
    """A device, a model and a load in, its roofline out: the page changes `settings`, `view_model` answers."""

    _esm, _css = front_end(Path(__file__).parent, "roofline")

    view_of = staticmethod(view_model)
    twin_of = staticmethod(render)
