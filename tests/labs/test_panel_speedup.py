"""The speed-up explorer's view model: the formula's values, break-even against a root finder, the link."""

import json
from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import brentq

from specdec_core.cost_curve import CostCurve
from specdec_core.hardware_presets import THIS_MACHINE, hardware, hardware_names
from specdec_core.speed_formulas import best_gamma, expected_tokens, speedup
from specdec_labs.seeds.h100_table import SPECULATIVE
from specdec_labs.widgets.roofline import view_model as roofline_model
from specdec_labs.widgets.speedup import (
    SEED_POINTS,
    measured_costs,
    measured_points,
    settings_from_link,
    static_speedup,
    view_model,
)
from specdec_labs.widgets.speedup.costs import prices_of
from specdec_labs.widgets.speedup.settings import DEFAULTS


def test_the_seeds_example() -> None:
    here = view_model({"alpha": 0.8, "gamma": 5, "c": 0.05})["here"]
    assert round(here["speedup"], 3) == 2.951
    assert round(here["tokens"], 3) == 3.689 and here["cost"] == 1.25
    assert "emits 3.69 tokens and costs 1.25 plain steps: speed-up 2.95, faster" in here["say"]


def test_the_best_window_at_alpha_nine_tenths() -> None:
    view = view_model({"alpha": 0.9, "gamma": 13, "c": 0.05})
    assert view["here"]["best_gamma"] == best_gamma(0.9, 0.05) == 13
    assert round(view["here"]["best_speedup"], 4) == 4.6741
    assert view["ridge"][view["alphas"].index(0.9)] == 13


@pytest.mark.parametrize("c", [0.0, 0.05, 0.2, 0.7])
def test_every_cell_is_the_formula(c: float) -> None:
    view = view_model({"c": c})
    for gamma, row in zip(view["gammas"], view["cells"]):
        for alpha, value in zip(view["alphas"], row):
            assert value == pytest.approx(speedup(alpha, gamma, c), abs=6e-5)
    for alpha, best in zip(view["alphas"], view["ridge"]):
        assert best == best_gamma(alpha, c, largest=24) or speedup(alpha, best, c) == pytest.approx(
            speedup(alpha, best_gamma(alpha, c, largest=24), c), abs=1e-4
        )


def test_where_length_costs_nothing_the_ridge_only_rises_and_no_window_is_called_best() -> None:
    # of rounded cells the first of equal ones went up and down along the map
    view = view_model({"c": 0.0, "alpha": 0.5})
    ridge = view["ridge"]
    assert ridge == sorted(ridge) and ridge[view["alphas"].index(0.3)] == view["gammas"][-1]
    assert "never worse: at most 2.00" in view["here"]["say"] and "best window" not in view["here"]["say"]
    assert "The best window here is" in view_model({"c": 0.05})["here"]["say"]


def missing(alpha: float, gamma: int, wanted: float) -> float:
    return float(expected_tokens(alpha, gamma)) - wanted


@pytest.mark.parametrize("settings", [{"c": 0.05}, {"c": 0.3}, {"cost": "roofline", "batch": 32}])
def test_break_even_and_every_contour_against_a_root_finder(settings: dict[str, Any]) -> None:
    view = view_model(settings)
    costs = prices_of({**DEFAULTS, **settings}).costs
    found = 0
    for level, alphas in view["contours"].items():
        for gamma, alpha in zip(view["gammas"], alphas):
            wanted = float(level) * costs.of_round(gamma)
            if alpha is None:
                assert wanted > gamma + 1
                continue
            if wanted <= 1:
                assert alpha == 0.0
                continue
            root = brentq(missing, 0.0, 1.0, args=(gamma, wanted), xtol=1e-14)
            assert alpha == pytest.approx(root, abs=1e-9)
            found += 1
    assert found > 20
    here = view["here"]
    assert here["break_even_alpha"] == view["contours"]["1"][view["gammas"].index(here["gamma"])]


def test_a_draft_as_dear_as_the_target_pays_nowhere() -> None:
    view = view_model({"c": 1.0, "gamma": 3})
    assert view["here"]["break_even_alpha"] == pytest.approx(1.0)
    assert set(view["ridge"]) == {0} and max(map(max, view["cells"])) <= 1
    assert "SLOWER" in view["here"]["say"] and "no window gains" in view["here"]["say"]


def test_the_roofline_loses_its_gain_as_the_batch_grows() -> None:
    speeds = [view_model({"cost": "roofline", "batch": batch})["here"]["speedup"] for batch in (1, 16, 64, 256)]
    assert speeds == sorted(speeds, reverse=True) and speeds[0] > 1 > speeds[-1]


