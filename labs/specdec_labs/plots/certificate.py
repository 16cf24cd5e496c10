"""A certificate as a picture: how far each test's law is from the target's, and how much that means."""

from html import escape
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_core.certificate import Certificate
from specdec_core.whole_file import write_whole
from specdec_labs.plots.page import notebook_template

if TYPE_CHECKING:
    import plotly.graph_objects as go

_OBSERVED, _NOISE, _BOUND, _BAD = "#0072b2", "#767676", "#e69f00", "#d55e00"
DECIDING = "mean of all, at its largest"
_BEYOND = 1.35
"""Where evidence too large for a number is drawn, in units of the largest that is one."""

_LEAST = 1e-300
"""Drawn in place of an e-value that is too small for a number."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 75rem; padding: 0 1rem; }
.numbers { overflow-x: auto; margin-top: 1.5rem; }
table { border-collapse: collapse; } th, td { padding: .15rem .9rem; text-align: right; }
td { white-space: nowrap; }
th { border-bottom: 1px solid; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
"""


def certificate_view(certificate: Certificate) -> dict[str, Any]:
    """The numbers of the figure: one row a test, and what they are to be compared with.

    Each row has label, cells, tv (observed), noise_tv (a perfect sampler's mean at this n), tv_upper, p_value or
    e_value, evidence (-log10 p, or log10 e in sequential mode; infinite for p = 0) and is_beyond: this test alone
    rejects. `limit` is where evidence has to reach for that. In sequential mode the mean of the tests decides:
    `deciding` is a row of its own, with the largest mean e-value so far, and its `limit` is that of 1 / level.
    """
    sequential = certificate.mode == "sequential"
    share = certificate.level / len(certificate.tests)
    limit = -math.log10(share)
    rows = []
    for test in certificate.tests:
        strength = _log10(test.e_value or _LEAST) if sequential else -_log10(test.fit.p_value)
        rows.append(
            {
                "label": test.label,
                "cells": test.cells,
                "tv": test.fit.tv,
                "noise_tv": test.noise_tv,
                "tv_upper": test.fit.tv_upper,
                "e_value" if sequential else "p_value": test.e_value if sequential else test.fit.p_value,
                "evidence": strength,
                "is_beyond": strength >= limit,
            }
        )
    return {
        "rows": rows,
        "limit": limit,
        "deciding": _deciding(certificate) if sequential else None,
        "bias": certificate.bias,
        "mode": certificate.mode,
        "sentence": certificate.sentence,
        "reading": certificate.reading,
        "verdict": certificate.verdict,
        "passed": certificate.passed,
    }


def _deciding(certificate: Certificate) -> dict[str, Any]:
    evidence = _log10(certificate.e_value or _LEAST)
    return {
        "label": DECIDING,
        "e_value": certificate.e_value,
        "evidence": evidence,
        "limit": -math.log10(certificate.level),
        "is_beyond": certificate.rejected,
    }


def certificate_figure(certificate: Certificate) -> "go.Figure":
    """Left: distances by test. Right: the evidence against the law, and how much of it would reject."""
    from plotly.subplots import make_subplots

    view = certificate_view(certificate)
    rows = view["rows"]
    labels = [row["label"] for row in rows]
    order = labels if view["deciding"] is None else [DECIDING, *labels]
    figure = make_subplots(rows=1, cols=2, shared_yaxes=True, column_widths=[0.58, 0.42], horizontal_spacing=0.04)
    for trace in _distances(rows, labels):
        figure.add_trace(trace, row=1, col=1)
    for trace in _evidence(view, labels):
        figure.add_trace(trace, row=1, col=2)
    limit, rejecting = view["limit"], "p of one test that rejects"
    if view["deciding"] is not None:
        limit, rejecting = view["deciding"]["limit"], "mean e that rejects"
    for axis, place, text in (
        ("x", view["bias"], f"stated distance {view['bias']:g}"),
        ("x2", limit, rejecting),
    ):
        figure.add_shape(
            type="line", x0=place, x1=place, y0=0, y1=1, xref=axis, yref="paper", line={"dash": "dash", "width": 1.5}
        )
        figure.add_annotation(x=place, y=1, xref=axis, yref="paper", yanchor="bottom", showarrow=False, text=text)
    # a range of our own: the automatic one leaves a gap that grows with the number of tests
    figure.update_yaxes(
        categoryorder="array",
        categoryarray=order[::-1],
        range=[-0.7, len(order) - 0.3],
        automargin=True,
        tickmode="linear",
    )
    figure.update_traces(cliponaxis=False)
    figure.update_xaxes(title_text="TV distance over the cells", rangemode="tozero", row=1, col=1)
    scale = "log10 e" if view["mode"] == "sequential" else "-log10 p"
    figure.update_xaxes(title_text=scale, rangemode="tozero", row=1, col=2)
    figure.update_layout(
        template=notebook_template(),
        height=172 + 24 * len(order),
        margin={"l": 10, "r": 30, "t": 10, "b": 10},
        # right above the names of the dashed lines: the margin grows with the rows the legend takes, and no further
        legend={"orientation": "h", "y": 1 + 22 / (50 + 24 * len(order)), "yanchor": "bottom"},
    )
    return figure


