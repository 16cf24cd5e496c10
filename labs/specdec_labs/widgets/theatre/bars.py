"""Rows of the bar chart of one slot, from what the trace recorded of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specdec_core.trace import SlotTop
from specdec_labs.widgets.theatre.numbers import rounded

MAX_ROWS = 8
NEGLIGIBLE = 1e-6

Law = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class _Series:
    """What is known of one law: listed probabilities, and the most an unlisted token can have (None: no idea)."""

    name: str
    known: dict[int, float]
    bound: float | None

    def value(self, token: int) -> float | None:
        """The probability to six digits; None when only the bound is known."""
        if token in self.known:
            return rounded(self.known[token])
        return 0.0 if self.bound == 0.0 else None

    def rest(self, tokens: Sequence[int]) -> float | None:
        """Mass of all tokens but these; None when the law was not recorded."""
        if self.bound is None:
            return None
        left = 1.0 - sum(self.known.get(token, 0.0) for token in tokens)
        return rounded(left) if left > NEGLIGIBLE else 0.0


def pair_bars(slot: SlotTop | None, drafted: int, p: float, q: float | None) -> dict[str, Any]:
    """p beside q for the likeliest tokens of a slot; the drafted token always has a row.

    `q` is None for a deterministic proposal, whose law is one-hot. Without a recorded slot the drafted token
    is the only row.
    """
    target = _series("p", slot.target if slot else None, drafted, p)
    if q is None:
        draft = _Series("q", {drafted: 1.0}, 0.0)
    else:
        draft = _series("q", slot.draft if slot else None, drafted, q)
    return _bars((target, draft), drafted)


def target_bars(slot: SlotTop | None, chosen: int | None) -> dict[str, Any] | None:
    """p alone, for a token drawn from the target's own law; None when the slot was not recorded."""
    return _bars((_series("p", slot.target),), chosen) if slot else None


def residual_bars(slot: SlotTop | None, chosen: int | None) -> dict[str, Any] | None:
    """The law a refusal redraws from; None when it was not recorded."""
    return _bars((_series("residual", slot.residual),), chosen) if slot and slot.residual else None


def _series(name: str, law: Law | None, token: int | None = None, probability: float = 0.0) -> _Series:
    known = dict(law or ())
    bound = _bound(known) if law else None
    if token is not None:
        known.setdefault(token, probability)
    return _Series(name, known, bound)


def _bound(listed: dict[int, float]) -> float:
    """No unlisted token is likelier than the least listed one, nor than the mass left over."""
    bound = min(*listed.values(), 1.0 - sum(listed.values()))
    return rounded(bound) if bound > NEGLIGIBLE else 0.0


def _bars(series: Sequence[_Series], marked: int | None) -> dict[str, Any]:
    """Rows [token, value in each series], largest first, with the mass of everything else in `rest`."""
    weight: dict[int, float] = {}
    for entry in series:
        for token, value in entry.known.items():
            weight[token] = max(value, weight.get(token, 0.0))
    shown = sorted((token for token in weight if weight[token] > 0), key=lambda token: (-weight[token], token))
    shown = shown[:MAX_ROWS]
    if marked is not None and marked not in shown:
        shown[MAX_ROWS - 1 :] = [marked]
    shown.sort(key=lambda token: (*(-entry.known.get(token, 0.0) for entry in series), token))
    return {
        "series": [entry.name for entry in series],
        "rows": [[token, *(entry.value(token) for entry in series)] for token in shown],
        "rest": [entry.rest(shown) for entry in series],
        "bound": [entry.bound for entry in series],
        "marked": marked,
    }
