"""Reported cases on warpers inside a block: P09, P10, P12."""

import math
from typing import Any

import pytest
import torch

from specdec_core.coins import ScriptedCoins
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.rules import verify_chain
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams

P09_PARAMS = SamplingParams(min_p=0.4, seed=1)
P09_LOGITS = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()


def test_p09_min_p_shapes_every_row() -> None:
    rows = P09_PARAMS.probs(P09_LOGITS.repeat(5, 1))
    assert rows.tolist() == [pytest.approx([0.625, 0.375, 0, 0])] * 5


@pytest.mark.parametrize("u", [0.0, 0.5, 0.999999])
def test_p09_a_filtered_draft_is_refused_for_any_uniform(u: float) -> None:
    p = P09_PARAMS.probs(P09_LOGITS.repeat(2, 1))
    assert verify_chain([2], None, p, ScriptedCoins([u, 0.5])).num_accepted == 0


@pytest.mark.parametrize(("u", "accepted"), [(0.78124, 1), (0.78126, 0)])
def test_p09_the_ratio_uses_the_filtered_law(u: float, accepted: int) -> None:
    p = P09_PARAMS.probs(P09_LOGITS.repeat(2, 1))
    q = torch.tensor([[0.8, 0.2, 0.0, 0.0]])
    assert verify_chain([0], q, p, ScriptedCoins([u, 0.5])).num_accepted == accepted


@pytest.mark.parametrize("rule", ["chain", "block", "recursive", "traversal", "target_only"])
@pytest.mark.parametrize(
    "ban",
    [
        {},
        {"logit_bias": {1: -math.inf}},
        {"bad_words": ((1,),)},
        {"bad_words": ((0, 1), (2, 1), (3, 1))},
        {"allowed_ids": (0, 2, 3)},
    ],
    ids=["min-p alone", "bias", "bad word", "bad words with a beginning", "allowed ids"],
)
def test_p09_min_p_and_bans_apply_at_every_slot(ban: dict[str, Any], rule: str, fixed_drafter) -> None:
    """Verified slots, the slot after them and plain steps alike; without a ban {0, 1} is left, with it {0}."""
    model = PrefixModel(4, lambda prefix: P09_LOGITS)
    params = SamplingParams(min_p=0.4, seed=1, **ban)
    drafter = fixed_drafter(lambda tokens, budget: [0, 0, 2, 0][:budget])
    generation = Engine(model, drafter, rule, 4).generate([0], params, 60)
    assert set(generation.tokens) == ({0} if ban else {0, 1})
    kept = 1.0 if ban else 0.625
    expected = [kept, kept, 0.0, kept]
    for round_ in generation.trace.rounds:
        assert round_.target_probs == pytest.approx(expected[: len(round_.draft_tokens)])
        assert round_.num_accepted <= 2


P10_LOGITS = [1.0, 0.9, 0.05]
P10_PARAMS = SamplingParams(temperature=0, frequency_penalty=0.5)
P10_PLAIN = (0, 1, 0, 1, 2, 0, 1)


def test_p10_plain_decoding() -> None:
    model = PrefixModel(3, lambda prefix: P10_LOGITS)
    assert Engine(model, None, "chain", 0).generate([2], P10_PARAMS, 7).tokens == P10_PLAIN


def test_p10_slot_j_counts_the_prefix_and_the_drafts_before_it(fixed_drafter) -> None:
    # token 3 is said once, so that the round starts with no penalised token
    def logits(prefix: tuple[int, ...]) -> list[float]:
        return [0.0, 0.0, 0.0, 9.0] if len(prefix) == 1 else [*P10_LOGITS, -9.0]

    drafter = fixed_drafter(lambda tokens, budget: [0, 0, 0, 0][:budget])
    stream = Engine(PrefixModel(4, logits), drafter, "chain", 4).stream([2], P10_PARAMS, 8)
    assert next(stream).tokens == (3,)
    first = next(stream).round
    assert first is not None
    assert (first.draft_tokens, first.num_accepted, first.emitted) == ((0, 0, 0, 0), 1, (0, 1))
    assert next(stream).tokens[0] == 0, "counts are [1, 1, 0] now: refused drafts are not counted"


def test_p10_one_penalty_for_the_whole_block_would_accept_all_four() -> None:
    block = P10_PARAMS.probs(torch.tensor([P10_LOGITS] * 5), [[2]] * 5, prompt_length=1)
    assert verify_chain([0] * 4, None, block, ScriptedCoins([0.0] * 5)).num_accepted == 4
    rows = P10_PARAMS.probs(torch.tensor([P10_LOGITS] * 5), [[2] + [0] * j for j in range(5)], prompt_length=1)
    verdict = verify_chain([0] * 4, None, rows, ScriptedCoins([0.0] * 5))
    assert (verdict.num_accepted, verdict.next_token) == (1, 1)


@pytest.mark.parametrize("gamma", [0, 1, 2, 5])
@pytest.mark.parametrize(
    "penalties",
    [
        {"frequency_penalty": 0.5},
        {"presence_penalty": 0.7},
        {"repetition_penalty": 1.5},
        {"bad_words": ((1,), (0, 0), (2, 3), (3, 2, 4), (4, 2))},
        {
            "repetition_penalty": 1.2,
            "frequency_penalty": 0.3,
            "presence_penalty": -0.2,
            "logit_bias": {1: 0.3},
            "bad_words": ((2, 2), (0, 3)),
            "allowed_ids": (0, 1, 2, 3),
        },
    ],
    ids=["frequency", "presence", "repetition", "bad words", "all"],
)
def test_p10_speculation_leaves_penalised_text_as_it_is(
    gamma: int, penalties, fixed_drafter, model_of, random_law
) -> None:
    law, greedy = random_law("p10", 5, zeros=False), SamplingParams(temperature=0, **penalties)
    plain = Engine(model_of(law, 5), None, "chain", 0).generate([1, 2, 1], greedy, 24).tokens
    drafters = (
        ModelDrafter(model_of(law, 5)),
        ModelDrafter(model_of(random_law("other", 5, zeros=False), 5)),
        NGramDrafter(),
        fixed_drafter(lambda tokens, budget: [tokens[-1]] * budget),
    )
    for drafter in drafters:
        assert Engine(model_of(law, 5), drafter, "chain", gamma).generate([1, 2, 1], greedy, 24).tokens == plain


def test_p12_no_overflow_near_temperature_zero() -> None:
    logits = torch.tensor([[1000.0, 999.9]])
    for temperature in (0.0, 1e-6, 1e-5, 1e-4):
        assert SamplingParams(temperature=temperature).probs(logits).tolist() == [[1.0, 0.0]]
    assert torch.isnan((logits / 1e-6).exp() / (logits / 1e-6).exp().sum()).any(), "what the naive formula gives"


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 9.9e-6])
def test_p12_draft_and_target_turn_greedy_at_the_same_temperature(temperature: float) -> None:
    # a near-tie: dividing by 1e-6 still leaves the runner-up a chance, greedy does not
    model = PrefixModel(2, lambda prefix: [1.0, 1.0 - 2.0**-20])
    params = SamplingParams(temperature=temperature, seed=3)
    assert params.is_greedy
    generation = Engine(model, ModelDrafter(model), "chain", 3).generate([0], params, 20)
    assert generation.tokens == (0,) * 20
    for round_ in generation.trace.rounds:
        assert set(round_.target_probs) <= {1.0}
        assert set(round_.draft_probs or ()) <= {1.0}
