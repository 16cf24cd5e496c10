"""A figure as a picture file, drawn by an installed Chrome or Chromium through kaleido."""

from pathlib import Path
from typing import TYPE_CHECKING

from specdec_core.whole_file import write_whole_bytes

if TYPE_CHECKING:
    import plotly.graph_objects as go

_WIDTH, _HEIGHT, _SCALE = 1100, 520, 2


def png_of(figure: "go.Figure") -> bytes:
    """The figure as PNG at twice its size, of 1,100 by 520 points where its layout names none.

    Raises:
        ValueError: kaleido or a browser is missing, or the browser could not draw.
    """
    try:
        import kaleido  # noqa: F401  (plotly loads it by name)
    except ModuleNotFoundError as error:
        raise ValueError("a PNG needs kaleido: pip install -c constraints.txt -e '.[labs]', or use --html") from error
    layout = figure.layout
    try:
        return figure.to_image(
            format="png", width=layout.width or _WIDTH, height=layout.height or _HEIGHT, scale=_SCALE
        )
    except Exception as error:  # the browser's start-up has many ways to fail, each with a class of its own
        raise ValueError(
            f"no PNG could be drawn ({type(error).__name__}: {str(error).strip()[:200]}); it takes an installed Chrome "
            "or Chromium, named by the variable BROWSER_PATH where it is not found - or use --html, whose camera "
            "button saves one"
        ) from error


def check_png(path: Path | None) -> None:
    """ValueError, before anything is measured, unless a PNG can be drawn; without a path nothing is looked for."""
    if path is not None:
        import plotly.graph_objects as go

        png_of(go.Figure())


def write_png(path: Path, figure: "go.Figure") -> None:
    """Writes the picture whole or not at all. ValueError as `png_of`."""
    write_whole_bytes(path, png_of(figure))
