"""The most any rule can accept at depth 1: min-cut against the linear program, sorting against all subsets, orders."""

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from itertools import permutations, product
import math
from math import prod
import random

import numpy as np
import pytest
from scipy.optimize import linprog

from specdec_core.acceptance_formulas import (
    greedy_set_acceptance,
    hits_iid,
    hits_without_replacement,
    kseq_acceptance,
    kseq_guarantee,
    optimal_iid_acceptance,
    optimal_multidraft_acceptance,
    recursive_acceptance,
    set_acceptance,
)
from specdec_core.laws import acceptance
from specdec_core.rules.kseq import DENOMINATOR, smallest_rho

Masses = Sequence[float]
DraftSets = dict[tuple[int, ...], float]


def random_masses(generator: random.Random, vocab: int) -> list[float]:
    masses = [generator.gammavariate(0.6, 1) for _ in range(vocab)]
    return [mass / sum(masses) for mass in masses]


def exact_masses(generator: random.Random, vocab: int) -> list[Fraction]:
    weights = [generator.randint(0, 6) for _ in range(vocab)]
    weights = weights if any(weights) else [1] * vocab
    return [Fraction(weight, sum(weights)) for weight in weights]


def transported(p: Masses, sets: DraftSets) -> float:
    """The most mass a plan can move from draft sets to target tokens that are in them: a linear program."""
    moves = [(token, drafts) for drafts in sets for token in sorted(set(drafts))]
    rows, limits = [], []
    for token, limit in enumerate(p):
        rows.append([float(move[0] == token) for move in moves])
        limits.append(limit)
    for drafts, limit in sets.items():
        rows.append([float(move[1] == drafts) for move in moves])
        limits.append(limit)
    solution = linprog(-np.ones(len(moves)), A_ub=np.array(rows), b_ub=np.array(limits), bounds=(0, None))
    assert solution.success, solution.message
    return -solution.fun


def iid_sets(q: Masses, k: int) -> DraftSets:
    return {drafts: prod(q[x] for x in drafts) for drafts in product(range(len(q)), repeat=k)}


def sets_without_replacement(q: Masses, k: int) -> DraftSets:
    return {
        drafts: prod(q[x] / (1 - sum(q[y] for y in drafts[:place])) for place, x in enumerate(drafts))
        for drafts in permutations(range(len(q)), k)
    }


def greedy_sets(q: Masses, k: int) -> DraftSets:
    """The k - 1 most probable for sure, one drawn from the rest."""
    order = sorted(range(len(q)), key=lambda x: -q[x])
    top, rest = tuple(order[: k - 1]), order[k - 1 :]
    return {(*top, x): q[x] / sum(q[y] for y in rest) for x in rest}


def hits_of(sets: DraftSets) -> Callable[[Collection[int]], float]:
    return lambda subset: sum(chance for drafts, chance in sets.items() if set(drafts) & set(subset))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("case", range(8))
def test_the_min_cut_is_the_optimum_of_the_linear_program(case, k):
    generator = random.Random(case)
    p, q = random_masses(generator, 4), random_masses(generator, 4)
    top = tuple(sorted(range(4), key=lambda x: -q[x])[:k])
    pairs = {
        "iid": (optimal_multidraft_acceptance(p, hits_iid(q, k)), iid_sets(q, k)),
        "iid, sorted": (optimal_iid_acceptance(p, q, k), iid_sets(q, k)),
        "without replacement": (
            optimal_multidraft_acceptance(p, hits_without_replacement(q, k)),
            sets_without_replacement(q, k),
        ),
        "deterministic": (set_acceptance(p, top), {top: 1.0}),
        "deterministic, cut": (optimal_multidraft_acceptance(p, hits_of({top: 1.0})), {top: 1.0}),
        "greedy": (greedy_set_acceptance(p, q, k), greedy_sets(q, k)),
        "greedy, cut": (optimal_multidraft_acceptance(p, hits_of(greedy_sets(q, k))), greedy_sets(q, k)),
    }
    for name, (formula, sets) in pairs.items():
        assert formula == pytest.approx(transported(p, sets), abs=1e-9), name