def _distances(rows: list[dict[str, Any]], labels: list[str]) -> list["go.Scatter"]:
    import plotly.graph_objects as go

    looks = (
        (
            "noise_tv",
            "a perfect sampler, on average",
            {"symbol": "line-ns", "size": 12, "line": {"width": 2, "color": _NOISE}},
        ),
        ("tv", "observed", {"symbol": "circle", "size": 9, "color": _OBSERVED}),
        ("tv_upper", "upper bound", {"symbol": "triangle-left-open", "size": 9, "color": _BOUND, "line": {"width": 2}}),
    )
    return [
        go.Scatter(
            x=[row[name] for row in rows],
            y=labels,
            mode="markers",
            name=title,
            marker=marker,
            customdata=[[row["cells"]] for row in rows],
            hovertemplate="%{y}, %{customdata[0]} cells: %{x:.4f} " + title + "<extra></extra>",
        )
        for name, title, marker in looks
    ]


def _evidence(view: dict[str, Any], labels: list[str]) -> list["go.Scatter"]:
    import plotly.graph_objects as go

    rows = view["rows"]
    name = "e_value" if view["mode"] == "sequential" else "p_value"
    finite = [row["evidence"] for row in rows if math.isfinite(row["evidence"])]
    looks = [
        (False, "evidence against the law", {"symbol": "diamond", "size": 9, "color": _OBSERVED}),
        (True, "rejects alone", {"symbol": "x", "size": 10, "color": _BAD}),
    ]
    found = [
        (title, marker, [(row, label) for row, label in zip(rows, labels) if row["is_beyond"] is is_beyond])
        for is_beyond, title, marker in looks
    ]
    if (mean := view["deciding"]) is not None:
        star = {"symbol": "star", "size": 12, "color": _BAD if mean["is_beyond"] else _OBSERVED}
        found.append(("mean of all tests, which decides", star, [(mean, mean["label"])]))
        finite += [mean["evidence"]] if math.isfinite(mean["evidence"]) else []
    beyond = _BEYOND * max([view["limit"], *finite])
    traces = []
    for title, marker, shown in found:
        traces.append(
            go.Scatter(
                x=[row["evidence"] if math.isfinite(row["evidence"]) else beyond for row, _ in shown],
                y=[label for _, label in shown],
                mode="markers+text",
                text=["" if math.isfinite(row["evidence"]) else f"{name[0]} = {row[name]:g}" for row, _ in shown],
                textposition="middle left",
                name=title,
                marker=marker,
                customdata=[[row[name]] for row, _ in shown],
                hovertemplate="%{y}: " + name[0] + " = %{customdata[0]:.3g}<extra></extra>",
            )
        )
    return traces


def certificate_html(certificate: Certificate) -> str:
    """A page of its own with the verdict, the figure and the numbers as a table; it needs no network.

    The drawing library is part of it (about 5 MB). Without scripts the verdict and the table remain.
    """
    figure = certificate_figure(certificate).update_layout(template="plotly_white")
    title = f"Certificate: {certificate.verdict}"
    drawing = figure.to_html(
        full_html=False, include_plotlyjs=True, config={"displayModeBar": False, "responsive": True}
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n<p>{escape(certificate.sentence)}</p>\n"
        f"<p>{escape(certificate.reading)}{escape(_decision(certificate))}</p>\n{drawing}\n{_table(certificate)}\n</body></html>\n"
    )


def _decision(certificate: Certificate) -> str:
    if certificate.e_value is None:
        return ""
    return (
        f" What decides is the mean of the tests' e-values: {certificate.e_value:.3g} at its largest, and "
        f"{1 / certificate.level:g} (1 / level) rejects."
    )


def _table(certificate: Certificate) -> str:
    view = certificate_view(certificate)
    name = "e_value" if view["mode"] == "sequential" else "p_value"
    headings = ("joint law of", "cells", name[0], "TV", "TV of a perfect sampler", "TV at most")
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    body = "\n".join(
        f"<tr><td>{escape(row['label'])}</td><td>{row['cells']}</td><td>{row[name]:.2g}</td><td>{row['tv']:.4f}</td>"
        f"<td>{row['noise_tv']:.4f}</td><td>{row['tv_upper']:.4f}</td></tr>"
        for row in view["rows"]
    )
    return f'<div class="numbers"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def write_certificate_html(path: Path, certificate: Certificate) -> None:
    """Writes the page in one move.

    Raises:
        ValueError: a path that cannot be written.
    """
    write_whole(path, certificate_html(certificate))


def _log10(value: float) -> float:
    if value == 0:
        return -math.inf
    return math.log10(value) if math.isfinite(value) else math.inf
