"""Plain and speculative decoding on one clock, drawn from the seconds that traces recorded."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from specdec_core.trace import Round, Trace
from specdec_labs.impossible import Speedup
from specdec_labs.plots.page import notebook_template

if TYPE_CHECKING:
    import plotly.graph_objects as go

KINDS = ("draft", "verify", "host")
PREFILL = "prefill"
_LOOK = {
    PREFILL: ("#cc79a7", "."),
    "draft": ("#e69f00", "/"),
    "verify": ("#0072b2", ""),
    "host": ("#8c8c8c", "x"),
}
_NAMES = {
    PREFILL: "drafter's own prompt pass",
    "draft": "drafting",
    "verify": "target's forward pass",
    "host": "everything else",
}
_DASHES = ("solid", "dash", "dot", "dashdot")
_LINE_COLOURS = ("#8c8c8c", "#009e73", "#d55e00", "#cc79a7")


def race_view(lanes: Mapping[str, Sequence[Trace]]) -> dict[str, Any]:
    """One lane a name, from repeated runs of the same request; the first lane is the baseline.

    The clock starts after the target's prefill, which all lanes share; a drafter's own prompt pass stands before the
    first round, outside the rates. Tokens count what rounds emitted. Each lane has name, runs, tokens_per_s with
    lowest, median and highest over its runs, draft_prefill_s, speedup (median seconds per token of the baseline over
    this lane's; None where it cannot be, and then problem says why; shown in words) and, of its median run, segments
    [kind, start_s, end_s, round] and progress [seconds, tokens].

    Raises:
        ValueError: no lane, a lane without runs, or a run that emitted nothing after its prefill.
    """
    if not lanes:
        raise ValueError("lanes is empty; expected at least one name with its traces")
    drawn = [_lane(name, traces) for name, traces in lanes.items()]
    baseline = drawn[0]["tokens_per_s"]["median"]
    plain = next(iter(lanes.values()))
    # over a baseline that drafts itself there is no bound
    is_plain = not any(round_.draft_tokens for trace in plain for round_ in trace.rounds)
    for lane, traces in zip(drawn, lanes.values()):
        ratio = lane["tokens_per_s"]["median"] / baseline
        judged = Speedup.of_traces(plain, traces, ratio) if is_plain and lane is not drawn[0] else None
        lane["speedup"] = ratio if judged is None else judged.possible
        lane["problem"] = "" if judged is None else judged.problem
        lane["shown"] = f"{ratio:.2f}" if judged is None else judged.shown.removesuffix("x")
    return {"lanes": drawn}


def race_figure(view: Mapping[str, Any]) -> "go.Figure":
    """The lanes as bars over the emitted tokens as lines, both against seconds after the target's prefill."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.45, 0.55], vertical_spacing=0.08)
    names = [lane["name"] for lane in view["lanes"]]
    own = [PREFILL] if any(lane["draft_prefill_s"] for lane in view["lanes"]) else []
    for kind in (*own, *KINDS):
        figure.add_trace(_bars(view["lanes"], kind), row=1, col=1)
    for index, lane in enumerate(view["lanes"]):
        figure.add_trace(_progress(lane, index), row=2, col=1)
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], row=1, col=1)
    figure.update_yaxes(title_text="tokens emitted", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(title_text="seconds after the target's prefill", rangemode="tozero", row=2, col=1)
    figure.update_layout(
        barmode="overlay",
        template=notebook_template(),
        height=260 + 60 * len(names),
        margin={"l": 10, "r": 30, "t": 10, "b": 10},
        legend={"orientation": "h", "y": 1.04, "yanchor": "bottom"},
        showlegend=True,
    )
    return figure


def race_text(view: Mapping[str, Any]) -> str:
    """A line a lane: tokens per second, the range over its runs, and the ratio to the baseline.

    A ratio that cannot be is not given: what is wrong with the measurement stands there.
    """
    lines, first = [], view["lanes"][0]
    for lane in view["lanes"]:
        rate = lane["tokens_per_s"]
        spread = f" (lowest {rate['lowest']:.1f}, highest {rate['highest']:.1f}, {lane['runs']} runs)"
        ratio = "" if lane is first or lane["problem"] else f", {lane['shown']} times {first['name']}"
        own = f"; its own prompt pass took {lane['draft_prefill_s']:.3f} s more" if lane["draft_prefill_s"] else ""
        refused = f"; REFUSED against {first['name']}: {lane['problem']}" if lane["problem"] else ""
        lines.append(
            f"{lane['name']}: {rate['median']:.1f} tokens/s{ratio}{spread if lane['runs'] > 1 else ''}{own}{refused}"
        )
    return "\n".join(lines)


def _seconds(round_: Round) -> float:
    return round_.t_draft_s + round_.t_verify_s + round_.t_host_s


def _rate(name: str, trace: Trace) -> float:
    emitted = sum(len(round_.emitted) for round_ in trace.rounds)
    seconds = sum(_seconds(round_) for round_ in trace.rounds)
    if emitted == 0 or seconds <= 0:
        raise ValueError(
            f"lane {name!r} has a run with {emitted} tokens in {seconds} s after its prefill; "
            "expected at least one round with its times"
        )
    return emitted / seconds


def _lane(name: str, traces: Sequence[Trace]) -> dict[str, Any]:
    if not traces:
        raise ValueError(f"lane {name!r} has no runs; expected at least one trace")
    ranked = sorted(traces, key=lambda trace: _rate(name, trace))
    rates = [_rate(name, trace) for trace in ranked]
    segments: list[tuple[str, float, float, int]] = []
    progress: list[tuple[float, int]] = [(0.0, 0)]
    # the lower middle run, so that what is drawn is one that happened
    run, tokens = ranked[(len(ranked) - 1) // 2], 0
    clock = run.t_draft_prefill_s
    if clock > 0:
        segments.append((PREFILL, 0.0, clock, 0))
        progress.append((clock, 0))
    for round_ in run.rounds:
        for kind, seconds in zip(KINDS, (round_.t_draft_s, round_.t_verify_s, round_.t_host_s)):
            segments.append((kind, clock, clock + seconds, round_.index + 1))
            clock += seconds
        tokens += len(round_.emitted)
        progress.append((clock, tokens))
    return {
        "name": name,
        "runs": len(ranked),
        "draft_prefill_s": run.t_draft_prefill_s,
        "tokens_per_s": {"lowest": rates[0], "median": median(rates), "highest": rates[-1]},
        "segments": segments,
        "progress": progress,
    }


def _bars(lanes: Sequence[Mapping[str, Any]], kind: str) -> "go.Bar":
    import plotly.graph_objects as go

    colour, pattern = _LOOK[kind]
    found = [
        (lane["name"], start, end, round_)
        for lane in lanes
        for entry, start, end, round_ in lane["segments"]
        if entry == kind and end > start
    ]
    return go.Bar(
        orientation="h",
        name=_NAMES[kind],
        y=[name for name, *_ in found],
        base=[start for _, start, _, _ in found],
        x=[end - start for _, start, end, _ in found],
        customdata=[[round_] for *_, round_ in found],
        hovertemplate="%{y}, round %{customdata[0]}: %{x:.4f} s " + _NAMES[kind] + "<extra></extra>",
        marker={"color": colour, "pattern": {"shape": pattern}, "line": {"width": 0.5, "color": "#808080"}},
    )


def _progress(lane: Mapping[str, Any], index: int) -> "go.Scatter":
    import plotly.graph_objects as go

    rate = lane["tokens_per_s"]["median"]
    return go.Scatter(
        x=[seconds for seconds, _ in lane["progress"]],
        y=[tokens for _, tokens in lane["progress"]],
        name=f"{lane['name']}: {rate:.1f} tokens/s",
        mode="lines",
        line={"shape": "hv", "dash": _DASHES[index % 4], "color": _LINE_COLOURS[index % 4], "width": 2},
        hovertemplate=lane["name"] + ": %{y} tokens after %{x:.3f} s<extra></extra>",
    )
