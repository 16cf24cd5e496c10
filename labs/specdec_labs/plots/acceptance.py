"""Acceptance as pictures: how far drafts get, how many tokens a round gives, and what trees were expected to give."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_core.prompts import HUMANEVAL, MT_BENCH
from specdec_core.whole_file import write_whole
from specdec_labs.acceptance.result import Row, rows_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"),
    *("#7f6000", "#8c510a", "#595959", "#1b7837", "#762a83", "#b2182b", "#4393c3", "#fb6a4a"),
)
_GROUPS = {
    "all": ("#000000", "circle"),
    MT_BENCH: ("#0072b2", "triangle-up"),
    HUMANEVAL: ("#d55e00", "square"),
    "own": ("#009e73", "diamond"),
}
_SYMBOLS = {"chain": "circle", "full": "square", "medusa": "triangle-up", "sequoia": "diamond", "eagle-2": "star"}
_DEPTH = 5


def acceptance_figure(result: Mapping[str, Any]) -> "go.Figure":
    """Above: tokens a round with intervals, a line a drafter. Below: acceptance by position. T = 0 left, 1 right."""
    from plotly.subplots import make_subplots

    titles = ("tokens a round, T = 0", "tokens a round, T = 1", "kept if tested, T = 0", "kept if tested, T = 1")
    figure = make_subplots(
        rows=2, cols=2, subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.03, vertical_spacing=0.1
    )
    rows = rows_of(result, tuple(_GROUPS))
    colours = {entry["name"]: _COLOURS[i % len(_COLOURS)] for i, entry in enumerate(result["families"])}
    for column, temperature in enumerate((0.0, 1.0), start=1):
        for row in rows:
            if row.temperature == temperature and row.group == "all":
                figure.add_trace(_by_position(row, colours[row.family], shown=column == 1), row=2, col=column)
        for group in _GROUPS:
            own = [row for row in rows if (row.temperature, row.group) == (temperature, group) and row.low is not None]
            figure.add_trace(_lengths(own, group, shown=column == 1), row=1, col=column)
    order = [entry["title"] for entry in result["families"]][::-1]
    figure.update_yaxes(categoryorder="array", categoryarray=order, row=1)
    figure.update_xaxes(range=[0.9, None], row=1)
    figure.update_yaxes(range=[0, 1], row=2)
    figure.update_xaxes(title_text="position in the draft", dtick=1, row=2)
    figure.update_layout(
        template="plotly_white",
        height=1000,
        margin={"t": 50},
        legend={"y": 1.0, "yanchor": "top"},
        legend2={"y": 0.45, "yanchor": "top"},
    )
    return figure


def _lengths(rows: list[Row], group: str, *, shown: bool) -> "go.Scatter":
    import plotly.graph_objects as go

    half = [row.mean - row.low for row in rows if row.mean is not None and row.low is not None]
    colour, symbol = _GROUPS[group]
    return go.Scatter(
        x=[row.mean for row in rows],
        y=[row.title for row in rows],
        error_x={"type": "data", "array": half, "width": 3},
        mode="markers",
        marker={"color": colour, "symbol": symbol, "size": 9},
        name=group.replace("_", "-"),
        legendgroup=group,
        showlegend=shown,
        hovertemplate="%{y}: %{x:.2f} tokens a round<extra>" + group.replace("_", "-") + "</extra>",
    )


def _by_position(row: Row, colour: str, *, shown: bool) -> "go.Scatter":
    import plotly.graph_objects as go

    rates = row.counts.conditional[:_DEPTH]
    return go.Scatter(
        x=list(range(1, len(rates) + 1)),
        y=list(rates),
        mode="lines+markers",
        line={"color": colour},
        name=row.title,
        legend="legend2",
        legendgroup=row.family,
        showlegend=shown,
        hovertemplate="position %{x}: %{y:.2f}<extra>" + row.title + "</extra>",
    )


def trees_figure(trees: Mapping[str, Any]) -> "go.Figure":
    """Expected against measured tokens a round: a colour a drafter, a sign a shape; on the line they agree."""
    import plotly.graph_objects as go

    figure = go.Figure()
    entries = [shape for drafter in trees["drafters"] for shape in drafter["shapes"]]
    ends = [1.0, 1.05 * max(max(shape["expected"], shape["high"]) for shape in entries)]
    dashes = {"dash": "dash", "color": "#595959"}
    figure.add_trace(go.Scatter(x=ends, y=ends, mode="lines", line=dashes, name="as expected"))
    for drafter, colour in zip(trees["drafters"], _COLOURS):
        for shape in drafter["shapes"]:
            figure.add_trace(
                go.Scatter(
                    x=[shape["expected"]],
                    y=[shape["measured"]],
                    error_y={"type": "data", "array": [shape["high"] - shape["measured"]], "width": 4},
                    mode="markers",
                    marker={"color": colour, "symbol": _SYMBOLS[shape["kind"]], "size": 12},
                    name=f"{drafter['title']}: {shape['kind']}",
                )
            )
    figure.update_xaxes(title_text=f"tokens a round expected from one acceptance vector, {trees['nodes']} nodes")
    figure.update_yaxes(title_text="tokens a round measured")
    figure.update_layout(template="plotly_white", height=560, margin={"t": 30})
    return figure


def write_acceptance_html(path: Path, result: Mapping[str, Any]) -> None:
    """Both figures as a page of its own (about 5 MB: the drawing library is part of it), written in one move.

    Raises:
        ValueError: a path that cannot be written.
    """
    config = {"displayModeBar": False, "responsive": True}
    parts = [acceptance_figure(result).to_html(full_html=False, include_plotlyjs=True, config=config)]
    if result["trees"] is not None:
        parts.append("<h2>Trees of equal size</h2>")
        parts.append(trees_figure(result["trees"]).to_html(full_html=False, include_plotlyjs=False, config=config))
    head = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Acceptance</title></head>\n<body>'
    write_whole(path, f"{head}<h1>Acceptance</h1>\n{''.join(parts)}\n</body></html>\n")
