"""Predictions from traces: the sums worked out by hand, and equality with the mean of the same rounds."""

from dataclasses import replace

import pytest

from specdec_core.cost_curve import CostCurve
from specdec_core.costs import RoundPrices, TraceStats, predict
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.metrics import summarize
from specdec_core.toy import toy_pair
from specdec_core.trace import Round, Trace
from specdec_core.warp import SamplingParams


def a_round(drafted: int, accepted: int, length: int, *, draft_s: float = 0.0, host_s: float = 0.0, **change) -> Round:
    tested = min(accepted + 1, drafted)
    entry = Round(
        index=0,
        length=length,
        draft_tokens=(1,) * drafted,
        draft_parents=tuple(range(-1, drafted - 1)),
        proposal="chain",
        target_probs=(0.5,) * drafted,
        draft_probs=(0.5,) * drafted,
        uniforms=(0.1,) * drafted,
        num_accepted=accepted,
        num_tested=tested,
        path=tuple(range(accepted)),
        next_token=2,
        kind="plain" if drafted == 0 else "bonus" if accepted == drafted else "recovered",
        emitted=(1,) * (accepted + 1),
        target_rows=length + accepted,
        draft_rows=None,
        block_table=None,
        top=None,
        t_draft_s=draft_s,
        t_verify_s=0.0,
        t_host_s=host_s,
    )
    return replace(entry, **change)


ROUNDS = [a_round(4, 4, 11), a_round(4, 1, 16), a_round(0, 0, 18), a_round(2, 0, 19)]


def a_trace(rounds: list[Round]) -> Trace:
    return Trace(prompt=(1,), prefill_token=1, rounds=rounds)


def test_statistics_by_position():
    stats = TraceStats.from_traces([a_trace(ROUNDS)])
    assert stats.rounds == 4
    assert [(entry.drafted, entry.share, entry.context) for entry in stats.shares] == [
        (0, 0.25, 17),
        (2, 0.25, 18),
        (4, 0.5, 12.5),
    ]
    assert stats.reach == (0.75, 0.75, 0.5, 0.5)
    assert stats.survival == (pytest.approx(2 / 3), pytest.approx(1 / 3), 0.5, 0.5)
    assert stats.tokens_per_round == pytest.approx(9 / 4)
    assert stats.tokens_per_round == pytest.approx(summarize(a_trace(ROUNDS)).mean_acceptance_length)
    assert stats.alpha == pytest.approx(5 / 7)
    # five tokens from 10 cached ones on, two from 15 on, then 17 and 18
    assert stats.plain_context == pytest.approx((10 + 11 + 12 + 13 + 14 + 15 + 16 + 17 + 18) / 9)


def test_the_prediction_by_hand():
    curve = CostCurve(
        "t", "measured", (1, 3, 5), (0, 100), ((1.0, 1.2, 1.4), (2.0, 2.2, 2.4)), ((1.0, 1.2, 1.4), (2.0, 2.2, 2.4))
    )
    prices = RoundPrices({0: 0.0, 4: 0.8}, {0: 0.1, 4: 0.3})
    found = predict(TraceStats.from_traces([a_trace(ROUNDS)]), curve, prices, plain_host_s=0.1)
    assert found.plain_s == pytest.approx(1.0 + 0.14 + 0.1)
    assert found.verify_s == pytest.approx(0.25 * (1.0 + 0.17) + 0.25 * (1.2 + 0.18) + 0.5 * (1.4 + 0.125))
    assert found.draft_s == pytest.approx(0.25 * 0.4 + 0.5 * 0.8)
    assert found.host_s == pytest.approx(0.25 * 0.1 + 0.25 * 0.2 + 0.5 * 0.3)
    assert found.speedup == pytest.approx(2.25 * found.plain_s / found.round_s)
    assert found.break_even_tokens == pytest.approx(found.round_s / found.plain_s)
    assert found.to_dict()["speedup"] == found.speedup


def test_plain_rounds_are_predicted_to_gain_nothing():
    curve = CostCurve("t", "measured", (1, 2), (0,), ((1.0, 1.0),), ((1.0, 1.0),))
    rounds = [a_round(0, 0, place, host_s=0.2) for place in range(2, 9)]
    found = predict(TraceStats.from_traces([a_trace(rounds)]), curve, RoundPrices.from_rounds(rounds), plain_host_s=0.2)
    assert found.speedup == pytest.approx(1.0)


def test_statistics_of_a_real_run_with_a_stop_token():
    target, draft = toy_pair()
    engine = Engine(target, ModelDrafter(draft), "greedy", 4)
    for stop in ((), (7,)):
        params = SamplingParams(temperature=0, stop=stop)
        traces = [engine.generate((1, first), params, 24).trace for first in range(10)]
        kept = [trace for trace in traces if trace.rounds]
        stats = TraceStats.from_traces(kept)
        assert stats.tokens_per_round == pytest.approx(summarize(kept).mean_acceptance_length)
        assert (stats.stopped > 0) is bool(stop)


def test_a_tree_counts_depths_not_nodes():
    tree = a_round(6, 2, 5, draft_parents=(-1, -1, 0, 0, 1, 2), path=(0, 2))
    stats = TraceStats.from_traces([a_trace([tree])])
    assert stats.shares[0].drafted == 6
    assert stats.reach == (1.0, 1.0, 1.0)
    assert stats.tokens_per_round == 3


def test_prices_lie_between_the_counts_that_occurred():
    rounds = [a_round(1, 0, 5, draft_s=1.0), a_round(1, 1, 5, draft_s=2.0), a_round(3, 0, 5, draft_s=5.5, host_s=1.0)]
    prices = RoundPrices.from_rounds(rounds)
    assert [prices.of_drafting(count) for count in (0, 1, 2, 3, 8)] == [1.5, 1.5, 3.5, 5.5, 5.5]
    assert prices.of_host(2) == 0.5


def test_nothing_to_learn_from():
    with pytest.raises(ValueError, match="no rounds"):
        TraceStats.from_traces([a_trace([])])
    with pytest.raises(ValueError, match="no round"):
        RoundPrices.from_rounds([])
