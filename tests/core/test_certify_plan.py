"""The plan of a certificate: samples and cells fit each other, and too few samples are told from a bad law."""

import numpy as np
import pytest

from specdec_core.certify_callable import CallableLaws, certify_callable
from specdec_core.certify_plan import Demand, plan
from specdec_core.goodness import fit
from specdec_core.noise_cells import LawReader
from specdec_core.partition import joint_laws, partitions
from specdec_core.tally import Tally

BASE = np.array([0.5, 0.3, 0.2, 0.0])
HORIZON = 4


def law_with_memory(tokens: tuple[int, ...]) -> np.ndarray:
    """Depends on the last token and on the position; one token is impossible each time."""
    return np.roll(BASE, len(tokens) + (tokens[-1] if tokens else 0))


def never(first: int, count: int) -> list[tuple[int, ...]]:
    raise AssertionError("sampled before the plan was made")


@pytest.mark.parametrize("n", [1, 19])
def test_too_few_samples_are_told_from_a_law_with_nothing_to_test(n: int) -> None:
    with pytest.raises(ValueError, match=f"^n is {n}; expected more samples") as caught:
        certify_callable(never, law_with_memory, horizon=HORIZON, n=n, bias=0.12)
    wanted = plan(CallableLaws(law_with_memory), Demand(horizon=HORIZON, bias=0.12, slots=True)).n
    assert f"give the {wanted} that a distance of 0.12 takes" in str(caught.value)


@pytest.mark.parametrize("n", [1, None, 5000])
def test_a_law_with_nothing_to_test_is_named_whatever_n_is(n: int | None) -> None:
    with pytest.raises(ValueError, match="one continuation"):
        certify_callable(never, lambda tokens: [1.0, 0.0], horizon=2, n=n)


@pytest.mark.parametrize("bias", [0.05, 0.1, 0.2, 0.3, 0.45])
@pytest.mark.parametrize("wanted", [0.9, 0.99])
@pytest.mark.parametrize("sequential", [False, True])
def test_samples_and_cells_fit_each_other(bias: float, wanted: float, sequential: bool) -> None:
    """The stated power is the one asked for, and the cells are as fine as the samples fill."""
    demand = Demand(horizon=6, bias=bias, wanted_power=wanted, sequential=sequential)
    planned = plan(CallableLaws(law_with_memory), demand)
    assert wanted <= planned.power <= wanted + 0.3 * (1 - wanted)
    assert planned.n * min(min(part.probabilities) for part in planned.parts) >= 10


@pytest.mark.parametrize(("bias", "n"), [(0.3, 166), (0.6, 200), (0.9, 200)])
def test_a_law_with_one_likely_text_gets_the_samples_that_its_cells_need(bias: float, n: int) -> None:
    planned = plan(CallableLaws(lambda tokens: [0.93, 0.07]), Demand(horizon=1, bias=bias))
    # the cell of 0.07 wants 143, a grid of 20 cells 200, and 0.3 is seen in 166
    assert planned.n == n and planned.parts[0].cells == 2
    assert planned.power > 0.99


def test_a_wide_vocabulary_is_cut_exactly_and_none_of_it_is_left_out() -> None:
    vocab = 400
    weights = 1 / (np.arange(vocab) + 3.0) ** 1.2

    def law(tokens: tuple[int, ...]) -> np.ndarray:
        shifted = np.roll(weights, sum(tokens) % 7)
        return shifted / shifted.sum()

    laws = CallableLaws(law)
    parts = partitions(laws, 2, 40)
    assert [part.positions for part in parts] == [(1,), (1, 2)]
    for part in parts:
        exact = np.zeros(part.cells)
        for first, mass in enumerate(law(())):
            for second, chance in enumerate(law((first,))):
                exact[part.cell_of((first, second))] += mass * chance
        assert exact == pytest.approx(np.array(part.probabilities), abs=1e-12)
        # rare tokens are in cells of their own kind, not all in the last one
        assert part.probabilities[-1] < 0.2
    assert max(len(joint.masses) for joint in joint_laws(laws, 3)) < 150_000


@pytest.mark.parametrize(("sequential", "shares"), [(False, 1), (True, 3 * 4)])
def test_the_bound_of_a_sequential_certificate_splits_the_level_over_its_looks(sequential: bool, shares: int) -> None:
    demand = Demand(horizon=HORIZON, n=600, bias=0.2, sequential=sequential)
    planned = plan(CallableLaws(law_with_memory), demand)
    tally = Tally(planned, demand)
    reader = LawReader(CallableLaws(law_with_memory), seed=0)
    for _ in range(3):
        samples = [(0, 1, 2, 0)] * 20
        tally.add(samples, reader.read(samples))
    share = demand.level / len(tally.tests())
    assert planned.share == share
    for test, part in zip(tally.tests(), planned.parts):
        counts = [0] * part.cells
        counts[part.cell_of((0, 1, 2, 0))] = 60
        level = share / shares
        assert test.fit.tv_upper == fit(counts, part.probabilities, level).tv_upper
