"""Looking all the time: the e-process is a fair bet, false alarms stay rare, mistakes are caught with fewer samples."""

from itertools import product
import math

import numpy as np
import pytest
from scipy import stats

from specdec_core.certify_callable import certify_callable
from specdec_core.evidence import (
    STRENGTHS,
    acceptance_budget,
    acceptance_spent,
    critical_at_the_end,
    log_e_value,
    log_e_values,
    log_mean,
    sequential_power,
    sequential_samples,
)
from specdec_core.goodness import chi_square, mean_tv, samples_needed

LAW = [0.4, 0.35, 0.2, 0.05]


def independent(law, horizon: int = 1):
    """Samples of independent tokens; noise by batch, which is quicker than by request."""
    edges = np.cumsum(law)[:-1]

    def sample(first: int, count: int) -> np.ndarray:
        noise = np.random.default_rng([3, first]).random((count, horizon))
        return np.searchsorted(edges, noise, side="right")

    return sample


def certified(sampled, stated, seed: int, **options):
    return certify_callable(independent(sampled), lambda tokens: stated, horizon=1, seed=seed, **options)


@pytest.mark.parametrize("planned", [3, 40])
def test_the_e_process_has_mean_one_under_the_law(planned: int) -> None:
    """Every sequence of five samples, weighted by its probability."""
    mean = 0.0
    for cells in product(range(len(LAW)), repeat=5):
        counts = np.bincount(cells, minlength=len(LAW)).tolist()
        mean += math.prod(LAW[cell] for cell in cells) * math.exp(log_e_value(counts, LAW, planned))
    assert mean == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("counts", [[0, 0, 0, 0], [7, 3, 0, 2], [200, 10, 5, 1]])
def test_each_step_of_the_e_process_has_mean_one(counts: list[int]) -> None:
    before = log_e_value(counts, LAW, 100)
    after = 0.0
    for cell, chance in enumerate(LAW):
        counts[cell] += 1
        after += chance * math.exp(log_e_value(counts, LAW, 100) - before)
        counts[cell] -= 1
    assert after == pytest.approx(1.0, abs=1e-9)


def test_the_e_process_is_the_product_of_the_bets() -> None:
    """Sample by sample: the bettor's probability of what came over the law's."""
    samples = [0, 0, 2, 1, 3, 0, 2, 2]
    winnings = []
    for strength in STRENGTHS:
        c, seen, product_of_bets = 50 * strength, [0] * 4, 1.0
        for cell in samples:
            product_of_bets *= (c * LAW[cell] + seen[cell]) / (c + sum(seen)) / LAW[cell]
            seen[cell] += 1
        winnings.append(product_of_bets)
    assert math.exp(log_e_value([3, 1, 3, 1], LAW, 50)) == pytest.approx(np.mean(winnings))


def test_a_count_where_the_law_has_none_is_infinite_evidence() -> None:
    assert log_e_value([3, 1], [1.0, 0.0], 10) == math.inf
    assert log_e_value([3, 0], [1.0, 0.0], 10) == pytest.approx(0.0)
    assert log_mean([0.0, math.inf]) == math.inf
    assert log_mean([math.log(2), math.log(4)]) == pytest.approx(math.log(3))


def test_a_bettor_who_looks_after_every_sample_seldom_gets_rich() -> None:
    """Ville: at most `level` of all paths ever reach 1 / level."""
    level, paths, length = 0.05, 2000, 250
    cells = np.random.default_rng(11).choice(len(LAW), (paths, length), p=LAW)
    counts = (cells[..., None] == np.arange(len(LAW))).cumsum(axis=1)
    highest = log_e_values(counts, LAW, length).max(axis=1)
    alarms = (highest >= -math.log(level)).sum()
    # 100 expected at most, and never this many by chance; none at all would mean a bet that never wins
    assert 0 < alarms <= stats.binom.isf(1e-4, paths, level)


@pytest.mark.slow
def test_false_alarms_of_sequential_certificates_come_at_the_stated_rate() -> None:
    """Whole certificates of five tests, a look every 20 samples."""
    level, runs = 0.05, 400
    found = [
        certify_callable(
            independent([0.5, 0.3, 0.2], 3),
            lambda tokens: [0.5, 0.3, 0.2],
            horizon=3,
            n=300,
            level=level,
            seed=seed,
            batch=20,
            sequential=True,
        )
        for seed in range(runs)
    ]
    alarms = sum(certificate.rejected for certificate in found)
    assert alarms <= stats.binom.isf(1e-4, runs, level)
    # a fifth of all p-values at most is below 0.2 as well: they are valid however the sampling ended
    assert sum(certificate.p_value <= 0.2 for certificate in found) <= stats.binom.isf(1e-4, runs, 0.2)


@pytest.mark.parametrize("degrees", [1, 7, 39])
def test_the_power_at_the_end_is_a_lower_bound_in_simulation(degrees: int) -> None:
    """The approximation behind the plan, against counts of the hardest law at the stated distance."""
    bias, tests, level, wanted = 0.1, 9, 1e-3, 0.9
    n = sequential_samples(degrees, bias, tests, level, wanted)
    at_the_end = sequential_power(n, degrees, bias, tests, level, wanted) + acceptance_budget(wanted)
    law = np.full(degrees + 1, 1 / (degrees + 1))
    half = (degrees + 1) // 2
    moved = law.copy()
    moved[:half] += bias / half
    moved[half : 2 * half] -= bias / half
    counts = np.random.default_rng(4).multinomial(n, moved, size=1000)
    caught = sum(log_e_value(row.tolist(), law.tolist(), n) >= math.log(tests / level) for row in counts)
    # 4 standard deviations of a binomial with 1000 trials
    assert caught / 1000 > at_the_end - 4 * math.sqrt(at_the_end * (1 - at_the_end) / 1000)
    # the mean over the c costs its log at most; much more power than stated would mean too many samples
    assert sum(chi_square(row.tolist(), law.tolist()) >= critical_at_the_end(degrees, tests, level) for row in counts)