def test_a_model_that_does_not_fit_is_named() -> None:
    assert "does not fit" in view_model({"cost": "roofline", "devices": 1})["warning"]
    assert view_model({"cost": "roofline", "devices": 8})["warning"] == ""


@pytest.mark.skipif(THIS_MACHINE not in hardware_names(), reason="no machine was measured in this clone")
@pytest.mark.parametrize("model", [view_model, roofline_model])
def test_the_measured_machine_is_shown_though_it_stands_alone(model: Any) -> None:
    shared = {} if model is roofline_model else {"cost": "roofline", "drafter": "free"}
    settings = {**shared, "hardware": THIS_MACHINE, "target": "smollm2-135m"}
    alone, eight = model({**settings, "devices": 1}), model({**settings, "devices": 8})
    assert alone["warning"] == "" and "no link to other devices: shown for 1, not 8" in eight["warning"]
    for name in ("cells", "here") if model is view_model else ("passes", "curve", "ridge_rows"):
        assert eight[name] == alone[name]
    title = dict(alone["choices"]["hardware"])[THIS_MACHINE]
    assert title.endswith("(measured)") and hardware(THIS_MACHINE).name in title


def test_the_seeds_points_are_quoted_and_judged_by_the_map() -> None:
    view = view_model({"points": SEED_POINTS})
    assert [point["speedup"] for point in view["points"]] == [row.speedup for row in SPECULATIVE] == [2.25, 2.87, 4.12]
    assert {point["origin"] for point in view["points"]} == {"quoted"}
    first = view["points"][0]
    assert first["modelled"] == pytest.approx(speedup(0.72, 5, 0.05), abs=1e-4)
    assert first["ratio"] == pytest.approx(2.25 / speedup(0.72, 5, 0.05), abs=1e-3)


def test_a_measured_point_is_drawn_as_it_was_given() -> None:
    point = {"label": "ngram", "alpha": 0.5, "gamma": 4, "speedup": 1.2}
    assert view_model({"points": [point]})["points"][0].items() >= {**point, "origin": "measured"}.items()


def test_a_link_carries_the_settings_and_nothing_else() -> None:
    settings = {"alpha": 0.62, "gamma": 7, "cost": "roofline", "batch": 16, "drafter": "free"}
    view = view_model({**settings, "points": SEED_POINTS})
    found = settings_from_link("http://localhost/lab#" + view["link"])
    assert found == {**{name: DEFAULTS[name] for name in found}, **settings}
    assert "points" not in found and view_model(found)["here"] == view["here"]


def straight_curve(rows: int = 9) -> CostCurve:
    """A pass over k tokens takes 10 + 2 (k - 1) milliseconds, whatever is cached."""
    line = tuple(0.010 + 0.002 * (k - 1) for k in range(1, rows + 1))
    return CostCurve("m", "measured", tuple(range(1, rows + 1)), (64, 256), (line, line), (line, line))


def at_measured_costs(**settings: Any) -> dict[str, Any]:
    return {"cost": "measured", "measured": measured_costs(straight_curve()), **settings}


def test_a_measured_curve_prices_the_map_and_nothing_beyond_its_rows() -> None:
    view = view_model(at_measured_costs(alpha=0.5, gamma=12))
    assert view["gammas"] == list(range(1, 9)) and len(view["cells"]) == 8 and len(view["slice"]) == 9
    for gamma, row in zip(view["gammas"], view["cells"]):
        assert row[25] == pytest.approx(float(expected_tokens(0.5, gamma)) / (1 + 0.2 * gamma), abs=6e-5)
    assert view["here"]["gamma"] == 8 and "up to 8: shown for that, not 12" in view["warning"]
    assert ["measured", "measured costs"] in view["choices"]["cost"]
    assert "measured" not in dict(view_model()["choices"]["cost"])
    assert "▼" in static_speedup(at_measured_costs()).html


def test_measured_points_are_judged_by_the_costs_of_their_own_machine() -> None:
    mine = {"label": "a", "alpha": 0.5, "gamma": 4, "speedup": 1.0, "drafter": "free"}
    points = [SEED_POINTS[0], mine, {**mine, "drafter": "eagle"}, {**mine, "gamma": 16}]
    for cost, by in (("measured", [None, "measured costs", None, None]), ("ratio", ["the map", "measured costs"])):
        found = view_model(at_measured_costs(cost=cost, points=points))["points"]
        assert [point["judged_by"] for point in found][: len(by)] == by
        # 1.8 plain steps for a pass over five tokens
        assert found[1]["modelled"] == pytest.approx(float(expected_tokens(0.5, 4)) / 1.8, abs=1e-4)
    assert "another machine" in static_speedup(at_measured_costs(points=points)).html


