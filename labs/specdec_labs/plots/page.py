"""A page of its own around a figure: title, sentences, drawing, numbers. It needs no network."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star")
_INK, _GRID = "#767676", "rgba(128, 128, 128, 0.35)"
"""At least 4 to 1 on white and on the black of JupyterLab's dark theme."""
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 75rem; padding: 0 1rem; }
.numbers { overflow-x: auto; margin-top: 1.5rem; }
table { border-collapse: collapse; } th, td { padding: .15rem .9rem; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
"""


def notebook_template() -> "go.layout.Template":
    """The look of a figure in a notebook: no ground of its own, and grey ink that both themes carry."""
    import plotly.graph_objects as go
    import plotly.io

    axis = {"gridcolor": _GRID, "linecolor": _GRID, "zerolinecolor": _GRID}
    clear = "rgba(0, 0, 0, 0)"
    own = {
        "paper_bgcolor": clear,
        "plot_bgcolor": clear,
        "font": {"color": _INK},
        "colorway": COLOURS,
        "xaxis": axis,
        "yaxis": axis,
        "shapedefaults": {"line": {"color": _INK}},
        "modebar": {"bgcolor": clear, "color": _GRID, "activecolor": _INK},
    }
    return go.layout.Template(plotly.io.templates["plotly_white"]).update(layout=own)


def figure_page(
    title: str,
    sentences: Sequence[str],
    figure: "go.Figure",
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    png_name: str,
) -> str:
    """The HTML. The drawing library is part of it (about 5 MB); the camera in its corner saves `png_name`.png.

    Without scripts the sentences and the table remain.
    """
    drawing = figure.to_html(
        full_html=False,
        include_plotlyjs=True,
        config={"displaylogo": False, "responsive": True, "toImageButtonOptions": {"filename": png_name, "scale": 2}},
    )
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    text = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n{text}\n{drawing}\n"
        f'<div class="numbers"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>\n'
        "</body></html>\n"
    )
