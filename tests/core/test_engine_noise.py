"""Noise of whole engine runs: no number is read twice, seeds repeat, requests are independent, what is recorded."""

from collections.abc import Sequence

import pytest
from scipy import stats
import torch

from specdec_core.coins import NoiseKey, PhiloxCoins, ScriptedCoins
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.residual import residual
from specdec_core.toy import PrefixModel
from specdec_core.trace import Round
from specdec_core.warp import SamplingParams


class _Changing:
    name = "changing"

    def gamma(self, rounds: Sequence[object]) -> int:
        return len(rounds) % 5

    def may_continue(self, drafted: int, law: torch.Tensor) -> bool:
        return float(law.max()) < 0.7


@pytest.fixture
def pair(random_law, model_of):
    return model_of(random_law("noise p", 6), 6), model_of(random_law("noise q", 6), 6)


@pytest.mark.parametrize("controller", [0, 1, 4, _Changing()], ids=["0", "1", "4", "changing"])
@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_no_number_is_read_twice(drafter: str, controller, pair, noise_reads: list) -> None:
    target, draft = pair
    engine = Engine(target, ModelDrafter(draft) if drafter == "model" else NGramDrafter(), "chain", controller)
    for request in range(3):
        engine.generate([1, 2, 1, 2], SamplingParams(seed=5), 40, request=request)
    assert len(noise_reads) > 100
    assert len(set(noise_reads)) == len(noise_reads)
    assert {key[:2] for key in noise_reads} == {(5, 0), (5, 1), (5, 2)}


def test_every_purpose_is_read_at_its_own_key(pair, noise_reads: list) -> None:
    """The keys of each round: drafts and accepts by node, the redraw or bonus by row, all at the round's length."""
    target, draft = pair
    rounds = Engine(target, ModelDrafter(draft), "chain", 3).generate([1], SamplingParams(seed=1), 30).trace.rounds
    reads = set(noise_reads)
    assert (1, 0, 1, 0, "sample") in reads
    for r in rounds:
        mine = {(purpose, node) for _, _, length, node, purpose in reads if length == r.length}
        # a draw with a single candidate reads nothing, an accept always does
        assert {node for purpose, node in mine if purpose == "accept"} == set(range(r.num_tested))
        assert {node for purpose, node in mine if purpose == "draft"} <= set(range(len(r.draft_tokens)))
        last = ("recover", r.num_accepted) if r.kind == "recovered" else ("bonus", len(r.draft_tokens))
        assert {key for key in mine if key[0] in ("recover", "bonus")} <= {last}


def test_the_recorded_uniforms_are_the_ones_that_decided(pair) -> None:
    target, draft = pair
    rounds = Engine(target, ModelDrafter(draft), "chain", 4).generate([1, 3], SamplingParams(seed=8), 60).trace.rounds
    assert {r.kind for r in rounds} >= {"recovered", "bonus"}
    for r in rounds:
        assert len(r.uniforms) == len(r.draft_tokens) == len(r.target_probs)
        for node, (u, p) in enumerate(zip(r.uniforms, r.target_probs)):
            if node >= r.num_tested:
                assert u is None
                continue
            assert u == NoiseKey(8, 0, r.length, node, "accept").uniform()
            assert r.draft_probs is not None
            assert (u * r.draft_probs[node] < p) == (node < r.num_accepted)


@pytest.fixture
def long_run(pair) -> Engine:
    return Engine(pair[0], ModelDrafter(pair[1]), "chain", 3)


def test_the_same_seed_and_request_repeat_in_any_order(long_run: Engine) -> None:
    params = SamplingParams(seed=3)
    first = [long_run.generate([1], params, 25, request=r) for r in (0, 1, 2)]
    again = [long_run.generate([1], params, 25, request=r) for r in (2, 0, 1)]
    assert [g.tokens for g in first] == [again[1].tokens, again[2].tokens, again[0].tokens]
    assert len({g.tokens for g in first}) == 3


@pytest.mark.parametrize("change", [{"seed": 4}, {"request": 1}])
def test_another_seed_or_request_gives_another_text(change: dict[str, int], long_run: Engine) -> None:
    base = long_run.generate([1], SamplingParams(seed=3), 25).tokens
    other = long_run.generate(
        [1], SamplingParams(seed=change.get("seed", 3)), 25, request=change.get("request", 0)
    ).tokens
    assert other != base


