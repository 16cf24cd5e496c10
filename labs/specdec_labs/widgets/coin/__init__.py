"""The coin editor: one draft, one uniform, the exact law of the output, and what a mistake does to it.

`view_model` answers settings with plain data, `coin_editor` shows it live in a notebook, `static_coin` as HTML
without a script. Only the live widget needs anywidget.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specdec_labs.widgets.coin.static import static_coin
from specdec_labs.widgets.coin.view_model import view_model

if TYPE_CHECKING:
    from specdec_labs.widgets.coin.live import CoinEditor

__all__ = ["coin_editor", "static_coin", "view_model"]


def coin_editor(
    p: Sequence[object] = ("6/10", "4/10", "0"),
    q: Sequence[object] = ("2/10", "3/10", "5/10"),
    *,
    names: Sequence[str] = ("cat", "dog", "bee"),
    **settings: Any,
) -> "CoinEditor":
    """The live editor for laws given as fractions, strings such as "1/3", or whole weights.

    `settings` may hold bug, drafted, u, v and rounds, as in `view_model`.

    Raises:
        ImportError: ipywidgets or anywidget is missing; `static_coin` needs neither.
        ValueError: settings that `view_model` refuses.
    """
    from specdec_labs.widgets.needs import require

    require("ipywidgets", "anywidget", what="the live coin editor", instead="static_coin(...) works without it")
    from specdec_labs.widgets.coin.live import CoinEditor

    return CoinEditor({"names": list(names), "p": [str(x) for x in p], "q": [str(x) for x in q], **settings})
