"""Speed-up curves as a picture: measured and predicted by gamma, with the line where nothing is gained."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from specdec_labs.bench.report import SpeedupReport
from specdec_labs.bench.rows import SpeedupRow
from specdec_labs.impossible import needed
from specdec_labs.plots.page import COLOURS, SYMBOLS, figure_page

if TYPE_CHECKING:
    import plotly.graph_objects as go

_OCTAVE = 0.30102999566


def speedup_view(report: SpeedupReport) -> dict[str, Any]:
    """The numbers of the figure: for each drafter its series, one a task and temperature, sorted by gamma.

    A series has label, gamma, measured, low, high (None without an interval), tokens_per_round, and predicted: two
    lists, each half's prediction from the other half. They are not averaged: the mean of both has seen all prompts.
    A figure that cannot be is None; `shown`, `interval` and `shown_predicted` have the words for a table.
    `needed` are the tokens a round needs to break even, by drafter and gamma.
    """
    drafters: dict[str, dict[str, list[SpeedupRow]]] = {}
    for row in report.rows:
        label = f"{row.cell.task}, T = {row.cell.temperature:g}"
        drafters.setdefault(row.arm.drafter, {}).setdefault(label, []).append(row)
    return {
        "drafters": {
            name: [_series(report, label, rows) for label, rows in series.items()] for name, series in drafters.items()
        },
        "needed": {
            name: {entry.arm.gamma: entry.needed for entry in report.break_even if entry.arm.drafter == name}
            for name in drafters
        },
    }


def _series(report: SpeedupReport, label: str, rows: list[SpeedupRow]) -> dict[str, Any]:
    rows = sorted(rows, key=lambda row: row.arm.gamma)
    judged, predicted = [report.judged(row) for row in rows], [report.predictions(row) for row in rows]
    return {
        "label": label,
        "gamma": [row.arm.gamma for row in rows],
        "measured": [each.possible for each in judged],
        "low": [None if each.problem else each.low for each in judged],
        "high": [None if each.problem else each.high for each in judged],
        "predicted": [[each.possible for each in half] for half in zip(*predicted)],
        "tokens_per_round": [row.tokens_per_round for row in rows],
        "shown": [each.shown for each in judged],
        "interval": [each.interval for each in judged],
        "shown_predicted": [" ".join(each.shown for each in halves) for halves in predicted],
    }


def speedup_figure(view: Mapping[str, Any]) -> "go.Figure":
    """A panel a drafter: marks with intervals are measured, dashed lines predicted, the line at 1 is plain decoding."""
    from plotly.subplots import make_subplots

    names = list(view["drafters"])
    figure = make_subplots(rows=1, cols=len(names), shared_yaxes=True, subplot_titles=names, horizontal_spacing=0.05)
    labels = list(dict.fromkeys(series["label"] for each in view["drafters"].values() for series in each))
    shown: set[str] = set()
    for column, name in enumerate(names, start=1):
        for series in view["drafters"][name]:
            place = labels.index(series["label"])
            for trace in _traces(series, place, first=series["label"] not in shown):
                figure.add_trace(trace, row=1, col=column)
            shown.add(series["label"])
        axis = "x" if column == 1 else f"x{column}"
        figure.add_shape(
            type="line", x0=0, x1=1, xref=f"{axis} domain", y0=1, y1=1, line={"width": 2, "color": "#595959"}
        )
        figure.update_xaxes(title_text="gamma", type="log", dtick=_OCTAVE, row=1, col=column)
    figure.add_annotation(
        x=0, xref="paper", y=1, yref="y", xanchor="left", yanchor="bottom", showarrow=False, text="break even"
    )
    figure.update_yaxes(title_text="speed-up over plain decoding", rangemode="tozero", row=1, col=1)
    figure.update_layout(template="plotly_white", height=460, margin={"l": 60, "r": 20, "t": 60, "b": 50})
    return figure


def _traces(series: Mapping[str, Any], place: int, *, first: bool) -> Iterator["go.Scatter"]:
    import plotly.graph_objects as go

    colour, symbol = COLOURS[place % len(COLOURS)], SYMBOLS[place % len(SYMBOLS)]
    common = {"x": series["gamma"], "legendgroup": series["label"]}
    yield go.Scatter(
        **common,
        showlegend=first,
        y=series["measured"],
        mode="markers",
        name=f"{series['label']}, measured",
        marker={"symbol": symbol, "size": 9, "color": colour},
        error_y=_spread(series),
        customdata=series["tokens_per_round"],
        hovertemplate="gamma %{x}: %{y:.2f}x measured, %{customdata:.2f} tokens a round<extra></extra>",
    )
    for half, values in enumerate(series["predicted"]):
        yield go.Scatter(
            **common,
            showlegend=first and half == 0,
            y=values,
            mode="lines",
            name=f"{series['label']}, predicted from either half",
            line={"dash": "dash", "color": colour, "width": 1.5},
            hovertemplate="gamma %{x}: %{y:.2f}x predicted from half of the prompts<extra></extra>",
        )


def _spread(series: Mapping[str, Any]) -> dict[str, Any] | None:
    ends = list(zip(series["low"], series["measured"], series["high"]))
    if all(low is None for low, _, _ in ends):
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [0 if high is None else max(0, high - middle) for _, middle, high in ends],
        "arrayminus": [0 if low is None else max(0, middle - low) for low, middle, _ in ends],
        "thickness": 1.5,
    }


def speedup_html(report: SpeedupReport) -> str:
    """A page of its own with the figure and its numbers; see `figure_page`."""
    view = speedup_view(report)
    facts = report.curve.hardware
    machine = (
        f"{facts.get('threads')} thread(s) on {facts.get('processor')}, {facts.get('cores')} cores, "
        f"torch {facts.get('torch')}, {facts.get('date')}"
    )
    headings = ("drafter, task", "gamma", "measured", "90 % of prompts", "predicted", "tokens/round", "break even at")
    return figure_page(
        f"Speed-up, {report.pair}: measured and predicted",
        [*(f"Refused: {finding}." for finding in report.findings), report.last_line, machine],
        speedup_figure(view),
        headings,
        _rows(view, report),
        png_name="speedup",
    )


def _rows(view: Mapping[str, Any], report: SpeedupReport) -> Iterator[tuple[str, ...]]:
    for name, every in view["drafters"].items():
        for series in every:
            for place, gamma in enumerate(series["gamma"]):
                value = view["needed"][name].get(gamma)
                yield (
                    f"{name}, {series['label']}",
                    f"{gamma}",
                    series["shown"][place],
                    series["interval"][place],
                    series["shown_predicted"][place],
                    f"{series['tokens_per_round'][place]:.2f}",
                    "-" if value is None else needed(value, report.curve),
                )
