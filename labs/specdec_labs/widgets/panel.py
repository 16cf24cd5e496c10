"""Live views: what all of them share, and panels, whose view is one pure function of their settings."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import anywidget
import traitlets

_HERE = Path(__file__).parent
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"
# JupyterLab's "model not found" is bare text in the output before the twin; a live view has elements in it
_TWIN_STYLE = (
    ".jp-OutputArea-child:has(+ .jp-OutputArea-child #{id}) .jp-OutputArea-output:not(:has(*)) {{ display: none; }}"
)
_TWIN_NOTE = "<p><small>A still copy: run the cell for the live view.</small></p>"


def front_end(folder: Path, name: str, *, before: Sequence[str] = (), is_panel: bool = True) -> tuple[str, str]:
    """Script and style of a widget: what all views share, what panels share, its own. One module, no imports.

    `before` names further scripts of its folder, which its own follows.
    """
    shared = [_HERE / "panel"] if is_panel else []
    script, style = (
        [part.with_suffix(end).read_text("utf-8") for part in (*shared, *parts, folder / name)]
        for end, parts in ((".js", [folder / other for other in before]), (".css", []))
    )
    return "\n".join([(_HERE / "mount.js").read_text("utf-8"), *script]), "\n".join(style)


class LiveView(anywidget.AnyWidget):
    """A widget with a static twin that stands in wherever the widget cannot be shown.

    The twin is an output of its own. In one bundle with the widget it would do for GitHub and nbconvert, but
    JupyterLab always takes the widget from a bundle, and in a saved page without its kernel shows an error instead.
    The page's script hides the twin while the view lives; the twin hides the error.
    """

    twin_id = traitlets.Unicode().tag(sync=True)

    @traitlets.default("twin_id")
    def _new_twin_id(self) -> str:
        return f"sd-twin-{uuid4().hex}"

    def twin(self) -> str:
        """HTML that says what the view shows now."""
        raise NotImplementedError

    def _ipython_display_(self, **kwargs: Any) -> None:
        from IPython.display import display

        style = _TWIN_STYLE.format(id=self.twin_id)
        twin = f'<div id="{self.twin_id}"><style>{style}</style>{self.twin()}{_TWIN_NOTE}</div>'
        display({WIDGET_TYPE: {"version_major": 2, "version_minor": 0, "model_id": self.model_id}}, raw=True)
        display({"text/html": twin, "text/plain": repr(self)}, raw=True)


class Panel(LiveView):
    """Holds `settings` (from the page or from Python) and `view`, which is `view_of(settings)`.

    Settings that cannot be used leave the view as it was, with the reason in `view["problem"]`: a half-typed
    fraction must not end a cell in a traceback. Each change is answered, so that the page sees a kernel that is gone.
    """

    view_of: ClassVar[Callable[[Mapping[str, Any]], dict[str, Any]]]
    twin_of: ClassVar[Callable[[Mapping[str, Any]], str]]

    settings = traitlets.Dict().tag(sync=True)
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, settings: Mapping[str, Any], **traits: Any) -> None:
        """Raises ValueError for settings that `view_of` refuses."""
        super().__init__(settings=dict(settings), view=type(self).view_of(settings), **traits)
        self.observe(self._refresh, names="settings")

    def _refresh(self, change: dict[str, Any]) -> None:
        try:
            self.view = type(self).view_of(change["new"])
        except ValueError as error:
            self.view = {**self.view, "problem": str(error)}
        self.send("answered")

    def twin(self) -> str:
        return type(self).twin_of(self.view)
