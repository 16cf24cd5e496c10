"""What a run came to: a page with its curves, and the numbers behind them."""

import json
from pathlib import Path
from typing import Any

from specdec_core.hardware import describe_hardware
from specdec_core.whole_file import write_whole
from specdec_labs.train.loop import Outcome

_SMOOTHING = 0.9


def write_report(folder: Path, title: str, description: dict[str, Any], outcome: Outcome) -> Path:
    """`report.json` and `report.html` in the folder; the path of the page."""
    numbers = {
        "title": title,
        "description": description,
        "seconds_of_this_call": outcome.seconds,
        "hardware": describe_hardware(),
        "loss": outcome.curve,
        "evaluations": outcome.evaluations,
    }
    write_whole(folder / "report.json", json.dumps(numbers, indent=1) + "\n")
    page = folder / "report.html"
    write_whole(page, curves(title, outcome).to_html(include_plotlyjs=True))
    return page


def curves(title: str, outcome: Outcome) -> Any:
    """Loss by step, smoothed too, and below it every figure of the evaluations that is not a loss."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, subplot_titles=("loss", "held-out figures"))
    steps = list(range(1, len(outcome.curve) + 1))
    figure.add_trace(go.Scatter(x=steps, y=outcome.curve, name="loss", opacity=0.35), row=1, col=1)
    figure.add_trace(go.Scatter(x=steps, y=smoothed(outcome.curve), name="loss, smoothed"), row=1, col=1)
    names = [name for name in (outcome.evaluations[-1] if outcome.evaluations else {}) if name != "step"]
    at = [entry["step"] for entry in outcome.evaluations]
    for name in names:
        row = 1 if name.startswith("loss") else 2
        values = [entry[name] for entry in outcome.evaluations]
        figure.add_trace(go.Scatter(x=at, y=values, name=name, mode="lines+markers"), row=row, col=1)
    figure.update_layout(title=title, height=720)
    figure.update_xaxes(title_text="step", row=2, col=1)
    return figure


def smoothed(values: list[float]) -> list[float]:
    """Running mean with weight 0.1 on the newest value, corrected for its start."""
    result, mean, weight = [], 0.0, 0.0
    for value in values:
        mean, weight = _SMOOTHING * mean + (1 - _SMOOTHING) * value, _SMOOTHING * weight + (1 - _SMOOTHING)
        result.append(mean / weight)
    return result
