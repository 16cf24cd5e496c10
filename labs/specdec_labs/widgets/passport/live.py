"""The live passport: the files of `work/` are read when it is made and when the page asks for it."""

from pathlib import Path
from typing import Any, Self

import anywidget
import traitlets

from specdec_labs.grade.records import progress
from specdec_labs.widgets.panel import front_end
from specdec_labs.widgets.passport.static import render
from specdec_labs.widgets.passport.view_model import passport_csv, view_model
from specdec_labs.widgets.predictions import noted_predictions


class Passport(anywidget.AnyWidget):
    """Traits: `view` as `view_model` returned it, `csv` the same tasks as a file."""

    _esm, _css = front_end(Path(__file__).parent, "passport")

    view = traitlets.Dict().tag(sync=True)
    csv = traitlets.Unicode().tag(sync=True)

    @classmethod
    def read(cls) -> Self:
        """The passport of what is noted now."""
        passport = cls()
        passport.refresh()
        passport.on_msg(passport._asked)
        return passport

    def refresh(self) -> None:
        """Reads the notes again."""
        view = view_model(progress(), noted_predictions())
        self.csv = passport_csv(view)
        self.view = view

    def _asked(self, widget: object, content: Any, buffers: object) -> None:
        if content == "refresh":
            self.refresh()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The widget with its static twin as text/html, for readers that run no scripts."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, "text/html": render(self.view)}, metadata
