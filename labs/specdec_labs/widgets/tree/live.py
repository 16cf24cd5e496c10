"""The live tree visualiser: all frames are sent once, then only a frame and a node are chosen."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import traitlets

from specdec_labs.widgets.panel import LiveView, front_end
from specdec_labs.widgets.tree.static import render
from specdec_labs.widgets.tree.view_model import Frame, view_model


class TreeView(LiveView):
    """Traits: `view` as `view_model` returned it, `frame` the tree on show, `selected` a node (-1: pending)."""

    _esm, _css = front_end(Path(__file__).parent, "tree")

    view = traitlets.Dict().tag(sync=True)
    frame = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Int(-1).tag(sync=True)

    @classmethod
    def of(cls, frames: Sequence[Frame]) -> Self:
        """The widget of these frames. ValueError when there are none."""
        return cls(view=view_model(frames))

    @traitlets.validate("frame")
    def _inside(self, proposal: dict[str, Any]) -> int:
        last = len(self.view.get("frames", ())) - 1
        if not 0 <= proposal["value"] <= max(last, 0):
            raise traitlets.TraitError(f"frame is {proposal['value']}; there are frames 0..{last}")
        return proposal["value"]

    def twin(self) -> str:
        return render(self.view, self.frame)
