"""The live theatre: an anywidget that receives the whole story once and then only moves a position."""

from pathlib import Path
from typing import Any, Self

import anywidget
import traitlets

from specdec_core.trace import Trace
from specdec_labs.widgets.theatre.static import render
from specdec_labs.widgets.theatre.view_model import view_model

_HERE = Path(__file__).parent


class Theatre(anywidget.AnyWidget):
    """Steps through a trace by button, slider or key.

    Traits: `view` is what `view_model` returned; `position` the step on show, in both directions.
    """

    _esm = _HERE / "theatre.js"
    _css = _HERE / "theatre.css"

    view = traitlets.Dict().tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)

    @classmethod
    def of(cls, trace: Trace) -> Self:
        """The theatre of a trace, at its first refusal. ValueError when the record contradicts itself."""
        view = view_model(trace)
        return cls(view=view, position=view["opens_at"])

    @property
    def step(self) -> dict[str, Any]:
        """The step on show."""
        return self.view["steps"][self.position]

    @traitlets.validate("position")
    def _inside(self, proposal: dict[str, Any]) -> int:
        last = len(self.view.get("steps", ())) - 1
        if not 0 <= proposal["value"] <= max(last, 0):
            raise traitlets.TraitError(f"position is {proposal['value']}; this trace has steps 0..{last}")
        return proposal["value"]

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The widget, with its static twin as text/html in the same bundle.

        JupyterLab ranks the widget type before HTML and shows one of them; GitHub, nbviewer and other readers
        of the saved file know only the HTML. Displaying the twin as an output of its own would show both.
        """
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, "text/html": render(self.view)}, metadata
