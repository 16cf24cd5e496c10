"""`output_law(verify_chain) == target_law`, in exact arithmetic, and `!=` for rules that are wrong."""

from collections.abc import Callable, Sequence
from fractions import Fraction
import itertools
import random

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from specdec_core.coins import Coins, branches
from specdec_core.laws import (
    acceptance,
    deterministic_draft,
    mean_length,
    output_law,
    round_law,
    sampled_draft,
    target_law,
)
from specdec_core.residual import residual
from specdec_core.rules import Verdict, verify_chain, verify_greedy

F = Fraction
Law = list[Fraction]

# (vocabulary, gamma, horizon, cases): every horizon is past gamma + 1, so that a second round occurs
SIZES = [
    (2, 1, 5, 60),
    (2, 2, 6, 60),
    (2, 3, 6, 40),
    (3, 1, 4, 60),
    (3, 2, 5, 40),
    (3, 3, 5, 10),
    (4, 1, 4, 40),
    (4, 2, 4, 20),
    (2, 3, 9, 20),
    (3, 3, 6, 10),
    (4, 3, 5, 10),
]


def test_at_least_three_hundred_random_cases_are_checked() -> None:
    assert sum(cases for *_, cases in SIZES) >= 300


@pytest.mark.parametrize(("vocab", "gamma", "horizon", "cases"), SIZES)
def test_verify_chain_is_lossless(vocab: int, gamma: int, horizon: int, cases: int, random_law) -> None:
    assert horizon > gamma + 1
    for case in range(cases):
        target = random_law(("target", vocab, case), vocab)
        draft = random_law(("draft", vocab, gamma, case), vocab)
        prefix = (case % vocab,)
        law = output_law(verify_chain, target, sampled_draft(draft, gamma), prefix, horizon)
        assert law == target_law(target, prefix, horizon), f"case {case}"
        assert sum(law.values()) == 1


@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_verify_chain_is_lossless_for_deterministic_drafts(gamma: int, random_law) -> None:
    for case in range(20):
        vocab = 2 + case % 3
        target = random_law(("one-hot", gamma, case), vocab)
        generator = random.Random(case)
        guesses = [generator.randrange(vocab) for _ in range(12)]

        def guess(prefix: tuple[int, ...], guesses: list[int] = guesses) -> int:
            return guesses[(len(prefix) + sum(prefix)) % 12]

        draft = deterministic_draft(guess, gamma)
        horizon = gamma + 2
        assert output_law(verify_chain, target, draft, (0,), horizon) == target_law(target, (0,), horizon)


def constant(law: Law) -> Callable[[tuple[int, ...]], Law]:
    return lambda prefix: law


