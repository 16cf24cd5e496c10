"""Reported cases on requests that must not touch each other, logprobs and skipped drafts: P13, P56, P60."""

from collections.abc import Sequence
import itertools
import math

import pytest
import torch

from specdec_core.coins import ScriptedCoins
from specdec_core.draft import Draft, DraftTree
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.logprobs import logprobs
from specdec_core.metrics import summarize
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams

P13_A = SamplingParams(seed=7, bad_words=((1, 1),), frequency_penalty=0.2)
P13_OTHERS = {
    "B": SamplingParams(temperature=0.7),
    "C": SamplingParams(seed=9, allowed_ids=(0, 2, 4), top_k=2),
}


@pytest.mark.parametrize("order", list(itertools.permutations("ABC")) + [("A",), ("B", "A", "A")], ids="".join)
@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_p13_a_seeded_request_does_not_feel_its_neighbours(
    order: Sequence[str], drafter: str, random_law, model_of
) -> None:
    """One engine and drafter serve A (seed 7), B (no seed) and C (seed 9) in any order, with settings of their own."""
    law, other = random_law("p13 p", 6, zeros=False), random_law("p13 q", 6, zeros=False)

    def fresh() -> Engine:
        by = ModelDrafter(model_of(other, 6)) if drafter == "model" else NGramDrafter()
        return Engine(model_of(law, 6), by, "chain", 3, record_top=6)

    alone, engine = fresh().generate([1, 2, 1], P13_A, 30), fresh()
    for name in order:
        prompt = [1, 2, 1] if name == "A" else [4, 0, 4, 0, 5]
        found = engine.generate(prompt, P13_A if name == "A" else P13_OTHERS[name], 30)
        assert len(found.tokens) == 30
        if name == "A":
            assert found.tokens == alone.tokens
            assert [r.num_accepted for r in found.trace.rounds] == [r.num_accepted for r in alone.trace.rounds]
            assert [logprobs(r) for r in found.trace.rounds] == [logprobs(r) for r in alone.trace.rounds]
        if name == "C":
            assert set(found.tokens) <= {0, 2, 4}


P56_P = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]
P56_Q = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]


@pytest.fixture
def p56_engine(fixed_drafter) -> Engine:
    """After the prompt and one token come the slots of the case."""

    def logits(prefix: tuple[int, ...]) -> torch.Tensor:
        return torch.tensor(P56_P[max(0, min(1, len(prefix) - 2))]).log()

    def draft(tokens: Sequence[int], budget: int) -> Draft:
        return Draft(DraftTree.chain([0, 2]), torch.tensor(P56_Q), "chain") if budget >= 2 else Draft.empty()

    return Engine(PrefixModel(3, logits), fixed_drafter(draft, proposal="chain"), "chain", 2, record_top=3)


def test_p56_logprobs_are_those_of_the_target_for_every_emitted_token(p56_engine: Engine) -> None:
    # the first number draws the prefill token, then: accept, refuse, redraw
    coins = ScriptedCoins([0.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0])
    record = p56_engine.generate([1], SamplingParams(), 4, coins=coins).trace.rounds[0]
    assert (record.draft_tokens, record.num_accepted, record.emitted) == ((0, 2), 1, (0, 1))
    assert record.top is not None
    assert record.top[1].residual == ((1, 1.0),), "ln of the residual would be 0"
    assert logprobs(record) == pytest.approx([-0.356675, -0.223144], abs=1e-6)


@pytest.mark.parametrize("gamma", [0, 3])
def test_p56_logprobs_of_whole_texts_are_those_of_plain_decoding(gamma: int, random_law, model_of) -> None:
    """Accepted, recovered, bonus and plain tokens alike; the text is teacher-forced for comparison."""
    law = random_law("p56", 6, zeros=False)
    engine = Engine(model_of(law, 6), ModelDrafter(model_of(random_law("p56 q", 6), 6)), "chain", gamma, record_top=6)
    generation = engine.generate([1, 2], SamplingParams(seed=3), 40)
    text, kinds = [1, 2, generation.tokens[0]], set()
    for record in generation.trace.rounds:
        kinds.add(record.kind)
        for token, found in zip(record.emitted, logprobs(record), strict=True):
            assert found == pytest.approx(math.log(law(tuple(text))[token]), abs=1e-6)
            text.append(token)
    assert kinds >= ({"recovered", "bonus"} if gamma else {"plain"})


def test_p56_what_was_not_recorded_is_not_made_up(p56_engine: Engine) -> None:
    engine = Engine(p56_engine.target, None, "chain", 0)
    record = engine.generate([1], SamplingParams(seed=1), 3).trace.rounds[0]
    with pytest.raises(ValueError, match="round 0 did not record the probability of token"):
        logprobs(record)


def test_p60_drafts_that_were_never_verified_do_not_count(spoken_model, fixed_drafter) -> None:
    """A draft of 2 is dropped as too short; then 5 are verified and 4 kept: 4/5, not 4/7."""
    considered: list[int] = []

    def draft(tokens: Sequence[int], budget: int) -> Draft | list[int]:
        right = [(tokens[-1] + 1 + place) % 9 for place in range(5)]
        drafted = right[:2] if not considered else [*right[:4], (right[4] + 1) % 9]
        considered.append(len(drafted))
        return Draft.empty() if len(drafted) < 3 else drafted

    engine = Engine(spoken_model(9, lambda prefix: (prefix[-1] + 1) % 9), fixed_drafter(draft), "chain", 5)
    stream = engine.stream([0], SamplingParams(temperature=0), 30)
    for _ in range(3):
        next(stream)
    rounds = stream.generation.trace.rounds
    assert [(len(r.draft_tokens), r.num_accepted, r.kind) for r in rounds] == [(0, 0, "plain"), (5, 4, "recovered")]
    assert considered == [2, 5]
    metrics = summarize(stream.generation.trace)
    assert (metrics.drafted, metrics.accepted, metrics.acceptance_rate) == (5, 4, 4 / 5)
    assert metrics.acceptance_per_position == (1, 1, 1, 1, 0)
