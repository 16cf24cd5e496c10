"""Prices of rounds: the textbook's answers, break-even against a root finder, maps for the explorer."""

import pytest
from scipy.optimize import brentq

from specdec_core.cost_curve import CostCurve
from specdec_core.costs import (
    StepCosts,
    best_gamma_of,
    break_even_alpha,
    curve_costs,
    formula_costs,
    hardware,
    model_shape,
    roofline_costs,
    speedup_map,
)
from specdec_core.speed_formulas import best_gamma, expected_tokens, implied_alpha, speedup


def test_the_textbook_example():
    costs = formula_costs(0.05)
    assert costs.of_round(5) == pytest.approx(1.25)
    assert costs.speedup(expected_tokens(0.8, 5), 5) == pytest.approx(2.951, abs=5e-4)


def test_best_gamma_at_alpha_nine_tenths():
    gamma, gain = best_gamma_of(formula_costs(0.05), 0.9)
    assert gamma == 13
    assert gain == pytest.approx(4.6741, abs=5e-5)
    for alpha in (0.0, 0.3, 0.55, 0.8, 0.97):
        for cost in (0.02, 0.1, 0.4):
            assert best_gamma_of(formula_costs(cost), alpha)[0] == best_gamma(alpha, cost, largest=32)


@pytest.mark.parametrize("draft_cost", [0.01, 0.05, 0.1143, 0.3, 0.7])
@pytest.mark.parametrize("gamma", [1, 2, 5, 13, 32])
def test_break_even_alpha_against_a_root_finder(draft_cost, gamma):
    costs = formula_costs(draft_cost)
    found = break_even_alpha(costs, gamma)
    root = brentq(lambda alpha: speedup(alpha, gamma, draft_cost) - 1, 0, 1, xtol=1e-13)
    assert found == pytest.approx(root, abs=1e-9)
    if gamma == 1:
        assert found == pytest.approx(draft_cost, abs=1e-12)


def test_break_even_with_dear_verification():
    def costs(verify: float) -> StepCosts:
        return StepCosts((0.0, 0.1, 0.2), (1.0, verify, verify), (0.0, 0.05, 0.05), "test")

    root = brentq(lambda alpha: expected_tokens(alpha, 2) - 1.75, 0, 1, xtol=1e-13)
    assert break_even_alpha(costs(1.5), 2) == pytest.approx(root, abs=1e-9)
    # a round of two drafts can emit three tokens: dearer than that never pays
    assert break_even_alpha(costs(2.75), 2) == pytest.approx(1.0, abs=1e-9)
    assert break_even_alpha(costs(2.76), 2) is None
    # cheaper than a step: gains with nothing accepted
    assert break_even_alpha(costs(0.7), 2) == pytest.approx(0.0, abs=1e-9)


def test_implied_alpha_inverts_expected_tokens():
    for gamma in (1, 4, 16):
        for alpha in (0.0, 0.2, 0.68, 0.9, 1.0):
            assert implied_alpha(float(expected_tokens(alpha, gamma)), gamma) == pytest.approx(alpha, abs=1e-9)
    assert implied_alpha(0.9, 4) is None
    assert implied_alpha(5.1, 4) is None
    with pytest.raises(ValueError, match="gamma is 0"):
        implied_alpha(1.0, 0)


def test_prices_from_curves():
    target = CostCurve("t", "measured", (1, 2, 4), (0,), ((10.0, 12.0, 16.0),), ((9.0, 11.0, 15.0),))
    draft = CostCurve("d", "measured", (1,), (0,), ((2.0,),), ((2.0,),))
    costs = curve_costs(target, draft, 0, host_s=1.0, draft_host_s=0.5)
    assert costs.largest_gamma == 3
    assert costs.verify == pytest.approx((10 / 11, 12 / 11, 14 / 11, 16 / 11))
    assert costs.draft == pytest.approx((0, 2.5 / 11, 5 / 11, 7.5 / 11))
    assert costs.of_round(3) == pytest.approx((16 + 7.5 + 1) / 11)
    assert costs.of_round(0) == pytest.approx(1)
    assert "measured" in costs.origin
    free = curve_costs(target, None, 0)
    assert free.draft == (0, 0, 0, 0)


def test_prices_from_a_roofline_change_past_the_ridge():
    target, draft, device = model_shape("dense-70b"), model_shape("dense-8b"), hardware("h100-sxm")
    small = roofline_costs(target, draft, device, largest_gamma=5)
    assert small.verify == pytest.approx((1.0,) * 6)
    assert small.draft[5] == pytest.approx(5 * 8 / 70)
    large = roofline_costs(target, draft, device, batch=128, largest_gamma=5)
    assert large.verify[5] == pytest.approx(128 * 6 / 295.343, rel=1e-4)
    assert "modelled" in large.origin


def test_the_map_agrees_with_its_parts():
    costs = formula_costs(0.05, 16)
    alphas = (0.0, 0.5, 0.8, 0.9)
    shown = speedup_map(costs, alphas)
    assert shown.gammas == tuple(range(1, 17))
    assert shown.values[2][4] == pytest.approx(2.951, abs=5e-4)
    # by hand at 0.5: 1.875 / 1.15 = 1.630 at K = 3, 1.9375 / 1.2 = 1.615 at K = 4
    assert shown.best_gamma == (0, 3, 8, 13)
    assert shown.best_speedup[0] == 1.0
    for gamma, alpha in zip(shown.gammas, shown.break_even):
        assert costs.speedup(expected_tokens(alpha, gamma), gamma) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StepCosts((), (), (), "x"), "entries"),
        (lambda: StepCosts((0.0,), (0.0,), (0.0,), "x"), r"verify\[0\] is 0.0"),
        (lambda: formula_costs(-0.1), "draft_cost is -0.1"),
        (lambda: formula_costs(0.1, 4).of_round(5), "gamma is 5"),
        (lambda: break_even_alpha(formula_costs(0.1), 0), "gamma is 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