def test_neighbouring_requests_and_seeds_are_independent() -> None:
    """Two fair tokens: the agreement of neighbours is a fair coin; 1,500 pairs, alpha 1e-4 each."""
    engine = Engine(PrefixModel(2, lambda prefix: [0.0, 0.0]), None, "chain", 0)
    by_request = [engine.generate([0], SamplingParams(seed=1), 1, request=r).tokens for r in range(1_501)]
    by_seed = [engine.generate([0], SamplingParams(seed=s), 1).tokens for s in range(1_501)]
    for texts in (by_request, by_seed):
        agree = sum(a == b for a, b in zip(texts, texts[1:]))
        assert stats.binomtest(agree, 1_500).pvalue > 1e-4


def test_coins_of_ones_own_replace_the_noise() -> None:
    model = PrefixModel(4, lambda prefix: [0.0] * 4)
    generation = Engine(model, None, "chain", 0).generate([0], None, 3, coins=ScriptedCoins([0.1, 0.99, 0.3]))
    assert generation.tokens == (0, 3, 1)
    assert generation.trace.settings["noise_seed"] is None


def test_a_source_of_ones_own_is_the_noise_of_its_seed(long_run: Engine) -> None:
    by_params = long_run.generate([1], SamplingParams(seed=6), 20)
    by_source = long_run.generate([1], SamplingParams(), 20, coins=PhiloxCoins(6))
    assert by_source.tokens == by_params.tokens
    assert by_source.trace.settings["noise_seed"] == 6


@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_recorded_tops_are_the_laws_of_each_slot(drafter: str, random_law, model_of) -> None:
    p, q = random_law("top p", 5, zeros=False), random_law("top q", 5, zeros=False)
    engine = Engine(
        model_of(p, 5), ModelDrafter(model_of(q, 5)) if drafter == "model" else NGramDrafter(), "chain", 3, record_top=5
    )
    rounds = engine.generate([1, 2, 1], SamplingParams(seed=2), 30).trace.rounds
    text = (1, 2, 1, *engine.generate([1, 2, 1], SamplingParams(seed=2), 30).tokens)
    assert any(r.draft_tokens for r in rounds)
    for r in rounds:
        assert r.top is not None
        assert len(r.top) == len(r.draft_tokens) + 1
        for slot, top in enumerate(r.top):
            prefix = text[: r.length] + r.draft_tokens[:slot]
            _assert_top(top.target, [float(x) for x in p(prefix)])
            if slot == len(r.draft_tokens):
                assert top.draft is None
                assert top.residual is None
            else:
                _assert_drafted_slot(r, slot, [float(x) for x in p(prefix)], [float(x) for x in q(prefix)])


def _assert_drafted_slot(r: Round, slot: int, p: list[float], q: list[float]) -> None:
    assert r.top is not None
    top, token = r.top[slot], r.draft_tokens[slot]
    assert r.target_probs[slot] == pytest.approx(p[token])
    if r.proposal == "deterministic":
        assert top.draft is None
        assert r.draft_probs is None
        q = [float(x == token) for x in range(len(p))]
    else:
        assert top.draft is not None
        assert r.draft_probs is not None
        _assert_top(top.draft, q)
        assert r.draft_probs[slot] == pytest.approx(q[token])
    assert top.residual is not None
    _assert_top(top.residual, residual(torch.tensor(p), torch.tensor(q)).tolist())


def _assert_top(top: Sequence[tuple[int, float]], law: list[float]) -> None:
    values = [value for _, value in top]
    assert values == sorted(values, reverse=True)
    assert dict(top) == pytest.approx({x: value for x, value in enumerate(law) if value > 1e-6}, abs=1e-6)


def test_no_tops_unless_asked(long_run: Engine) -> None:
    assert all(r.top is None for r in long_run.generate([1], SamplingParams(seed=1), 10).trace.rounds)


def test_settings_and_times_are_on_record(long_run: Engine) -> None:
    trace = long_run.generate([1], SamplingParams(seed=1, temperature=0.7), 10, request=4).trace
    assert trace.settings["rule"] == "chain"
    assert trace.settings["drafter"] == "model"
    assert trace.settings["controller"] == "constant(3)"
    assert (trace.settings["max_new_tokens"], trace.settings["request"], trace.settings["noise_seed"]) == (10, 4, 1)
    assert trace.settings["params"]["temperature"] == 0.7
    assert (trace.settings["dtype"], trace.settings["device"]) == ("float32", "cpu")
    assert trace.hardware["torch"] == torch.__version__
    assert trace.t_prefill_s > 0
    assert all(min(r.t_draft_s, r.t_verify_s, r.t_host_s) >= 0 for r in trace.rounds)
    assert [r.index for r in trace.rounds] == list(range(len(trace.rounds)))


def test_requests_half_the_range_apart_have_other_noise(long_run: Engine) -> None:
    params = SamplingParams(seed=3)
    texts = {long_run.generate([1, 2], params, 40, request=request).tokens for request in (1, 1 + 2**31)}
    assert len(texts) == 2
