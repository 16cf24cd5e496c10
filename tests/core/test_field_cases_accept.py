"""Reported cases on accepting, refusing and redrawing: P01-P03, P11, P15-P18, P21."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import torch

from specdec_core.coins import PhiloxCoins, ScriptedCoins, inverse_cdf, noise
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.residual import residual, residual_of_one_hot
from specdec_core.rules import verify_chain, verify_greedy
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams

LARGEST_BELOW_ONE = float(np.nextafter(1.0, 0.0))


@pytest.mark.parametrize("law", [[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
def test_p01_residual_of_equal_laws_is_p_and_never_nan(law: list[float]) -> None:
    p = torch.tensor(law)
    assert torch.equal(residual(p, p.clone()), p.double())
    exact = [Fraction(mass).limit_denominator(10) for mass in law]
    assert residual(exact, list(exact)) == exact


def test_p01_residual_of_a_one_hot_p_and_the_same_proposal_is_p() -> None:
    assert residual_of_one_hot(torch.tensor([0.0, 1.0, 0.0]), 1).tolist() == [0.0, 1.0, 0.0]
    assert residual_of_one_hot([Fraction(0), Fraction(1), Fraction(0)], 1) == [0, 1, 0]


def test_p01_equal_laws_never_reach_the_residual() -> None:
    p = torch.tensor([[0.0, 1.0, 0.0]])
    verdict = verify_chain([1], p, torch.cat([p, p]), ScriptedCoins([0.999999, 0.5]))
    assert (verdict.num_accepted, verdict.kind) == (1, "bonus")


@given(
    weights=st.lists(st.integers(0, 1000), min_size=1, max_size=6).filter(any),
    token=st.integers(0, 5),
    u=st.one_of(st.floats(0, LARGEST_BELOW_ONE), st.just(LARGEST_BELOW_ONE)),
)
def test_p01_with_equal_laws_every_uniform_accepts(weights: list[int], token: int, u: float) -> None:
    law = torch.tensor(weights, dtype=torch.float32) / sum(weights)
    token %= len(weights)
    if not weights[token]:
        return
    verdict = verify_chain([token], law[None], torch.stack([law, law]), ScriptedCoins([u, 0.0]))
    assert verdict.num_accepted == 1


@pytest.fixture(params=["chain", "greedy"])
def rule_name(request: pytest.FixtureRequest) -> str:
    return request.param


P02_P, P02_Q = torch.tensor([[0.6, 0.4, 0.0]]), torch.tensor([[0.2, 0.3, 0.5]])


@pytest.mark.parametrize("v", [0.0, 0.5, 0.79, 0.81, LARGEST_BELOW_ONE])
def test_p02_uniform_exactly_zero_does_not_accept_what_the_target_filtered_out(v: float) -> None:
    verdict = verify_chain([2], P02_Q, torch.cat([P02_P, P02_P]), ScriptedCoins([0.0, v]))
    assert (verdict.num_accepted, verdict.kind) == (0, "recovered")
    assert verdict.next_token == (0 if v < 0.8 else 1)
    assert residual(P02_P[0], P02_Q[0]).tolist() == pytest.approx([0.8, 0.2, 0.0])


def test_p02_production_coins_refuse_at_zero_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise.NoiseKey, "words", lambda key, ids: np.zeros(len(ids), dtype=np.uint32))
    coins = PhiloxCoins(1).at(request=0, length=1)
    assert coins.accept(1e-30, 1.0, node=0)
    assert not coins.accept(0.0, 0.5, node=1)
    assert coins.events[1].uniform == 0.0


def test_p02_a_comparison_that_is_not_strict_lets_token_2_out() -> None:
    class Lenient(ScriptedCoins):
        def accept(self, p: float, q: float, *, node: int) -> bool:
            return self._next("accept", node) * q <= p

    verdict = verify_chain([2], P02_Q, torch.cat([P02_P, P02_P]), Lenient([0.0, 0.0]))
    assert verdict.path == (0,), "the planted bug is what the cases above guard against"


P03_P = torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
P03_Q = torch.full((4, 2), 0.5)


def test_p03_acceptance_stops_at_the_first_refusal() -> None:
    coins = ScriptedCoins([0.9, 0.6, 0.1, 0.1])
    verdict = verify_chain([0, 0, 0, 0], P03_Q, P03_P, coins)
    assert (verdict.num_accepted, verdict.path, verdict.next_token) == (1, (0,), 1)
    assert coins.used == [0.9, 0.6, 0.1], "two flags and one redraw; slots 3 and 4 are never judged"
    assert residual(P03_P[1], P03_Q[1]).tolist() == [0.0, 1.0]


def test_p03_flags_alone_would_count_three() -> None:
    flags = [
        verify_chain([0], P03_Q[:1], P03_P[[slot, 4]], ScriptedCoins([u, 0.0])).num_accepted
        for slot, u in enumerate([0.9, 0.6, 0.1, 0.1])
    ]
    assert flags == [1, 0, 1, 1]


P11_RAW = torch.tensor([[0.3, 0.5, 0.2]])
P11_Q = torch.tensor([[0.2, 0.5, 0.3]])


@pytest.mark.parametrize("u", [0.0, 0.3, 0.999999])
def test_p11_greedy_judges_the_one_hot_law_not_the_raw_one(u: float) -> None:
    p = SamplingParams(temperature=0).probs(P11_RAW.log())
    assert p.tolist() == [[0.0, 1.0, 0.0]]
    verdict = verify_chain([0], P11_Q, torch.cat([p, p]), ScriptedCoins([u, 0.5]))
    assert (verdict.num_accepted, verdict.next_token) == (0, 1)
    by_rule = verify_greedy([0], P11_Q, torch.cat([p, p]))
    assert by_rule == verdict


@pytest.mark.parametrize("u", [0.0, 0.5, LARGEST_BELOW_ONE])
def test_p11_under_sampling_the_same_draft_is_always_kept(u: float) -> None:
    p = SamplingParams().probs(P11_RAW.log())
    assert verify_chain([0], P11_Q, torch.cat([p, p]), ScriptedCoins([u, 0.5])).num_accepted == 1


@pytest.mark.parametrize("vocab", [1, 7, 9, 17, 8193])
def test_p15_no_redraw_outside_the_support_or_the_vocabulary(vocab: int) -> None:
    p, q = torch.zeros(vocab), torch.zeros(vocab)
    p[:2], q[0] = 1 / min(2, vocab), 1.0
    token = min(1, vocab - 1)
    rest = residual(p, q)
    assert rest.nonzero()[:, 0].tolist() == [token]
    assert rest[token] == 1
    for request in range(20):
        assert PhiloxCoins(3).at(request=request, length=5).draw(rest, node=0, purpose="recover") == token
        # two candidates, so that a race is really run over a vocabulary that is no multiple of the block
        assert PhiloxCoins(3).at(request=request, length=6).draw(p, node=0, purpose="sample") in range(min(2, vocab))


def test_p16_zero_weight_tokens_are_never_drawn() -> None:
    weights = [0.0, 0.5, 0.5, 0.0]
    assert inverse_cdf(weights, 0.0) == 1
    assert inverse_cdf(weights, 1 - 2**-24) == 2
    assert inverse_cdf(weights, LARGEST_BELOW_ONE) == 2


def test_p16_a_running_sum_that_falls_short_stays_inside_the_support() -> None:
    weights = torch.tensor([1 / 12] * 12 + [0.0], dtype=torch.float32)
    v = float(np.float32(1 - 2**-24))
    assert inverse_cdf(weights, v) == 11
    naive = int(np.searchsorted(np.cumsum(weights.numpy(), dtype=np.float32), np.float32(v)))
    assert naive == 13, "the case must show the slip it guards against"


@pytest.mark.parametrize("weights", [[0.0, 0.5, 0.5, 0.0], [0.0] * 7 + [1e-30, 0.0], [0.0, 1e-6, 0.0, 1.0, 0.0]])
def test_p16_production_races_leave_zero_weights_out(weights: list[float]) -> None:
    support = {index for index, weight in enumerate(weights) if weight}
    drawn = {PhiloxCoins(5).at(request=r, length=1).draw(weights, node=0, purpose="bonus") for r in range(200)}
    assert drawn <= support


def test_p17_full_acceptance_adds_the_bonus_token() -> None:
    q = torch.full((2, 5), 0.2)
    p = torch.cat([q, torch.tensor([[0.0, 0, 0, 0, 1]])])
    verdict = verify_chain([3, 1], q, p, ScriptedCoins([0.9, 0.9, 0.9]))
    assert (verdict.num_accepted, verdict.path, verdict.next_token, verdict.kind) == (2, (0, 1), 4, "bonus")


def test_p17_the_engine_emits_accepted_plus_one(spoken_model) -> None:
    target = spoken_model(5, lambda prefix: 4 if len(prefix) == 4 else 2)
    round_ = Engine(target, ModelDrafter(spoken_model(5, lambda prefix: 2)), "chain", 2).generate(
        [0], SamplingParams(temperature=0), 4
    )
    first = round_.trace.rounds[0]
    assert (first.draft_tokens, first.num_accepted, first.emitted, first.kind) == ((2, 2), 2, (2, 2, 4), "bonus")


def test_p18_the_first_draft_is_judged_by_the_row_before_it(spoken_model, rule_name: str) -> None:
    # after the draft the target would say 1: a rule that reads the row behind the draft accepts it
    answers = {2: 1, 3: 2, 4: 1}
    target = spoken_model(3, lambda prefix: answers.get(len(prefix), 0))
    generation = Engine(target, NGramDrafter(), rule_name, 1).generate([1, 1], SamplingParams(temperature=0), 3)
    first = generation.trace.rounds[0]
    assert generation.trace.tokens[:3] == (1, 1, 1)
    assert (first.draft_tokens, first.num_accepted, first.emitted) == ((1,), 0, (2,))


P21_LOGITS = [1.0, 3.0, 3.0]


def test_p21_ties_go_to_the_lowest_index_in_decode_draft_and_verify(rule_name: str, fixed_drafter) -> None:
    greedy = SamplingParams(temperature=0)
    model = PrefixModel(3, lambda prefix: P21_LOGITS)
    assert greedy.probs(torch.tensor([P21_LOGITS])).tolist() == [[0.0, 1.0, 0.0]]
    assert Engine(model, None, rule_name, 0).generate([0], greedy, 3).tokens == (1, 1, 1)
    drafted = Engine(model, ModelDrafter(model), rule_name, 2).generate([0], greedy, 4)
    assert drafted.tokens == (1, 1, 1, 1)
    assert drafted.trace.rounds[0].draft_tokens == (1, 1)
    refused = Engine(model, fixed_drafter(lambda tokens, budget: [2] * budget), rule_name, 2).generate([0], greedy, 3)
    assert refused.tokens == (1, 1, 1)
    assert all(round_.num_accepted == 0 for round_ in refused.trace.rounds)


def test_p21_the_greedy_rule_reads_logits_the_same_way() -> None:
    rows = torch.tensor([P21_LOGITS, P21_LOGITS])
    assert verify_greedy([2], None, rows).num_accepted == 0
    assert verify_greedy([1], None, rows).next_token == 1
    exact = [[Fraction(1, 7), Fraction(3, 7), Fraction(3, 7)]] * 2
    assert verify_greedy([2], None, exact).next_token == 1