@pytest.mark.parametrize(
    ("moved", "share"),
    [([0.29, 0.29, 0.21, 0.21], 0.8), ([0.33, 0.33, 0.17, 0.17], 0.25), ([0.57, 0.25, 0.18, 0.0], 0.08)],
    ids=["at the stated distance", "at twice", "at four times"],
)
def test_a_wrong_law_is_caught_with_fewer_samples_than_the_fixed_test_takes(moved: list[float], share: float) -> None:
    even, runs = [0.25, 0.25, 0.25, 0.25], 40
    found = [certified(moved, even, seed, bias=0.08, batch=25, sequential=True) for seed in range(runs)]
    fixed = samples_needed(3, 0.08, 1e-3, 0.99)
    assert sum(certificate.rejected for certificate in found) >= runs - 1
    mean = np.mean([certificate.n for certificate in found])
    print(f"{mean:.0f} samples instead of {fixed}")
    assert mean < fixed * share


def test_the_right_law_passes_with_fewer_samples_than_planned() -> None:
    law = [0.25, 0.25, 0.25, 0.25]
    found = [certified(law, law, seed, bias=0.08, batch=25, sequential=True) for seed in range(40)]
    assert all(certificate.passed for certificate in found)
    mean, fixed = np.mean([certificate.n for certificate in found]), certified(law, law, 0, bias=0.08, batch=25).n
    print(f"{mean:.0f} of {found[0].n_planned} samples; a fixed test takes {fixed}")
    assert mean < fixed
    assert all(certificate.n >= certificate.n_planned / 2 for certificate in found)


@pytest.mark.slow
def test_a_law_at_the_stated_distance_is_seldom_accepted() -> None:
    """Both ways to miss it together: accepted early, or the end reached without an alarm."""
    bias, wanted, runs = 0.1, 0.9, 600
    law = [0.25, 0.25, 0.25, 0.25]
    moved = [0.3, 0.3, 0.2, 0.2]
    options = {"bias": bias, "wanted_power": wanted, "batch": 25, "sequential": True}
    found = [certified(moved, law, seed, **options) for seed in range(runs)]
    missed = sum(not certificate.rejected for certificate in found)
    early = sum(not certificate.rejected and certificate.n < certificate.n_planned for certificate in found)
    assert found[0].power >= wanted
    assert missed <= stats.binom.isf(1e-4, runs, 1 - wanted)
    assert early <= stats.binom.isf(1e-4, runs, acceptance_budget(wanted))
    assert early > 0


def test_nothing_is_spent_before_the_first_acceptance_and_all_of_it_at_the_end() -> None:
    budget = acceptance_budget(0.99)
    assert budget == pytest.approx(0.005)
    assert acceptance_spent(500, 1000, 0.99) == 0
    assert acceptance_spent(750, 1000, 0.99) == pytest.approx(budget / 2)
    assert acceptance_spent(1000, 1000, 0.99) == pytest.approx(budget)


def test_a_sequential_certificate_says_how_it_went() -> None:
    certificate = certified([0.5, 0.5], [0.7, 0.3], 0, batch=20, sequential=True)
    assert certificate.rejected
    assert certificate.mode == "sequential"
    assert certificate.n < certificate.n_planned and certificate.n % 20 == 0
    assert certificate.e_value is not None and certificate.e_value >= 1000
    assert certificate.p_value == pytest.approx(1 / certificate.e_value)
    assert f"n = {certificate.n} of {certificate.n_planned} planned" in certificate.sentence
    # what decides is the mean of all tests
    mean = np.mean([test.e_value for test in certificate.tests])
    assert certificate.e_value == pytest.approx(mean)
    fixed = certified([0.5, 0.5], [0.5, 0.5], 0, n=200)
    assert (fixed.mode, fixed.n, fixed.n_planned, fixed.e_value) == ("fixed", 200, 200, None)
    assert fixed.tests[0].e_value is None


def test_bounds_on_the_distance_hold_at_every_look() -> None:
    """The law is 0.1 away from the stated one; a bound that is ever below that is wrong."""
    wrong = 0
    for seed in range(60):
        for n in (50, 100, 200, 400):
            certificate = certified([0.6, 0.4], [0.5, 0.5], seed, n=n, batch=50, level=0.05, sequential=True)
            wrong += certificate.tests[0].fit.tv_upper < 0.1
    assert wrong == 0


@pytest.mark.parametrize(("n", "law"), [(1, [0.5, 0.5]), (7, LAW), (12, [0.9, 0.1])])
def test_the_mean_distance_of_a_perfect_sampler_is_exact(n: int, law: list[float]) -> None:
    exact = 0.0
    for p in law:
        exact += 0.5 * sum(stats.binom.pmf(k, n, p) * abs(k / n - p) for k in range(n + 1))
    assert mean_tv(n, law) == pytest.approx(exact, abs=1e-12)
