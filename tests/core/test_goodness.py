"""The statistics of the certificate against simulation and against hand-worked values."""

import math

import numpy as np
import pytest

from specdec_core.goodness import fit, power, samples_needed


def test_chi_square_by_hand():
    result = fit([60, 40], [0.5, 0.5], level=0.01)
    assert result.chi_square == pytest.approx(4.0)
    assert result.degrees == 1
    assert result.p_value == pytest.approx(0.0455, abs=1e-4)
    assert result.tv == pytest.approx(0.1)
    assert result.tv_upper == pytest.approx(0.1 + 0.5 * math.sqrt(1 / 100) + math.sqrt(math.log(100) / 200))


def test_a_count_where_the_law_has_none_is_fatal():
    assert fit([5, 5, 1], [0.5, 0.5, 0.0], level=0.01).p_value == 0.0
    assert fit([5, 5, 0], [0.5, 0.5, 0.0], level=0.01).degrees == 1


@pytest.mark.parametrize(("counts", "law"), [([1], [1.0]), ([1, 2], [0.3, 0.3, 0.4]), ([0, 0], [0.5, 0.5])])
def test_unusable_counts_are_refused(counts, law):
    with pytest.raises(ValueError, match="counts"):
        fit(counts, law, level=0.01)


def test_p_values_of_the_right_law_are_uniform():
    rng = np.random.default_rng(1)
    law = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    p_values = [fit(rng.multinomial(2000, law).tolist(), law.tolist(), 0.01).p_value for _ in range(2000)]
    # 2000 draws: each decile has mean 200 and standard deviation 13.4
    deciles = np.histogram(p_values, bins=10, range=(0, 1))[0]
    assert abs(deciles - 200).max() < 4.5 * 13.4


def test_the_bound_on_the_distance_holds():
    rng = np.random.default_rng(2)
    truth, stated = np.array([0.5, 0.3, 0.2]), [0.45, 0.3, 0.25]
    bounds = [fit(rng.multinomial(500, truth).tolist(), stated, 0.05).tv_upper for _ in range(500)]
    # the true distance is 0.05; the bound may fail in 5 % of the runs at most (25 expected, 50 is +5 sigma)
    assert sum(bound < 0.05 for bound in bounds) <= 50


@pytest.mark.parametrize("shift", ["spread", "concentrated"])
def test_power_is_a_lower_bound_in_simulation(shift):
    rng = np.random.default_rng(3)
    law = np.full(10, 0.1)
    bias, level = 0.06, 1e-3
    n = samples_needed(9, bias, level, 0.9)
    moved = law.copy()
    if shift == "spread":
        moved[:5] += bias / 5
        moved[5:] -= bias / 5
    else:
        moved[0] += bias
        moved[1] -= bias
    caught = sum(fit(rng.multinomial(n, moved).tolist(), law.tolist(), level).p_value < level for _ in range(1000))
    # 0.9 promised; 4 standard deviations of a binomial with 1000 trials are 0.038
    assert caught / 1000 > 0.9 - 0.038
    assert shift == "concentrated" or caught / 1000 < 0.9 + 0.038


def test_samples_needed_is_the_smallest_to_a_percent():
    n = samples_needed(20, 0.05, 1e-3, 0.99)
    assert power(n, 20, 0.05, 1e-3) >= 0.99
    assert power(int(n * 0.98), 20, 0.05, 1e-3) < 0.99


@pytest.mark.parametrize(("bias", "wanted"), [(0.0, 0.9), (1.0, 0.9), (0.05, 0.0), (0.05, 1.0)])
def test_impossible_demands_are_refused(bias, wanted):
    with pytest.raises(ValueError, match="expected"):
        samples_needed(5, bias, 1e-3, wanted)


def test_the_reuse_bias_of_the_literature_needs_the_published_n():
    # 0.60 -> 0.63: sum d^2/p is 0.0045 (field reference 3.10), n = 6000 gives 94 %, 8000 99 % at level 1e-3
    from scipy import stats

    critical = stats.chi2.isf(1e-3, 2)
    assert stats.ncx2.sf(critical, 2, 6000 * 0.0045) == pytest.approx(0.94, abs=0.01)
    assert stats.ncx2.sf(critical, 2, 8000 * 0.0045) == pytest.approx(0.99, abs=0.005)
