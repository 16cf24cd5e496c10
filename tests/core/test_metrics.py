"""Metrics of traces: the TOY numbers, the counters' identity, positions, several traces together."""

import dataclasses

import pytest

from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.metrics import speedup, summarize
from specdec_core.toy import toy_pair
from specdec_core.trace import Round, Trace
from specdec_core.warp import SamplingParams

GREEDY = SamplingParams(temperature=0)


@pytest.fixture
def toy_trace() -> Trace:
    target, draft = toy_pair()
    return Engine(target, ModelDrafter(draft), "chain", 4).generate([1, 2, 3], GREEDY, 16).trace


def test_the_toy_numbers(toy_trace: Trace) -> None:
    metrics = summarize(toy_trace)
    assert (metrics.rounds, metrics.drafted, metrics.accepted, metrics.emitted) == (5, 17, 10, 16)
    assert metrics.tested == 14, "4 refusals and 10 kept"
    assert metrics.acceptance_rate == pytest.approx(10 / 17)
    assert metrics.alpha == pytest.approx(10 / 14)
    assert metrics.mean_acceptance_length == 15 / 5 == 3.0
    # kept 0, 3, 3, 3 of four and 1 of one
    assert metrics.acceptance_per_position == pytest.approx((4 / 5, 3 / 4, 3 / 4, 0.0))
    assert metrics.conditional_acceptance == pytest.approx((4 / 5, 1.0, 1.0, 0.0))


def test_survival_is_the_product_of_the_conditional_rates_when_every_round_drafts_alike() -> None:
    rounds = [_round(drafted=4, accepted=accepted) for accepted in (0, 1, 1, 2, 4, 4, 3)]
    metrics = summarize(_trace(rounds))
    product = 1.0
    for survival, conditional in zip(metrics.acceptance_per_position, metrics.conditional_acceptance):
        assert conditional is not None
        product *= conditional
        assert survival == pytest.approx(product)


def test_a_position_nobody_reached_has_no_conditional_rate() -> None:
    metrics = summarize(_trace([_round(drafted=3, accepted=0), _round(drafted=2, accepted=1)]))
    assert metrics.acceptance_per_position == (0.5, 0.0, 0.0)
    assert metrics.conditional_acceptance == (0.5, 0.0, None)


@pytest.mark.parametrize("gamma", range(7))
def test_emitted_is_one_plus_rounds_plus_accepted(gamma: int, random_law, model_of) -> None:
    target, draft = random_law("count", 4, zeros=False), random_law("count draft", 4, zeros=False)
    engine = Engine(model_of(target, 4), ModelDrafter(model_of(draft, 4)), "chain", gamma)
    for count in (1, 2, 7, 20):
        metrics = summarize(engine.generate([1], SamplingParams(seed=gamma), count).trace)
        assert metrics.emitted == count == 1 + metrics.rounds + metrics.accepted
        assert metrics.accepted <= metrics.tested <= metrics.drafted


def test_several_traces_are_added_up_not_averaged(toy_trace: Trace) -> None:
    short = Trace(prompt=(1,), prefill_token=3, rounds=[_round(drafted=1, accepted=1)])
    metrics = summarize([toy_trace, short])
    assert (metrics.rounds, metrics.drafted, metrics.accepted, metrics.emitted) == (6, 18, 11, 19)
    assert metrics.acceptance_rate == pytest.approx(11 / 18)
    assert summarize(iter([toy_trace])) == summarize(toy_trace)


def test_all_the_time_of_a_round_counts() -> None:
    times = {"t_draft_s": 0.1, "t_verify_s": 0.2, "t_host_s": 0.2}
    entry = dataclasses.replace(_round(drafted=2, accepted=2), **times)
    assert summarize(_trace([entry] * 2)).tokens_per_s == pytest.approx(6.0)


def test_positions_of_a_tree_are_its_depths() -> None:
    """Five nodes on two levels: the round has two positions, however many siblings stand in between."""
    tree = dataclasses.replace(_round(drafted=5, accepted=1), draft_parents=(-1, -1, -1, 0, 1))
    metrics = summarize(_trace([tree]))
    assert metrics.acceptance_per_position == (1.0, 0.0)


def test_speedup_is_a_ratio_of_seconds_per_token() -> None:
    plain = _trace([dataclasses.replace(_round(drafted=0, accepted=0), t_verify_s=0.2)] * 4)
    fast = _trace([dataclasses.replace(_round(drafted=2, accepted=2), t_draft_s=0.1, t_verify_s=0.2)] * 2)
    assert summarize(plain).tokens_per_s == pytest.approx(5.0)
    assert summarize(fast).tokens_per_s == pytest.approx(10.0)
    assert speedup([plain], [fast]) == pytest.approx(2.0)
    assert speedup([fast], [plain]) == pytest.approx(0.5), "values below 1 are values"
    assert speedup([], [fast]) is None
    assert speedup([plain], [_trace([])]) is None


def _round(*, drafted: int, accepted: int) -> Round:
    return Round(
        index=0,
        length=2,
        draft_tokens=(1,) * drafted,
        draft_parents=tuple(range(-1, drafted - 1)),
        proposal="deterministic",
        target_probs=(0.5,) * drafted,
        draft_probs=None,
        uniforms=(0.5,) * drafted,
        num_accepted=accepted,
        num_tested=min(accepted + 1, drafted),
        path=tuple(range(accepted)),
        next_token=0,
        kind="recovered" if accepted < drafted else "bonus",
        emitted=(1,) * accepted + (0,),
        target_rows=2 + accepted,
        draft_rows=None,
        block_table=None,
        top=None,
        t_draft_s=0.0,
        t_verify_s=0.0,
        t_host_s=0.0,
    )


def _trace(rounds: list[Round]) -> Trace:
    return Trace(prompt=(1,), prefill_token=1, rounds=rounds)
