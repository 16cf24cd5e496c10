"""The progress passport: what is solved, what was revealed, how predictions went; exports JSON and CSV, no login.

`view_model` makes plain data of the notes in `work/`, `passport` shows them live, `static_passport` as HTML without a
script. Only the live widget needs anywidget.
"""

from typing import TYPE_CHECKING

from specdec_labs.widgets.passport.static import render
from specdec_labs.widgets.passport.view_model import passport_csv, passport_json, view_model
from specdec_labs.widgets.predictions import noted_predictions
from specdec_labs.widgets.twin import StaticTwin

if TYPE_CHECKING:
    from specdec_labs.widgets.passport.live import Passport

__all__ = ["passport", "passport_csv", "passport_json", "static_passport", "view_model"]


def passport() -> "Passport":
    """The live passport of what is noted in `work/` now.

    Raises:
        ImportError: ipywidgets or anywidget is missing; `static_passport` needs neither.
    """
    from specdec_labs.widgets.needs import require

    require("ipywidgets", "anywidget", what="the live passport", instead="static_passport() works without it")
    from specdec_labs.widgets.passport.live import Passport

    return Passport.read()


def static_passport() -> StaticTwin:
    """The passport as HTML."""
    from specdec_labs.grade.records import progress

    return StaticTwin(render(view_model(progress(), noted_predictions())))
