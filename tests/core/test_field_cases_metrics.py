"""Reported cases on counting: P57, P58, P59, P61."""

from fractions import Fraction

import pytest

from specdec_core.coins import Coins, branches
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.laws import acceptance
from specdec_core.metrics import summarize
from specdec_core.rules import verify_chain
from specdec_core.toy import toy_pair
from specdec_core.warp import SamplingParams

F = Fraction
GREEDY = SamplingParams(temperature=0)


@pytest.fixture
def run_with_flags(spoken_model):
    """Rounds in which draft j of round i agrees with the target exactly where flags[i][j] says so."""

    def run(flags: list[list[int]], wanted: int):
        def draft(prefix: tuple[int, ...]) -> int:
            # the drafter of round i starts where the rounds before it ended
            start = 2
            for row in flags:
                kept = row.index(0) if 0 in row else len(row)
                if len(prefix) < start + len(row) and len(prefix) >= start:
                    return (len(prefix) + 1 - row[len(prefix) - start]) % 50
                start += kept + 1
            return len(prefix) % 50

        target = spoken_model(50, lambda prefix: len(prefix) % 50)
        engine = Engine(target, ModelDrafter(spoken_model(50, draft)), "chain", len(flags[0]))
        stream = engine.stream([0], GREEDY, wanted)
        for _ in range(1 + len(flags)):
            next(stream)
        return stream.generation.trace

    return run


def test_p57_nothing_behind_a_refusal_is_accepted(run_with_flags) -> None:
    trace = run_with_flags([[1, 0, 1], [1, 1, 1]], 30)
    assert [(r.num_accepted, r.num_tested, len(r.draft_tokens)) for r in trace.rounds] == [(1, 2, 3), (3, 3, 3)]
    metrics = summarize(trace)
    assert (metrics.accepted, metrics.drafted) == (4, 6), "the flags add up to 5"
    assert sum(len(r.emitted) for r in trace.rounds) == 6
    assert metrics.alpha == 4 / 5
    assert metrics.acceptance_rate == pytest.approx(4 / 6)


def test_p58_rates_without_a_denominator_are_none() -> None:
    target, draft = toy_pair()
    prefill_only = summarize(Engine(target, ModelDrafter(draft), "chain", 4).generate([1, 2, 3], GREEDY, 1).trace)
    assert (prefill_only.rounds, prefill_only.emitted) == (0, 1)
    assert prefill_only.acceptance_rate is None
    assert prefill_only.alpha is None
    assert prefill_only.mean_acceptance_length is None
    assert prefill_only.tokens_per_s is None
    assert prefill_only.acceptance_per_position == prefill_only.conditional_acceptance == ()
    nothing = summarize([])
    assert (nothing.rounds, nothing.emitted, nothing.acceptance_rate) == (0, 0, None)


@pytest.mark.parametrize("with_drafter", [True, False])
def test_p58_gamma_zero_is_plain_decoding(with_drafter: bool) -> None:
    target, draft = toy_pair()
    engine = Engine(target, ModelDrafter(draft) if with_drafter else None, "chain", 0)
    generation = engine.generate([1, 2, 3], GREEDY, 6)
    metrics = summarize(generation.trace)
    assert generation.tokens == (2, 0, 5, 1, 0, 8)
    assert (metrics.rounds, metrics.drafted, metrics.mean_acceptance_length) == (5, 0, 1.0)
    assert metrics.acceptance_rate is None
    assert [r.emitted for r in generation.trace.rounds] == [(t,) for t in generation.tokens[1:]]
    assert draft.forwards == 0


def test_p59_kept_and_kept_plus_one_have_two_names(run_with_flags) -> None:
    trace = run_with_flags([[1, 1, 0], [0, 1, 1], [1, 1, 1]], 30)
    assert [r.num_accepted for r in trace.rounds] == [2, 0, 3]
    metrics = summarize(trace)
    assert F(metrics.accepted, metrics.rounds) == F(5, 3)
    assert metrics.mean_acceptance_length == pytest.approx(8 / 3)
    assert metrics.emitted == 9


P61_P, P61_Q = [F(1, 2), F(1, 2)], [F(7, 10), F(3, 10)]


def expected_accepted(p: list[Fraction], q: list[Fraction], gamma: int) -> Fraction:
    """By enumeration of the rule itself, one round."""

    def run(coins: Coins) -> int:
        tokens = [coins.draw(q, node=node, purpose="draft") for node in range(gamma)]
        return verify_chain(tokens, [q] * gamma, [p] * (gamma + 1), coins).num_accepted

    return sum((weight * kept for weight, kept in branches(run)), F(0))


@pytest.mark.parametrize(("gamma", "accepted", "rate"), [(1, 0.8, 0.8), (4, 2.3616, 0.5904), (8, 3.328911, 0.416114)])
def test_p61_the_rate_falls_when_gamma_rises_at_the_same_alpha(gamma: int, accepted: float, rate: float) -> None:
    assert acceptance(P61_P, P61_Q) == F(4, 5)
    exact = expected_accepted(P61_P, P61_Q, gamma)
    assert exact == sum((F(4, 5) ** i for i in range(1, gamma + 1)), F(0))
    assert float(exact) == pytest.approx(accepted, abs=5e-7)
    assert float(exact / gamma) == pytest.approx(rate, abs=5e-7)


def test_p61_at_alpha_six_tenths() -> None:
    assert float(expected_accepted([F(1, 2)] * 2, [F(9, 10), F(1, 10)], 4)) == pytest.approx(1.3056)


@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_p61_measured_alpha_does_not_fall_with_gamma(gamma: int, model_of) -> None:
    """Over some 1,000 judged drafts; alpha 1e-4 (3.9 standard deviations) for a drafter accepted with 4/5."""
    p, q = model_of(lambda prefix: P61_P, 2), model_of(lambda prefix: P61_Q, 2)
    engine = Engine(p, ModelDrafter(q), "chain", gamma)
    metrics = summarize(
        engine.generate([0], SamplingParams(seed=9), 120, request=request).trace for request in range(10)
    )
    assert metrics.alpha is not None
    assert abs(metrics.alpha - 0.8) < 3.9 * (0.16 / metrics.tested) ** 0.5
    if gamma == 8:
        assert metrics.acceptance_rate is not None
        assert metrics.acceptance_rate < 0.5
