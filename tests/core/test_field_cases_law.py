"""Reported cases on the law of the output: P04, P05, P07, P08, P14, P19."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
import torch

from specdec_core.coins import Coins, PhiloxCoins, ScriptedCoins, inverse_cdf
from specdec_core.drafters import ModelDrafter
from specdec_core.drafters.protocol import Context
from specdec_core.engine import Engine
from specdec_core.laws import acceptance, deterministic_draft, output_law, target_law
from specdec_core.residual import residual_of_one_hot
from specdec_core.rules import Verdict, verify_chain
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams

F = Fraction
Law = list[Fraction]


def one_slot_law(p: Law, proposal: Law | int, q: Law | None) -> dict[int, Fraction]:
    """The law of the first token when the draft is drawn from `proposal` and judged with `q`."""

    def draft(prefix: tuple[int, ...], budget: int, coins: Coins) -> tuple[tuple[int, ...], list[Law] | None]:
        if budget == 0:
            return (), None
        if isinstance(proposal, int):
            return (proposal,), None if q is None else [q]
        return (coins.draw(proposal, node=0, purpose="draft"),), None if q is None else [q]

    pairs = output_law(verify_chain, lambda prefix: p, draft, (), 2)
    law: dict[int, Fraction] = {}
    for (first, _), chance in pairs.items():
        law[first] = law.get(first, F(0)) + chance
    return law


P04_P = [F(1, 2), F(1, 2), F(0), F(0)]
P04_RAW = [F(4, 10), F(3, 10), F(2, 10), F(1, 10)]
P04_DRAWN = [F(4, 7), F(3, 7), F(0), F(0)]


def test_p04_with_the_law_that_was_sampled_the_output_is_p() -> None:
    assert acceptance(P04_P, P04_DRAWN) == F(13, 14)
    assert one_slot_law(P04_P, P04_DRAWN, P04_DRAWN) == {0: F(1, 2), 1: F(1, 2)}


def test_p04_with_the_unfiltered_law_the_output_is_the_drafts() -> None:
    law = one_slot_law(P04_P, P04_DRAWN, P04_RAW)
    assert law == {0: F(4, 7), 1: F(3, 7)}
    assert sum(abs(law[token] - P04_P[token]) for token in law) / 2 == F(1, 14)


class _WatchingCoins:
    """Passes questions on and keeps the weights of every draft draw."""

    def __init__(self, coins: Coins) -> None:
        self.coins, self.weights = coins, []
        self.events = coins.events

    def accept(self, p: float, q: float, *, node: int) -> bool:
        return self.coins.accept(p, q, node=node)

    def draw(self, weights: torch.Tensor, *, node: int, purpose: str) -> int:
        if purpose == "draft":
            self.weights.append(weights.clone())
        return self.coins.draw(weights, node=node, purpose=purpose)


@pytest.mark.parametrize("params", [SamplingParams(top_k=2), SamplingParams(top_k=2, temperature=0.3, min_p=0.1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_p04_p19_draft_probs_are_the_very_numbers_that_were_sampled(params: SamplingParams, dtype: torch.dtype) -> None:
    raw = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().to(dtype)
    drafter = ModelDrafter(PrefixModel(4, lambda prefix: raw))
    drafter.start(20)
    coins = _WatchingCoins(PhiloxCoins(2).at(request=0, length=3))
    draft = drafter.propose(Context([1, 2, 3], 3, params), 4, coins, lambda drafted, law: True)
    assert draft.draft_probs is not None
    assert torch.equal(draft.draft_probs, torch.stack(coins.weights))
    assert torch.equal(draft.draft_probs[0], params.probs(raw[None])[0])
    assert (draft.draft_probs[:, 2:] == 0).all()


def test_p04_the_drafter_hands_over_the_filtered_law() -> None:
    drafter = ModelDrafter(PrefixModel(4, lambda prefix: torch.tensor([0.4, 0.3, 0.2, 0.1]).log()))
    drafter.start(20)
    coins = PhiloxCoins(2).at(request=0, length=3)
    draft = drafter.propose(Context([1], 1, SamplingParams(top_k=2)), 1, coins, lambda drafted, law: True)
    assert draft.draft_probs is not None
    assert draft.draft_probs[0].tolist() == pytest.approx([4 / 7, 3 / 7, 0, 0])


P05_P = [F(5, 10), F(3, 10), F(2, 10)]


def test_p05_a_deterministic_draft_is_judged_as_one_hot() -> None:
    assert residual_of_one_hot(P05_P, 0) == [0, F(6, 10), F(4, 10)]
    assert one_slot_law(P05_P, 0, None) == {0: F(5, 10), 1: F(3, 10), 2: F(2, 10)}
    one_hot = [F(1), F(0), F(0)]
    assert acceptance(P05_P, one_hot) == F(1, 2)
    assert one_slot_law(P05_P, 0, one_hot) == one_slot_law(P05_P, 0, None)


def test_p05_judged_with_the_models_softmax_the_law_is_bent() -> None:
    softmax = [F(8, 10), F(1, 10), F(1, 10)]
    assert one_slot_law(P05_P, 0, softmax) == {0: F(5, 8), 1: F(1, 4), 2: F(1, 8)}


def test_p05_whole_texts_with_a_deterministic_draft_have_the_targets_law(random_law) -> None:
    target = random_law("p05", 3)
    draft = deterministic_draft(lambda prefix: (sum(prefix) + len(prefix)) % 3, 2)
    assert output_law(verify_chain, target, draft, (1,), 5) == target_law(target, (1,), 5)


P07_P, P07_Q = torch.tensor([[0.25, 0.75], [0.25, 0.75]]), torch.tensor([[0.5, 0.5]])


def first_token(draft_u: float, accept_u: float) -> int:
    token = inverse_cdf(P07_Q[0], draft_u)
    verdict = verify_chain([token], P07_Q, P07_P, ScriptedCoins([accept_u, 0.5]))
    return token if verdict.num_accepted else verdict.next_token


def test_p07_one_number_for_draft_and_decision_bends_the_law() -> None:
    grid = [(k + 0.5) / 40 for k in range(40)]
    assert sum(first_token(u, u) == 0 for u in grid) / len(grid) == 0.5
    independent = [first_token(u, v) == 0 for u in grid for v in grid]
    assert sum(independent) / len(independent) == 0.25


@pytest.mark.parametrize("rounds", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_p07_the_librarys_noise_keeps_the_law(rounds: int, bulk_noise: None, noise_reads: list) -> None:
    """Alpha 1e-6: P(0) within 4.9 standard deviations (0.021 or 0.0067) of 0.25. Reuse would give 0.5."""
    source, zeros = PhiloxCoins(7), 0
    for request in range(rounds):
        coins = source.at(request=request, length=9)
        token = coins.draw((0.5, 0.5), node=0, purpose="draft")
        verdict = verify_chain([token], [[0.5, 0.5]], [[0.25, 0.75], [0.25, 0.75]], coins)
        zeros += (token if verdict.num_accepted else verdict.next_token) == 0
    assert abs(zeros / rounds - 0.25) < 4.9 * (0.25 * 0.75 / rounds) ** 0.5
    assert len(noise_reads) == len(set(noise_reads)), "a number was consumed twice"


P08_LOGITS = [2.0, 1.0, 0.0]


def test_p08_the_same_temperature_on_both_sides_accepts_everything() -> None:
    cold, warm = (SamplingParams(temperature=t).probs(torch.tensor([P08_LOGITS]))[0] for t in (0.5, 1.0))
    assert cold.tolist() == pytest.approx([0.86681, 0.11731, 0.01588], abs=5e-6)
    assert warm.tolist() == pytest.approx([0.66524, 0.24473, 0.09003], abs=5e-6)
    assert acceptance(cold, cold) == pytest.approx(1.0, abs=1e-6)
    assert acceptance(cold, warm) == pytest.approx(0.79843, abs=5e-6)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.5, seed=1),
        SamplingParams(temperature=1.3, top_k=3, top_p=0.9, min_p=0.05, seed=2),
        SamplingParams(repetition_penalty=1.4, frequency_penalty=0.6, presence_penalty=0.3, seed=3),
        SamplingParams(logit_bias={2: 1.5, 0: float("-inf")}, seed=4),
        SamplingParams(temperature=0, frequency_penalty=0.5),
    ],
    ids=["temperature", "filters", "penalties", "bias", "greedy with a penalty"],
)
@pytest.mark.parametrize("gamma", [1, 4])
def test_p08_identical_models_and_settings_accept_every_draft(params, gamma: int, random_law, model_of) -> None:
    law = random_law("p08", 6, zeros=False)
    engine = Engine(model_of(law, 6), ModelDrafter(model_of(law, 6)), "chain", gamma)
    for request in range(4):
        rounds = engine.generate([5, 1, 2], params, 30, request=request).trace.rounds
        assert sum(len(round_.draft_tokens) for round_ in rounds) > 0
        assert all(round_.num_accepted == len(round_.draft_tokens) for round_ in rounds)


def test_p08_one_sided_temperature_shows_as_refusals() -> None:
    model = PrefixModel(3, lambda prefix: P08_LOGITS)
    engine = Engine(model, ModelDrafter(model, temperature=1.0), "chain", 1)
    kept: list[int] = []
    for request in range(40):
        rounds = engine.generate([0], SamplingParams(temperature=0.5, seed=1), 40, request=request).trace.rounds
        kept += [round_.num_accepted for round_ in rounds if round_.draft_tokens]
    # alpha 1e-3 for a rate of 0.79843 over some 850 drafts
    assert abs(sum(kept) / len(kept) - 0.79843) < 3.3 * (0.79843 * 0.20157 / len(kept)) ** 0.5


def test_p14_unseeded_requests_are_independent() -> None:
    engine = Engine(PrefixModel(2, lambda prefix: [0.0, 0.0]), None, "chain", 0)
    tokens = [engine.generate([0], SamplingParams(), 1).tokens for _ in range(64)]
    assert set(tokens) == {(0,), (1,)}, "all equal has probability 2^-63"


def test_p14_a_seeded_request_repeats_and_its_seed_is_on_record() -> None:
    engine = Engine(PrefixModel(2, lambda prefix: [0.0, 0.0]), None, "chain", 0)
    first, again = (engine.generate([0], SamplingParams(seed=5), 40) for _ in range(2))
    assert first.tokens == again.tokens
    unseeded = engine.generate([0], SamplingParams(), 40)
    replayed = engine.generate([0], SamplingParams(seed=unseeded.trace.settings["noise_seed"]), 40)
    assert replayed.tokens == unseeded.tokens


def test_p19_a_law_rounded_after_the_draw_bends_the_output() -> None:
    drawn, judged = (torch.softmax(torch.tensor([8.0, 8.03]).to(t).float(), 0) for t in (torch.bfloat16, torch.float32))
    p = torch.tensor([0.2, 0.8])

    def law_of_token_0(q: torch.Tensor) -> float:
        return sum(float(drawn[x]) * _emits_0(p, q, x) for x in (0, 1))

    assert law_of_token_0(drawn) == pytest.approx(0.2, abs=1e-7)
    assert law_of_token_0(judged) == pytest.approx(0.20305, abs=5e-6)


def _emits_0(p: torch.Tensor, q: torch.Tensor, token: int) -> float:
    kept = min(1.0, float(p[token]) / float(q[token]))
    refused: Verdict = verify_chain([token], q[None], torch.stack([p, p]), ScriptedCoins([0.9999999, 0.5]))
    redrawn: Sequence[int] = [] if refused.num_accepted else [refused.next_token]
    return kept * (token == 0) + (1 - kept) * (0 in redrawn)
