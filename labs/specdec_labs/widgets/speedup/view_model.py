"""The speed-up explorer's numbers: a map of alpha and gamma, where it breaks even, and one place on it."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from specdec_core.speed_formulas import expected_accepted, expected_tokens, implied_alpha
from specdec_core.step_costs import StepCosts, best_gamma_of, break_even_alpha
from specdec_labs.widgets.speedup.costs import GAMMAS, choices, measured_prices, prices_of
from specdec_labs.widgets.speedup.points import checked_points, refusals
from specdec_labs.widgets.speedup.settings import LINKED, checked_settings

ALPHAS = tuple(step / 50 for step in range(51))
LEVELS = (1.0, 1.5, 2.0, 3.0, 4.0)


def view_model(settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the explorer shows for `settings` (missing ones as in `DEFAULTS`), ready for `json.dumps`.

    `cells[g][a]` is the speed-up at `gammas[g]`, `alphas[a]`; `contours` has for each level the alpha that reaches it
    at every gamma (None: no alpha does); `ridge` the best gamma at every alpha (0: plain decoding is fastest); `slice`
    the speed-up by gamma at the chosen alpha; `here` the chosen place, at the largest gamma with a price where the
    chosen one has none. `points` have `modelled` at the measured costs of their own drafter where those are given,
    else at the map's (`judged_by` says which; None: this map prices another machine), and `ratio` to it. A
    measured point that cannot be is left out, and `warning` says why.

    Raises:
        ValueError: settings out of range, an unknown preset, measured costs that are missing, or a point without its
            numbers.
    """
    chosen = checked_settings(settings or {})
    priced = prices_of(chosen)
    costs = priced.costs
    gammas = GAMMAS[: costs.largest_gamma]
    gamma = min(chosen["gamma"], gammas[-1])
    short = f"Measured for windows up to {gammas[-1]}: shown for that, not {chosen['gamma']}."
    points = checked_points(chosen["points"])
    return {
        "version": 1,
        "settings": {name: chosen[name] for name in LINKED},
        "choices": choices(chosen["measured"]),
        "alphas": list(ALPHAS),
        "gammas": list(gammas),
        **_map(costs),
        "slice": [round(_speed(chosen["alpha"], window, costs), 4) for window in (0, *gammas)],
        "here": _here(chosen["alpha"], gamma, costs),
        "costs": priced.says,
        "warning": " ".join(filter(None, (priced.warning if gamma == chosen["gamma"] else short, refusals(points)))),
        "points": [_judged(point, costs, chosen) for point in points if not point["problem"]],
        "link": "speedup?" + urlencode({name: chosen[name] for name in LINKED}),
        "problem": "",
    }


@lru_cache(maxsize=64)
def _map(costs: StepCosts) -> dict[str, Any]:
    """What depends on the prices alone: it stays as it is while alpha and gamma are dragged."""
    gammas = GAMMAS[: costs.largest_gamma]
    exact = [[tokens / costs.of_round(gamma) for tokens in line] for gamma, line in zip(gammas, _tokens())]
    cells = [[round(value, 4) for value in line] for line in exact]
    contours = {f"{level:g}": [_alpha_reaching(level, gamma, costs) for gamma in gammas] for level in LEVELS}
    return {"cells": cells, "contours": contours, "ridge": _ridge(exact)}


@lru_cache(maxsize=1)
def _tokens() -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(expected_tokens(alpha, gamma)) for alpha in ALPHAS) for gamma in GAMMAS)


def _alpha_reaching(level: float, gamma: int, costs: StepCosts) -> float | None:
    """The alpha with this speed-up; 0 where even refused drafts reach it, which takes a pass cheaper than a step."""
    if level == 1.0:
        return break_even_alpha(costs, gamma)
    return implied_alpha(max(1.0, level * costs.of_round(gamma)), gamma)


def _ridge(cells: Sequence[Sequence[float]]) -> list[int]:
    ridge = []
    for column in zip(*cells):
        top = max(column)
        ridge.append(GAMMAS[column.index(top)] if top > 1 else 0)
    return ridge


def _speed(alpha: float, gamma: int, costs: StepCosts) -> float:
    return 1.0 if gamma == 0 else costs.speedup(float(expected_tokens(alpha, gamma)), gamma)


def _here(alpha: float, gamma: int, costs: StepCosts) -> dict[str, Any]:
    best, most = best_gamma_of(costs, alpha)
    found = {
        "alpha": alpha,
        "gamma": gamma,
        "accepted": float(expected_accepted(alpha, gamma)),
        "tokens": float(expected_tokens(alpha, gamma)),
        "cost": costs.of_round(gamma),
        "speedup": _speed(alpha, gamma, costs),
        "best_gamma": best,
        "best_speedup": most,
        "break_even_alpha": break_even_alpha(costs, gamma),
    }
    # with nothing to pay for length the best window is where doubles stop growing, which is no advice
    is_free = best > 0 and costs.of_round(best) == costs.of_round(1)
    return {**found, "say": _sentence(found, is_free)}


def _sentence(found: Mapping[str, Any], is_free: bool) -> str:
    speedup, even = found["speedup"], found["break_even_alpha"]
    verdict = "faster than plain decoding" if speedup > 1 else "as fast as plain decoding"
    if speedup < 1:
        verdict = "SLOWER than plain decoding"
    pays = "at no alpha does it pay" if even is None else f"it pays above alpha {even:.2f}"
    best = (
        f"The best window here is {found['best_gamma']}, with {found['best_speedup']:.2f}."
        if found["best_gamma"]
        else "At this alpha no window gains anything."
    )
    if is_free:
        best = f"A longer window costs nothing here, so it is never worse: at most {found['best_speedup']:.2f}."
    return (
        f"With alpha {found['alpha']:g} and gamma {found['gamma']} a round emits {found['tokens']:.2f} tokens and "
        f"costs {found['cost']:.2f} plain steps: speed-up {speedup:.2f}, {verdict}; {pays}. {best}"
    )


def _judged(point: Mapping[str, Any], costs: StepCosts, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """A point with the speed-up that is expected of it, and the ratio of the two."""
    own = measured_prices(chosen["measured"], point["drafter"]) if point["origin"] == "measured" else None
    is_foreign = own is None and chosen["cost"] == "measured"
    prices = own or costs
    if is_foreign or point["gamma"] > prices.largest_gamma:
        return {**point, "modelled": None, "ratio": None, "judged_by": None}
    modelled = _speed(point["alpha"], point["gamma"], prices)
    by = "the map" if own is None else "measured costs"
    return {**point, "modelled": round(modelled, 4), "ratio": round(point["speedup"] / modelled, 4), "judged_by": by}
