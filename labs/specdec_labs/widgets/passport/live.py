"""The live passport: the files of `work/` are read when it is made and when the page asks for it."""

from pathlib import Path
from typing import Any, Self

import traitlets

from specdec_labs.grade.records import progress
from specdec_labs.widgets.panel import LiveView, front_end
from specdec_labs.widgets.passport.static import render
from specdec_labs.widgets.passport.view_model import passport_csv, view_model
from specdec_labs.widgets.predictions import noted_predictions


class Passport(LiveView):
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

    def twin(self) -> str:
        return render(self.view)
