"""The live theatre: a widget that receives the whole story once and then only moves a position."""

from pathlib import Path
from typing import Any, Self

import traitlets

from specdec_core.trace import Trace
from specdec_labs.widgets.panel import LiveView, front_end
from specdec_labs.widgets.theatre.static import render
from specdec_labs.widgets.theatre.view_model import view_model


class Theatre(LiveView):
    """Steps through a trace by button, slider or key.

    Traits: `view` is what `view_model` returned; `position` the step on show, in both directions.
    """

    _esm, _css = front_end(Path(__file__).parent, "theatre", before=("text",), is_panel=False)

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

    def twin(self) -> str:
        return render(self.view)
