"""Cost curves as a picture: seconds of a pass by rows, minimum and median."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specdec_core.cost_curve import CostCurve
from specdec_labs.impossible import curve_problem, findings_of, steps
from specdec_labs.plots.page import COLOURS, SYMBOLS, figure_page

if TYPE_CHECKING:
    import plotly.graph_objects as go


def curves_figure(curves: Sequence[CostCurve]) -> "go.Figure":
    """A line a curve and context through the medians, open marks at the minima; rows on a logarithmic axis."""
    import plotly.graph_objects as go

    figure = go.Figure()
    place = 0
    for curve in curves:
        for level, held in enumerate(curve.contexts):
            label = f"{curve.model}, {held} cached ({curve.kind})"
            colour, symbol = COLOURS[place % len(COLOURS)], SYMBOLS[place % len(SYMBOLS)]
            marker = {"symbol": symbol, "size": 8, "color": colour}
            for name, grid, mode, mark in (
                ("median", curve.median_s, "lines+markers", marker),
                ("minimum", curve.min_s, "markers", {**marker, "symbol": f"{symbol}-open"}),
            ):
                figure.add_trace(
                    go.Scatter(
                        x=curve.rows,
                        y=[1e3 * seconds for seconds in grid[level]],
                        mode=mode,
                        name=f"{label}: {name}",
                        legendgroup=label,
                        marker=mark,
                        line={"color": colour},
                        hovertemplate="%{x} rows: %{y:.2f} ms<extra></extra>",
                    )
                )
            place += 1
    figure.update_xaxes(title_text="rows in one pass", type="log", dtick=0.30102999566)
    figure.update_yaxes(title_text="milliseconds", rangemode="tozero")
    figure.update_layout(template="plotly_white", height=480, margin={"l": 60, "r": 20, "t": 30, "b": 50})
    return figure


def curves_html(curves: Sequence[CostCurve]) -> str:
    """A page of its own with the figure and its numbers; see `figure_page`."""
    facts = curves[0].hardware
    machine = ", ".join(f"{name} {facts[name]}" for name in ("processor", "threads", "dtype", "date") if name in facts)
    headings = ("model", "cached", "rows", "min ms", "median ms", "in steps")
    rows = [
        (curve.model, f"{held}", f"{count}", f"{1e3 * low:.2f}", f"{1e3 * middle:.2f}", steps(curve, count, held))
        for curve in curves
        for held, least, median in zip(curve.contexts, curve.min_s, curve.median_s)
        for count, low, middle in zip(curve.rows, least, median)
    ]
    refused = findings_of({curve.model: curve_problem(curve) for curve in curves})
    title = f"Cost curves: {', '.join(curve.model for curve in curves)}"
    sentences = [*(f"Refused: {each}." for each in refused), machine]
    return figure_page(title, sentences, curves_figure(curves), headings, rows, png_name="curve")