@pytest.mark.parametrize("case", range(60))
def test_sorting_finds_the_cut_that_all_subsets_find(case):
    """Zeros, equal ratios and disjoint supports included; in Fractions, so with `==`."""
    generator = random.Random(case)
    vocab, k = generator.randint(1, 6), generator.randint(1, 4)
    p, q = exact_masses(generator, vocab), exact_masses(generator, vocab)
    assert optimal_iid_acceptance(p, q, k) == optimal_multidraft_acceptance(p, hits_iid(q, k))
    if k == 1:
        assert optimal_iid_acceptance(p, q, 1) == acceptance(p, q)


def test_sorting_reaches_vocabularies_that_subsets_cannot():
    generator = random.Random(1)
    p, q = random_masses(generator, 5000), random_masses(generator, 5000)
    values = [optimal_iid_acceptance(p, q, k) for k in (1, 2, 4, 8)]
    assert values[0] == pytest.approx(sum(map(min, p, q)))
    assert values == sorted(values)
    assert values[-1] <= 1


def test_no_draft_is_refused():
    with pytest.raises(ValueError, match="k is 0"):
        optimal_iid_acceptance([1.0], [1.0], 0)
    with pytest.raises(ValueError, match="k is 0"):
        kseq_guarantee(0)


def test_the_guarantee_falls_to_one_minus_one_over_e():
    values = [kseq_guarantee(k) for k in range(1, 40)]
    assert values[:3] == [1, Fraction(3, 4), Fraction(19, 27)]
    assert values == sorted(values, reverse=True)
    assert values[-1] > 1 - 1 / math.e


@pytest.mark.parametrize("case", range(60))
def test_kseq_keeps_its_guarantee(case):
    """At the smallest rho on the grid of 1 / DENOMINATOR, so up to one step of the grid; exact masses."""
    generator = random.Random(case)
    vocab, k = generator.randint(2, 6), generator.randint(1, 4)
    p, q = exact_masses(generator, vocab), exact_masses(generator, vocab)
    best = optimal_iid_acceptance(p, q, k)
    kept = kseq_acceptance(p, q, k, smallest_rho(p, q, k))
    # d(acceptance) / d(rho) is at most k * beta / rho <= k
    assert kseq_guarantee(k) * best - Fraction(k, DENOMINATOR) <= kept <= best


def best_rho(p: Masses, q: Masses, k: int) -> float:
    """The rho of SpecTr, 1 - (1 - beta)^k = rho beta, by bisection; not on a grid."""
    low, high = 1.0, float(k)
    for _ in range(80):
        middle = (low + high) / 2
        beta = sum(min(q_x, p_x / middle) for p_x, q_x in zip(p, q))
        low, high = (low, middle) if 1 - (1 - beta) ** k <= middle * beta else (middle, high)
    return high


EIGHT = (
    "one draft",
    "top-k set",
    "recursive iid",
    "k-SEQ",
    "best iid",
    "recursive without",
    "greedy set",
    "best",
)


def eight_acceptances(generator: random.Random) -> dict[str, float]:
    k = generator.randint(2, 3)
    p, q = random_masses(generator, 5), random_masses(generator, 5)
    values = (
        sum(map(min, p, q)),
        set_acceptance(p, sorted(range(5), key=lambda x: -q[x])[:k]),
        recursive_acceptance(p, q, k, replace=True),
        kseq_acceptance(p, q, k, best_rho(p, q, k)),
        optimal_multidraft_acceptance(p, hits_iid(q, k)),
        recursive_acceptance(p, q, k, replace=False),
        greedy_set_acceptance(p, q, k),
        optimal_multidraft_acceptance(p, hits_without_replacement(q, k)),
    )
    return {name: float(value) for name, value in zip(EIGHT, values)}


def test_the_ordering_of_eight_acceptances():
    """Means over 200 random laws (V = 5, k = 2 or 3), in the order of the reference."""
    generator = random.Random(0)
    laws = [eight_acceptances(generator) for _ in range(200)]
    means = [sum(law[name] for law in laws) / len(laws) for name in EIGHT]
    assert means == sorted(means)
    assert min(after - before for before, after in zip(means, means[1:])) > 0.005
    # some hold on every law, not only in the mean
    for less, more in (
        ("one draft", "recursive iid"),
        ("recursive iid", "k-SEQ"),
        ("k-SEQ", "best iid"),
        ("recursive without", "best"),
    ):
        assert all(law[less] <= law[more] + 1e-9 for law in laws), (less, more)
