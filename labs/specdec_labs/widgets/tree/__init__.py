"""The tree visualiser: a draft tree linked with its attention mask and its cache rows.

`view_model` puts frames together, `tree_view` shows them live in a notebook, `static_tree` as HTML without a script.
Only the live widget needs anywidget.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specdec_core.draft import DraftTree
from specdec_core.trace import Trace
from specdec_labs.widgets.tree.static import static_tree
from specdec_labs.widgets.tree.view_model import Frame, frame_of, frames_of_trace, view_model

if TYPE_CHECKING:
    from specdec_labs.widgets.tree.live import TreeView

__all__ = ["frame_of", "frames_of_trace", "static_tree", "tree_view", "view_model"]


def tree_view(shown: Trace | DraftTree | Sequence[Frame]) -> "TreeView":
    """The live widget of a trace (a frame a round), of one tree, or of frames.

    Raises:
        ImportError: ipywidgets or anywidget is missing; `static_tree` needs neither.
        ValueError: nothing to show.
    """
    from specdec_labs.widgets.needs import require

    require("ipywidgets", "anywidget", what="the live tree", instead="static_tree(...) works without it")
    from specdec_labs.widgets.tree.live import TreeView

    if isinstance(shown, Trace):
        return TreeView.of(frames_of_trace(shown))
    return TreeView.of([frame_of(shown)] if isinstance(shown, DraftTree) else shown)
