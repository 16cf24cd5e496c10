"""The coin editor without a script: the laws as a table, the decision and the samples as sentences."""

from collections.abc import Mapping
from typing import Any

from specdec_labs.widgets.coin.view_model import view_model
from specdec_labs.widgets.twin import StaticTwin, paragraph, table

_COLUMNS = ("p", "q", "kept", "residual", "law", "gap")
_HEADINGS = ("token", "p", "q", "kept: min(p, q)", "residual", "law of the output", "off by")


def static_coin(settings: Mapping[str, Any] | None = None) -> StaticTwin:
    """The editor at `settings`, as HTML. ValueError for settings that `view_model` refuses."""
    return StaticTwin(render(view_model(settings)))


def render(view: Mapping[str, Any]) -> str:
    """HTML of what `view_model` returned."""
    rows = [[row["name"], *(row[column]["exact"] for column in _COLUMNS)] for row in view["rows"]]
    title = dict(view["bugs"])[view["bug"]]
    return (
        paragraph(f"Code: {title}. {view['about']}")
        + table(_HEADINGS, rows)
        + paragraph(f"A draft is kept with probability {view['acceptance']['exact']}. {view['verdict']}")
        + paragraph(view["decision"]["say"])
        + paragraph(sample_line(view["sampled"]))
    )


def sample_line(found: Mapping[str, Any]) -> str:
    """The samples in words; empty when there are none."""
    if not found["n"]:
        return ""
    p_value = found["p_value"]
    tested = "too few for a chi-square test" if p_value is None else f"chi-square test against p: p-value {p_value:.2g}"
    return f"{found['n']} rounds drawn: frequencies at TV {found['tv']:.4f} from p, {tested}."