def test_both_reports_of_the_bench_give_costs_and_points_that_agree(root: Path) -> None:
    folder = root / "docs" / "results"
    report, curve = (json.loads((folder / f"{name}-smollm2.json").read_text("utf-8")) for name in ("speedup", "curve"))
    rows = {(row["drafter"], row["gamma"]): row for row in report["break_even"]}
    for source in (report, curve):
        costs = measured_costs(source)
        drafters = {row["drafter"] for row in report["break_even"]}
        assert drafters <= set(costs["drafters"]) and report["hardware"]["processor"] in costs["says"]
        view = view_model({"cost": "measured", "measured": costs, "points": measured_points(report)})
        errors = sorted(abs(point["ratio"] - 1) for point in view["points"])
        assert len(errors) == len(report["rows"]) and errors[len(errors) // 2] < 0.15
    for drafter, gamma in rows:
        parts = measured_costs(report)["drafters"][drafter]
        found = sum(parts[name][gamma] for name in ("draft", "verify", "host"))
        assert found == pytest.approx(rows[drafter, gamma]["needed"], rel=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: view_model({"alpha": 1.5}), "alpha is 1.5"),
        (lambda: view_model({"gamma": 2.5}), "gamma is 2.5; expected a whole number"),
        (lambda: view_model({"gamma": True}), "gamma is True"),
        (lambda: view_model({"hardware": "abacus"}), "expected one of h100-sxm"),
        (lambda: view_model({"gama": 3}), "gama is not a setting"),
        (lambda: view_model({"points": [{"alpha": 0.5, "gamma": 4}]}), r"points\[0\] lacks speedup"),
        (lambda: view_model({"points": [{"alpha": 2, "gamma": 4, "speedup": 1}]}), r"points\[0\]"),
        (
            lambda: view_model({"points": [{"alpha": 0.5, "gamma": 4, "speedup": 1, "origin": "dreamt"}]}),
            "origin 'dreamt'",
        ),
        (lambda: view_model({"cost": "measured"}), "pass costs="),
        (lambda: view_model(at_measured_costs(measured_drafter="medusa")), "has free"),
        (lambda: measured_costs({"schema": "specdec.trace"}), "costs is no CostCurve"),
        (lambda: settings_from_link("http://localhost/lab"), "'speedup\\?' in it"),
        (lambda: settings_from_link("speedup?alpha=high"), "alpha='high'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_view_is_plain_data_and_its_twin_marks_what_is_slower() -> None:
    view = view_model({"points": SEED_POINTS})
    assert json.loads(json.dumps(view)) == view
    html = static_speedup({"alpha": 0.8, "points": SEED_POINTS}).html
    assert "speed-up 2.95," in html and "▼" in html and "EAGLE tree" in html


def test_measured_points_are_the_rows_of_a_speedup_report() -> None:
    row = {"drafter": "ngram", "task": "mixed", "temperature": 0.0, "alpha": 0.43, "gamma": 4, "speedup": 1.21}
    report = {"schema": "specdec.speedup", "rows": [row, {**row, "gamma": 2, "alpha": None}]}
    (point,) = measured_points(json.loads(json.dumps(report)))
    assert (point["alpha"], point["gamma"], point["speedup"]) == (0.43, 4, 1.21)
    assert point["label"] == "ngram, mixed, T = 0" and point["origin"] == "measured"
    with pytest.raises(ValueError, match="specdec bench speedup --json"):
        measured_points({"schema": "specdec.trace"})


@pytest.mark.parametrize("name", ["speedup-smollm2", "speedup-tiny"])
def test_the_points_equal_the_committed_measurement(root: Path, name: str) -> None:
    report = json.loads((root / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    judged = [row for row in report["rows"] if row["alpha"] is not None]
    points = view_model({"points": measured_points(report)})["points"]
    assert len(points) == len(judged) > 5
    for point, row in zip(points, judged):
        assert [point[key] for key in ("alpha", "gamma", "speedup")] == [
            row[key] for key in ("alpha", "gamma", "speedup")
        ]
        assert point["origin"] == "measured" and row["drafter"] in point["label"]
