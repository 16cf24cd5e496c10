"""The theatre without a script: text with the origin of every token, a legend, and the first rounds as a table.

Every meaning is a character as well as a style, since readers such as GitHub drop styles.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from specdec_core.trace import Trace
from specdec_labs.widgets.theatre.numbers import short
from specdec_labs.widgets.theatre.view_model import provenance, token_text, view_model

MAX_ROUNDS = 6
MARKS = {"accepted": "✓", "recovered": "↺", "bonus": "★", "plain": "·", "prefill": "·"}
_STYLES = {
    "accepted": "border-bottom: 2px solid #009e73",
    "recovered": "border-bottom: 2px dashed #d55e00",
    "bonus": "border-bottom: 4px double #0072b2",
    "plain": "border-bottom: 2px dotted #888",
    "prefill": "border-bottom: 2px dotted #888",
}
_LEGEND = {
    "accepted": "accepted draft",
    "recovered": "recovered: redrawn after a refusal",
    "bonus": "bonus: all drafts kept",
    "plain": "plain or prefill: no draft",
}


@dataclass(frozen=True, slots=True)
class StaticTheatre:
    """Ready HTML that a notebook shows as it is."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def static_theatre(trace: Trace, rounds: int = MAX_ROUNDS) -> StaticTheatre:
    """The whole text with its origins and the decisions of the first `rounds` rounds. ValueError for a tree trace."""
    return StaticTheatre(render(view_model(trace), rounds))


def provenance_html(trace: Trace) -> str:
    """The generated text, each token marked with where it came from, and the legend."""
    tokens = provenance(trace)
    return _text(tokens, {token: token_text(trace, token) for token, _, _ in tokens})


def render(view: Mapping[str, Any], rounds: int = MAX_ROUNDS) -> str:
    """HTML of what `view_model` returned."""
    texts = {int(token): text for token, text in view["texts"].items()}
    totals = view["counters"]
    mean = totals["mean_acceptance_length"]
    summary = (
        f"<p>{totals['rounds']} rounds, {totals['accepted']} of {totals['drafted']} drafts accepted, "
        f"mean acceptance length {'–' if mean is None else f'{mean:.2f}'}.</p>"
    )
    return _text(view["tokens"], texts) + summary + _decisions(view["steps"], texts, rounds)


def _text(tokens: Iterable[tuple[int, str, int | None]], texts: Mapping[int, str]) -> str:
    spans = []
    for token, origin, round_ in tokens:
        title = origin if round_ is None else f"{origin}, round {round_}"
        spans.append(
            f'<span title="{title}" style="{_STYLES[origin]}">{escape(texts[token])}<sup>{MARKS[origin]}</sup></span>'
        )
    text = " ".join(spans) or "Nothing was generated."
    legend = " &nbsp; ".join(f"<b>{MARKS[origin]}</b> {meaning}" for origin, meaning in _LEGEND.items())
    return f'<p style="line-height: 1.9">{text}</p><p><small>{legend}</small></p>'


def _decisions(steps: Iterable[Mapping[str, Any]], texts: Mapping[int, str], rounds: int) -> str:
    steps = list(steps)
    rows = [_row(step, texts) for step in steps if step["round"] is not None and step["round"] <= rounds]
    if not rows:
        return ""
    total = max(step["round"] or 0 for step in steps)
    note = f"<p><small>First {rounds} of {total} rounds.</small></p>" if total > rounds else ""
    head = "".join(
        f'<th style="text-align: left">{name}</th>'
        for name in ("step", "token", "p", "q", "min(1, p/q)", "u", "what happened")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{note}"


def _row(step: Mapping[str, Any], texts: Mapping[int, str]) -> str:
    coin = step["coin"] or {}
    numbers = [_number(coin.get(name)) for name in ("p", "q", "ratio", "u")]
    token = _token(step, texts)
    cells = [escape(step["label"]), escape(token), *numbers, escape(step["say"])]
    return "<tr>" + "".join(f'<td style="text-align: left">{cell}</td>' for cell in cells) + "</tr>"


def _token(step: Mapping[str, Any], texts: Mapping[int, str]) -> str:
    if step["kind"] == "judge":
        token, state = step["drafts"][step["draft"]]
        return f"{texts[token]} {'✓' if state == 'accepted' else '✗'}"
    if step["token"] is None:
        return ""
    return f"{texts[step['token']]} {MARKS[step['kind']]}"


def _number(value: float | None) -> str:
    return "" if value is None else short(value)
