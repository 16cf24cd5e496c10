"""The accept/reject theatre: a recorded trace, one decision at a time.

`view_model` turns a trace into plain data, `theatre` shows it live in a notebook, `static_theatre` and
`provenance_html` as HTML without a script. Only the live widget needs anywidget.
"""

from typing import TYPE_CHECKING, Any

from specdec_core.trace import Trace
from specdec_labs.widgets.theatre.static import StaticTheatre, provenance_html, static_theatre
from specdec_labs.widgets.theatre.view_model import view_model

if TYPE_CHECKING:
    from specdec_labs.widgets.theatre.live import Theatre

__all__ = ["StaticTheatre", "Theatre", "provenance_html", "static_theatre", "theatre", "view_model"]


def theatre(trace: Trace) -> "Theatre":
    """The live widget of a trace, at its first refusal: an empty stage would be the first thing seen.

    Raises:
        ImportError: ipywidgets or anywidget is missing (the message says which); `static_theatre` needs neither.
        ValueError: the record of a round contradicts itself.
    """
    return _live_class().of(trace)


def _live_class() -> type["Theatre"]:
    from specdec_labs.widgets.needs import require

    require("ipywidgets", "anywidget", what="the live theatre", instead="static_theatre(trace) works without it")
    from specdec_labs.widgets.theatre.live import Theatre

    return Theatre


def __getattr__(name: str) -> Any:
    if name == "Theatre":
        return _live_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
