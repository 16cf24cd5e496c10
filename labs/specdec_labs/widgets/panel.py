"""A panel: settings come from the page, a view goes back, and between them stands one pure function."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets

_HERE = Path(__file__).parent


def front_end(folder: Path, name: str) -> tuple[str, str]:
    """Script and style of a widget: what all panels share, followed by its own. One module, no imports."""
    pairs = [(_HERE, "panel"), (folder, name)]
    script, style = (
        "\n".join((at / f"{stem}.{end}").read_text("utf-8") for at, stem in pairs) for end in ("js", "css")
    )
    return script, style


class Panel(anywidget.AnyWidget):
    """Holds `settings` (from the page or from Python) and `view`, which is `view_of(settings)`.

    Settings that cannot be used leave the view as it was, with the reason in `view["problem"]`: a half-typed
    fraction must not end a cell in a traceback.
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

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The widget with its static twin as text/html, for readers that run no scripts."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, "text/html": type(self).twin_of(self.view)}, metadata
