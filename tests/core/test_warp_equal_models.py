"""Equal models and settings: p and q are the same bits at every slot and every draft is kept, whatever is set."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
import math
from typing import Any, ClassVar

from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
import pytest
import torch

from specdec_core.coins import Coins, PhiloxCoins
from specdec_core.draft import Draft
from specdec_core.drafters import ModelDrafter
from specdec_core.drafters.protocol import Context
from specdec_core.engine import Engine
from specdec_core.metrics import summarize
from specdec_core.rules import RULES, Rule, Verdict
from specdec_core.warp import SamplingParams

VOCAB = 7
PROMPT = [5, 1, 2, 1]
CHAIN_RULES = ("chain", "block", "recursive", "recursive_without_replacement", "traversal", "relaxed")


@st.composite
def any_params(draw: st.DrawFn) -> SamplingParams:
    token = st.integers(0, VOCAB - 1)
    penalty = st.sampled_from([0.0, 0.5, -0.3])
    return SamplingParams(
        repetition_penalty=draw(st.sampled_from([1.0, 1.3, 0.7])),
        frequency_penalty=draw(penalty),
        presence_penalty=draw(penalty),
        logit_bias=draw(st.dictionaries(token, st.sampled_from([1.5, -0.7, -math.inf]), max_size=2)),
        allowed_ids=draw(st.none() | st.lists(token, min_size=3, max_size=6).map(tuple)),
        bad_words=tuple(draw(st.lists(st.lists(token, min_size=1, max_size=3).map(tuple), max_size=3))),
        temperature=draw(st.sampled_from([1.0, 0.3, 2.0, 0.0])),
        top_k=draw(st.sampled_from([0, 2, 4])),
        top_p=draw(st.sampled_from([1.0, 0.9, 0.5])),
        min_p=draw(st.sampled_from([0.0, 0.05, 0.5])),
        seed=draw(st.integers(0, 99)),
    )


@pytest.fixture(scope="module")
def models(random_law, model_of):
    """Two models of one law with a memory of the whole text; -inf logits occur."""
    law = random_law("equal models", VOCAB)
    return model_of(law, VOCAB), model_of(law, VOCAB)


def watching(rule: Rule, seen: list[bool]) -> Rule:
    """`rule`, noting for each round whether the draft's laws are the target's, bit for bit."""

    def verify(drafted: Any, draft_probs: Any, target_probs: torch.Tensor, coins: Coins) -> Verdict:
        if draft_probs is not None:
            seen.append(torch.equal(torch.as_tensor(draft_probs), target_probs[:-1]))
        return rule.verify(drafted, draft_probs, target_probs, coins)

    return replace(rule, verify=verify)


@contextmanager
def bans_that_leave_nothing_are_no_example() -> Iterator[None]:
    """Several words together may ban all that the model and allowed_ids leave."""
    try:
        yield
    except ValueError as error:
        if "everything is banned in row" not in str(error):
            raise
        reject()


@settings(max_examples=40)
@example(SamplingParams(seed=1), "chain", 4)
@given(any_params(), st.sampled_from(CHAIN_RULES), st.integers(1, 6))
def test_p08_every_draft_of_an_equal_model_is_kept(models, params: SamplingParams, rule: str, gamma: int) -> None:
    seen: list[bool] = []
    target, draft = models
    engine = Engine(target, ModelDrafter(draft), watching(RULES[rule], seen), gamma)
    with bans_that_leave_nothing_are_no_example():
        generation = engine.generate(PROMPT, params, 22)
    assert seen
    assert all(seen)
    metrics = summarize(generation.trace)
    assert (metrics.acceptance_rate, metrics.alpha) == (1.0, 1.0)
    assert all(round_.draft_probs == round_.target_probs for round_ in generation.trace.rounds if round_.draft_tokens)


@settings(max_examples=25)
@given(any_params(), st.integers(1, 6))
def test_p08_coupled_drafts_of_an_equal_model_are_kept(models, params: SamplingParams, gamma: int) -> None:
    target, draft = models
    with bans_that_leave_nothing_are_no_example():
        generation = Engine(target, ModelDrafter(draft, coupled=True), "match", gamma).generate(PROMPT, params, 22)
    assert summarize(generation.trace).acceptance_rate == 1.0


@given(any_params(), st.integers(1, 5))
def test_a_chain_of_drafts_sees_the_history_of_each_slot(models, params: SamplingParams, budget: int) -> None:
    """The drafter's rows are the laws of its text, the drafts before the slot included."""
    drafter = ModelDrafter(models[1])
    drafter.start(30)
    coins = PhiloxCoins(params.seed).at(request=0, length=len(PROMPT))
    with bans_that_leave_nothing_are_no_example():
        draft = drafter.propose(Context(PROMPT, 3, params), budget, coins, lambda drafted, law: True)
    fed = torch.tensor([*PROMPT, *draft.tokens[:-1]])
    logits = models[0].forward(fed, cache=models[0].new_cache(30)).logits[len(PROMPT) - 1 :]
    histories = [[*PROMPT, *draft.tokens[:slot]] for slot in range(budget)]
    assert draft.draft_probs is not None
    assert torch.equal(draft.draft_probs, params.probs(logits, histories, prompt_length=3))


@dataclass(frozen=True)
class _StaleParams:
    """Parameters that know the history as it was when the round started, and nothing later."""

    params: SamplingParams
    tokens: tuple[int, ...]
    uses_history = False
    logit_bias: ClassVar[dict[int, float]] = {}
    allowed_ids = None
    bad_words = ()

    def probs(self, logits: torch.Tensor, history: None, *, prompt_length: int) -> torch.Tensor:
        return self.params.probs(logits, [self.tokens] * len(logits), prompt_length=prompt_length)


class _Forgetful(ModelDrafter):
    def propose(self, context: Context, budget: int, coins: Coins, may_continue: Any) -> Draft:
        stale: Any = _StaleParams(context.params, tuple(context.tokens))
        return super().propose(replace(context, params=stale), budget, coins, may_continue)


@pytest.mark.parametrize(
    "params",
    [SamplingParams(frequency_penalty=0.5, seed=1), SamplingParams(bad_words=((1, 1), (2, 1), (3, 1)), seed=1)],
    ids=["penalty", "bad words"],
)
def test_p10_a_drafter_that_forgets_its_own_drafts_is_refused_at_times(params: SamplingParams, models) -> None:
    """The property has teeth: with the planted slip the same models no longer agree."""
    metrics = {}
    for drafter in (ModelDrafter(models[1]), _Forgetful(models[1])):
        engine = Engine(models[0], drafter, "chain", 4)
        traces = [engine.generate(PROMPT, params, 40, request=request).trace for request in range(6)]
        metrics[type(drafter)] = summarize(traces).acceptance_rate
    assert metrics[ModelDrafter] == 1.0
    assert metrics[_Forgetful] < 1.0
