"""A run as a web page: tables always, plots where plotly is installed, PNG files where kaleido is too."""

from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from specdec_core.whole_file import write_whole
from specdec_labs.bench_kernels.plan import ATTENTION, BLOCK, CHAIN, HEADLINES, Case
from specdec_labs.bench_kernels.report import cells, wrong_checks

_COLOURS = {
    "triton": "#0072b2", "torch": "#595959", "torch.compile": "#e69f00", "vllm": "#009e73", "vllm-v1": "#56b4e9",
    "flashinfer": "#cc79a7", "flashinfer+softmax": "#d55e00",
}  # fmt: skip
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; } th, td { padding: .15rem .7rem; text-align: left; }
th { border-bottom: 1px solid; }
"""


def write_page(found: dict[str, Any], path: Path) -> list[Path]:
    """The files written: the page, and a PNG of each plot where that is possible. ValueError as `write_whole`."""
    figures = plots(found)
    body = "".join(_as_html(figure, place) for place, figure in enumerate(figures.values()))
    if not figures:
        body = f"<p>No plots: {_why_no_plots(found)}.</p>"
    notes = (
        f"{escape(found['command'])}<br>{escape(str(found.get('hardware', '')))}<br>{escape(str(found['versions']))}"
    )
    bad = wrong_checks(found)
    checks = [
        (
            check["operator"],
            check["arm"],
            "right" if check.get("passed") else "WRONG" if check in bad else "",
            _what(check),
        )
        for check in found["checks"]
    ]
    times = [(row["label"], row["arm"], *cells(row)) for row in found["times"]]
    text = (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(found['title'])}</title>"
        f"<style>{_STYLE}</style><h1>{escape(found['title'])}</h1><p>{notes}</p>{body}"
        f"<h2>Checks</h2>{_table(('operator', 'arm', 'verdict', 'what'), checks)}<h2>Times</h2>"
        f"{_table(('case', 'arm', 'graph us (min / median)', 'single us', 'MB at least', 'share', ''), times)}"
        f"<h2>Left out</h2><p>{escape('; '.join(found['left_out']) or 'nothing')}</p></html>\n"
    )
    write_whole(path, text)
    return [path, *_png_files(figures, path)]


def _what(check: dict[str, Any]) -> str:
    return check.get("error") or check.get("unavailable") or check.get("note", "")


def plots(found: dict[str, Any]) -> dict[str, Any]:
    """Figures by name; none without plotly or without times."""
    timed = [row for row in found["times"] if time_of(row) is not None]
    if find_spec("plotly") is None or not timed:
        return {}
    figures = {"headlines": _headlines(timed)}
    for operator, base in (("verify_chain", CHAIN), ("verify_block", BLOCK)):
        for axis in ("requests", "vocab", "nodes"):
            figures[f"{operator}-{axis}"] = _sweep(timed, base, axis)
    figures["tree_attention-prefix"] = _sweep(timed, ATTENTION, "prefix")
    return {name: figure for name, figure in figures.items() if figure is not None}


def time_of(row: dict[str, Any]) -> float | None:
    """Median microseconds in a graph, else of single calls; None where nothing was timed."""
    return row.get("graph_median_us") or row.get("median_us")


def _headlines(rows: list[dict[str, Any]]) -> Any:
    import plotly.graph_objects as go

    labels = [case.label for case in HEADLINES]
    figure = go.Figure()
    for arm, colour in _COLOURS.items():
        own = {row["label"]: time_of(row) for row in rows if row["arm"] == arm and row["label"] in labels}
        if own:
            figure.add_bar(name=arm, x=[*own], y=[*own.values()], marker_color=colour)
    figure.update_layout(title="headline cases", yaxis={"type": "log", "title": "microseconds (median)"}, height=520)
    return figure


def _sweep(rows: list[dict[str, Any]], base: Case, axis: str) -> Any:
    """Time over one size, the others as in the headline case; None with fewer than two points."""
    import plotly.graph_objects as go

    figure, most = go.Figure(), 0
    for arm, colour in _COLOURS.items():
        points = sorted(
            (row["case"][axis], time_of(row))
            for row in rows
            if row["arm"] == arm and _differs_in(row["case"], base) <= {axis}
        )
        most = max(most, len(points))
        if points:
            x, y = zip(*points)
            figure.add_scatter(name=arm, x=x, y=y, mode="lines+markers", line={"color": colour})
    title = f"{base.label}, over {axis}"
    figure.update_layout(
        title=title, xaxis={"type": "log", "title": axis}, yaxis={"type": "log", "title": "microseconds"}
    )
    return figure if most > 1 else None


def _differs_in(case: dict[str, Any], base: Case) -> set[str]:
    return {
        name
        for name in ("operator", "variant", "requests", "nodes", "vocab", "prefix")
        if case[name] != getattr(base, name)
    }


def _why_no_plots(found: dict[str, Any]) -> str:
    if found["dry_run"]:
        return "a dry run has no times"
    return "plotly is not installed; draw them elsewhere with --redraw" if find_spec("plotly") is None else "no times"


def _as_html(figure: Any, place: int) -> str:
    return figure.to_html(full_html=False, include_plotlyjs=place == 0)


def _png_files(figures: dict[str, Any], path: Path) -> list[Path]:
    if find_spec("kaleido") is None:
        return []
    files = []
    for name, figure in figures.items():
        file = path.with_name(f"{path.stem}-{name}.png")
        try:
            figure.write_image(file)
        except Exception:  # kaleido wants a browser, which a GPU machine need not have; the page has the plots
            break
        files.append(file)
    return files


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