EDGES: dict[str, tuple[Law, Law]] = {
    "equal": ([F(1, 5), F(3, 10), F(1, 2)], [F(1, 5), F(3, 10), F(1, 2)]),
    "disjoint": ([F(1, 2), F(1, 2), F(0), F(0)], [F(0), F(0), F(1, 3), F(2, 3)]),
    "one-hot target": ([F(0), F(1), F(0)], [F(1, 3)] * 3),
    "one-hot draft": ([F(1, 3)] * 3, [F(0), F(1), F(0)]),
    "both one-hot, equal": ([F(0), F(1)], [F(0), F(1)]),
    "both one-hot, different": ([F(1), F(0)], [F(0), F(1)]),
    "zeros in different places": ([F(1, 2), F(0), F(1, 4), F(1, 4)], [F(0), F(1, 2), F(1, 2), F(0)]),
    "one token": ([F(1)], [F(1)]),
    "draft inside the target's support": ([F(1, 4)] * 4, [F(1, 2), F(1, 2), F(0), F(0)]),
    "tiny masses": ([F(1, 10**12), 1 - F(1, 10**12)], [1 - F(1, 10**12), F(1, 10**12)]),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("gamma", [0, 1, 2])
def test_verify_chain_is_lossless_at_the_edges(name: str, gamma: int) -> None:
    target, draft = map(constant, EDGES[name])
    assert output_law(verify_chain, target, sampled_draft(draft, gamma), (), 4) == target_law(target, (), 4)


def test_a_draft_law_that_depends_on_the_position_is_lossless(random_law) -> None:
    target = random_law("position", 3)
    laws = [[F(1), F(0), F(0)], [F(0), F(1, 2), F(1, 2)], [F(1, 3)] * 3]
    draft = sampled_draft(lambda prefix: laws[len(prefix) % 3], 3)
    assert output_law(verify_chain, target, draft, (), 6) == target_law(target, (), 6)


def test_a_window_chosen_before_drafting_is_lossless(random_law) -> None:
    target, draft_law = random_law("window", 2), random_law("window draft", 2)

    def draft(prefix: tuple[int, ...], budget: int, coins: Coins) -> tuple[tuple[int, ...], Sequence[Law]]:
        return sampled_draft(draft_law, sum(prefix) % 4)(prefix, budget, coins)

    assert output_law(verify_chain, target, draft, (1,), 7) == target_law(target, (1,), 7)


def test_dropping_a_draft_for_its_own_value_is_not(random_law) -> None:
    target, draft_law = random_law("look", 2, zeros=False), random_law("look draft", 2, zeros=False)

    def draft(prefix: tuple[int, ...], budget: int, coins: Coins) -> tuple[tuple[int, ...], Sequence[Law]]:
        tokens, laws = sampled_draft(draft_law, 1)(prefix, budget, coins)
        return (tokens, laws) if tokens == (1,) else ((), [])

    assert output_law(verify_chain, target, draft, (), 3) != target_law(target, (), 3)


def test_the_greedy_rule_has_the_targets_law_exactly_when_that_is_one_hot(random_law) -> None:
    sampled = random_law("greedy", 3, zeros=False)

    def one_hot(prefix: tuple[int, ...]) -> Law:
        law = sampled(prefix)
        return [F(token == law.index(max(law))) for token in range(3)]

    draft = sampled_draft(random_law("greedy draft", 3), 2)
    assert output_law(verify_greedy, one_hot, draft, (), 6) == target_law(one_hot, (), 6)
    assert output_law(verify_greedy, sampled, draft, (), 3) != target_law(sampled, (), 3)


# Rules with a single mistake each. Every one must fail the equality on the sharp example below.


def _mutant(
    judge: Callable[..., bool] | None = None,
    rest: Callable[..., Law] | None = None,
    bonus: Callable[..., Law] | None = None,
) -> Callable[..., Verdict]:
    """`verify_chain` with one of its three steps replaced."""

    def rule(tokens: Sequence[int], q: Sequence[Law], p: Sequence[Law], coins: Coins) -> Verdict:
        for i, x in enumerate(tokens):
            accepted = judge(p, q, i, x, coins) if judge else coins.accept(p[i][x], q[i][x], node=i)
            if not accepted:
                law = rest(p, q, i, x) if rest else residual(p[i], q[i])
                return Verdict(i, tuple(range(i)), coins.draw(law, node=i, purpose="recover"), "recovered")
        n = len(tokens)
        law = bonus(p, q, n) if bonus else p[n]
        return Verdict(n, tuple(range(n)), coins.draw(law, node=n, purpose="bonus"), "bonus")

    return rule


def _count_flags(tokens: Sequence[int], q: Sequence[Law], p: Sequence[Law], coins: Coins) -> Verdict:
    flags = [coins.accept(p[i][x], q[i][x], node=i) for i, x in enumerate(tokens)]
    n = sum(flags)
    law = residual(p[n], q[n]) if n < len(tokens) else p[n]
    return Verdict(n, tuple(range(n)), coins.draw(law, node=n, purpose="recover"), "recovered")


def _absolute(p: Sequence[Law], q: Sequence[Law], i: int, x: int) -> Law:
    return [abs(a - b) for a, b in zip(p[i], q[i])]


MUTANTS: dict[str, Callable[..., Verdict]] = {
    "redraw from p": _mutant(rest=lambda p, q, i, x: p[i]),
    "redraw from q": _mutant(rest=lambda p, q, i, x: q[i]),
    "absolute residual": _mutant(rest=_absolute),
    "residual of the next slot": _mutant(rest=lambda p, q, i, x: residual(p[i + 1], q[i])),
    "residual swapped": _mutant(rest=lambda p, q, i, x: residual(q[i], p[i])),
    "p without the refused token": _mutant(rest=lambda p, q, i, x: [a * (t != x) for t, a in enumerate(p[i])]),
    "residual argmax": _mutant(
        rest=lambda p, q, i, x: [F(a == max(residual(p[i], q[i]))) for a in residual(p[i], q[i])]
    ),
    "bonus argmax": _mutant(bonus=lambda p, q, n: [F(t == p[n].index(max(p[n]))) for t in range(len(p[n]))]),
    "bonus from the last slot": _mutant(bonus=lambda p, q, n: p[max(n - 1, 0)]),
    "bonus from q": _mutant(bonus=lambda p, q, n: q[n - 1] if n else p[n]),
    "ratio upside down": _mutant(judge=lambda p, q, i, x, c: c.accept(q[i][x], p[i][x], node=i)),
    "judged by the row behind": _mutant(judge=lambda p, q, i, x, c: c.accept(p[i + 1][x], q[i][x], node=i)),
    "accept with p alone": _mutant(judge=lambda p, q, i, x, c: c.accept(p[i][x], F(1), node=i)),
    "accept everything": _mutant(judge=lambda p, q, i, x, c: True),
    "accept nothing": _mutant(judge=lambda p, q, i, x, c: False),
    "lenient threshold": _mutant(judge=lambda p, q, i, x, c: c.accept(p[i][x] * F(11, 10), q[i][x], node=i)),
    "flags counted": _count_flags,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_rule_fails_the_equality(name: str, random_law) -> None:
    target, draft = (
        random_law("mutant 3", 3, zeros=False),
        sampled_draft(random_law("mutant draft 3", 3, zeros=False), 2),
    )
    assert output_law(_mutant(), target, draft, (), 4) == target_law(target, (), 4), "the frame of the mutants is right"
    assert output_law(MUTANTS[name], target, draft, (), 4) != target_law(target, (), 4)


def test_a_bias_of_one_in_a_billion_fails_the_equality() -> None:
    target, draft = constant([F(1, 4), F(3, 4)]), sampled_draft(constant([F(1, 2), F(1, 2)]), 1)
    nudged = _mutant(judge=lambda p, q, i, x, c: c.accept(p[i][x] + F(1, 10**9), q[i][x], node=i))
    assert output_law(nudged, target, draft, (), 2) != target_law(target, (), 2)


def test_lost_bonus_makes_another_law_of_texts() -> None:
    """A rule that swallows the bonus draw and repeats the last draft instead."""

    def repeat(tokens: Sequence[int], q: Sequence[Law], p: Sequence[Law], coins: Coins) -> Verdict:
        verdict = verify_chain(tokens, q, p, coins)
        lost = verdict.kind == "bonus" and len(tokens) > 0
        return Verdict(verdict.num_accepted, verdict.path, tokens[-1], "bonus") if lost else verdict

    target, draft = constant([F(1, 4), F(3, 4)]), sampled_draft(constant([F(1, 2), F(1, 2)]), 1)
    assert output_law(repeat, target, draft, (), 3) != target_law(target, (), 3)


# The functions themselves.


def test_target_law_is_the_product_of_the_laws(random_law) -> None:
    law = random_law("product", 3)
    expected = {}
    for tokens in itertools.product(range(3), repeat=3):
        chance = F(1)
        for place, token in enumerate(tokens):
            chance *= law((2, *tokens[:place]))[token]
        if chance:
            expected[tokens] = chance
    assert target_law(law, (2,), 3) == expected


@pytest.mark.parametrize("horizon", [0, 1])
def test_short_horizons(horizon: int, random_law) -> None:
    target, draft = random_law("short", 3), sampled_draft(random_law("short draft", 3), 3)
    assert output_law(verify_chain, target, draft, (), horizon) == target_law(target, (), horizon)


def test_a_negative_horizon_is_refused() -> None:
    with pytest.raises(ValueError, match="horizon is -1"):
        output_law(verify_chain, constant([F(1)]), sampled_draft(constant([F(1)]), 1), (), -1)
    with pytest.raises(ValueError, match="horizon is -1"):
        target_law(constant([F(1)]), (), -1)


def test_a_round_that_may_emit_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="wanted is 0"):
        round_law(verify_chain, constant([F(1)]), sampled_draft(constant([F(1)]), 1), (), 0)


def test_the_law_of_a_round_and_its_mean_length() -> None:
    """p = (1/4, 3/4), q = (1/2, 1/2), one draft: kept with 3/4, so 7/4 tokens a round."""
    p, q = constant([F(1, 4), F(3, 4)]), constant([F(1, 2), F(1, 2)])
    law = round_law(verify_chain, p, sampled_draft(q, 1), (), 2)
    assert law == {(0, 0): F(1, 16), (0, 1): F(3, 16), (1, 0): F(1, 8), (1, 1): F(3, 8), (1,): F(1, 4)}
    assert mean_length(law) == F(7, 4)


@pytest.mark.parametrize(
    ("target", "draft"), [([0.5, 0.5], [F(1, 2), F(1, 2)]), ([F(1, 2), F(1, 2)], [0.5, 0.5])], ids=["p", "q"]
)
def test_floats_are_refused_in_a_proof(target: Law, draft: Law) -> None:
    with pytest.raises(ValueError, match="exact"):
        output_law(verify_chain, constant(target), sampled_draft(constant(draft), 1), (), 2)


def test_a_draft_longer_than_its_budget_is_refused() -> None:
    law = constant([F(1, 2), F(1, 2)])
    with pytest.raises(ValueError, match="draft proposed 2 tokens; its budget was 1"):
        output_law(verify_chain, law, lambda prefix, budget, coins: ((0, 0), None), (), 2)


def test_branches_sum_to_one_and_meet_every_answer_once() -> None:
    def run(coins: Coins) -> tuple[bool, int]:
        return coins.accept(F(1, 3), F(1, 2), node=0), coins.draw([F(1), F(0), F(2)], node=0, purpose="draft")

    seen = {result: weight for weight, result in branches(run)}
    assert seen == {(True, 0): F(2, 9), (True, 2): F(4, 9), (False, 0): F(1, 9), (False, 2): F(2, 9)}


@settings(max_examples=30)
@given(st.data())
def test_acceptance_is_what_the_rule_really_accepts(data: st.DataObject) -> None:
    vocab = data.draw(st.integers(1, 4))
    weights = st.lists(st.integers(0, 9), min_size=vocab, max_size=vocab).filter(any)
    p, q = ([F(w, sum(ws)) for w in ws] for ws in (data.draw(weights), data.draw(weights)))

    def run(coins: Coins) -> int:
        token = coins.draw(q, node=0, purpose="draft")
        return verify_chain([token], [q], [p, p], coins).num_accepted

    assert sum(weight * kept for weight, kept in branches(run)) == acceptance(p, q)
    assert acceptance(p, q) == 1 - sum(abs(a - b) for a, b in zip(p, q)) / 2
