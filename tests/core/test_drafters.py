"""Drafters by themselves: budgets, laws, caches, what they forget; lookup against a slow search."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
import pytest
import torch

from specdec_core.coins import PhiloxCoins, ScriptedCoins
from specdec_core.draft import Draft
from specdec_core.drafters import Context, ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.rules import Verdict
from specdec_core.toy import PrefixModel, toy_pair
from specdec_core.warp import SamplingParams


def always(drafted: int, law: torch.Tensor) -> bool:
    return True


def slow_lookup(tokens: list[int], budget: int, max_n: int, min_n: int, stop: Sequence[int]) -> list[int]:
    """Every occurrence of the longest suffix that occurred before: the latest that fills the budget, else the first."""
    for n in range(max_n, min_n - 1, -1):
        suffix = tokens[len(tokens) - n :]
        if n > len(tokens):
            continue
        starts = [place + n for place in range(len(tokens) - n) if tokens[place : place + n] == suffix]
        if starts:
            filling = [start for start in starts if start + budget <= len(tokens)]
            start = filling[-1] if filling else starts[0]
            copied = tokens[start : start + budget]
            return copied[: next((i for i, token in enumerate(copied) if token in stop), len(copied))]
    return []


@given(
    tokens=st.lists(st.integers(0, 3), max_size=14),
    grown=st.integers(0, 14),
    budget=st.integers(0, 6),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)).map(sorted),
    stop=st.lists(st.integers(0, 3), max_size=1),
)
def test_lookup_is_the_slow_search_and_may_be_fed_piece_by_piece(
    tokens: list[int], grown: int, budget: int, sizes: list[int], stop: list[int]
) -> None:
    min_n, max_n = sizes
    params, coins = SamplingParams(stop=tuple(stop)), ScriptedCoins([])
    drafter = NGramDrafter(max_n, min_n)
    # an earlier call on a shorter text must not change the answer
    drafter.propose(Context(tokens[:grown], 0, params), 3, coins, always)
    draft = drafter.propose(Context(tokens, 0, params), budget, coins, always)
    assert list(draft.tokens) == slow_lookup(tokens, budget, max_n, min_n, stop)
    assert (draft.proposal, draft.draft_probs) == ("deterministic", None)
    assert draft.tree.is_chain
    assert coins.used == []


def laws_by_length(prefix: tuple[int, ...]) -> list[float]:
    """Logits that tell every prefix apart."""
    return [((sum(prefix) * 7 + len(prefix) * 3 + index * 5) % 11) / 3 for index in range(5)]


@pytest.fixture
def drafter() -> ModelDrafter:
    drafter = ModelDrafter(PrefixModel(5, laws_by_length))
    drafter.start(40)
    return drafter


def propose(drafter: ModelDrafter, tokens: list[int], budget: int, params: SamplingParams | None = None) -> Draft:
    coins = PhiloxCoins(3).at(request=0, length=len(tokens))
    return drafter.propose(Context(tokens, 1, params or SamplingParams()), budget, coins, always)


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_a_model_drafts_its_budget_each_from_the_law_of_its_slot(drafter: ModelDrafter, budget: int) -> None:
    draft = propose(drafter, [1, 2, 3], budget)
    assert len(draft.tokens) == budget
    assert draft.draft_probs is not None
    for node in range(budget):
        prefix = (1, 2, 3, *draft.tokens[:node])
        expected = SamplingParams().probs(torch.tensor([laws_by_length(prefix)]))[0]
        assert torch.equal(draft.draft_probs[node], expected)
        coins = PhiloxCoins(3).at(request=0, length=3)
        assert coins.draw(expected, node=node, purpose="draft") == draft.tokens[node]
    assert drafter.cache_rows == 3 + budget - 1, "the last draft is sampled, never fed"


@pytest.mark.parametrize("kept", range(5))
def test_refused_drafts_leave_the_cache(drafter: ModelDrafter, kept: int) -> None:
    draft = propose(drafter, [1, 2, 3], 4)
    kind = "bonus" if kept == 4 else "recovered"
    drafter.observe(Verdict(kept, tuple(range(kept)), 0, kind), None)
    assert drafter.cache_rows == 3 + min(kept, 3)
    text = [1, 2, 3, *draft.tokens[:kept], 0]
    again, fresh = propose(drafter, text, 3), ModelDrafter(PrefixModel(5, laws_by_length))
    fresh.start(40)
    alone = propose(fresh, text, 3)
    assert again.tokens == alone.tokens
    assert again.draft_probs is not None
    assert alone.draft_probs is not None
    assert torch.equal(again.draft_probs, alone.draft_probs)


def test_rounds_without_a_draft_are_caught_up_on(drafter: ModelDrafter) -> None:
    propose(drafter, [1, 2], 2)
    drafter.observe(Verdict(0, (), 4, "recovered"), None)
    assert drafter.cache_rows == 2
    # the controller drafted nothing for a while; then five tokens are fed at once
    late = propose(drafter, [1, 2, 4, 0, 1, 3, 2], 1)
    assert late.draft_probs is not None
    expected = SamplingParams().probs(torch.tensor([laws_by_length((1, 2, 4, 0, 1, 3, 2))]))[0]
    assert torch.equal(late.draft_probs[0], expected)


def test_start_forgets_the_request_before(drafter: ModelDrafter) -> None:
    first = propose(drafter, [1, 2, 3], 3)
    propose(drafter, [1, 2, 3, 4, 4, 4], 3)
    drafter.start(40)
    assert drafter.cache_rows == 0
    assert propose(drafter, [1, 2, 3], 3).tokens == first.tokens


def test_the_cache_has_room_for_the_request_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = toy_pair()
    asked: list[int] = []
    make = model.new_cache

    def noted(capacity: int) -> object:
        asked.append(capacity)
        return make(capacity)

    monkeypatch.setattr(model, "new_cache", noted)
    for capacity in (7, model.max_length + 9):
        ModelDrafter(model).start(capacity)
    assert asked == [7, model.max_length]


def test_a_drafters_own_temperature_replaces_the_requests() -> None:
    cold = ModelDrafter(PrefixModel(5, laws_by_length), temperature=0.3)
    cold.start(10)
    draft = propose(cold, [1, 2], 1, SamplingParams(temperature=1.5, top_k=3))
    expected = SamplingParams(temperature=0.3, top_k=3).probs(torch.tensor([laws_by_length((1, 2))]))[0]
    assert draft.draft_probs is not None
    assert torch.equal(draft.draft_probs[0], expected)


@pytest.mark.parametrize("temperature", [-1.0, float("nan")])
def test_a_bad_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature is"):
        ModelDrafter(PrefixModel(5, laws_by_length), temperature=temperature)


def test_may_continue_is_asked_with_the_law_before_each_draft(drafter: ModelDrafter) -> None:
    asked: list[tuple[int, torch.Tensor]] = []

    def twice(drafted: int, law: torch.Tensor) -> bool:
        asked.append((drafted, law))
        return drafted < 2

    coins = PhiloxCoins(3).at(request=0, length=3)
    draft = drafter.propose(Context([1, 2, 3], 1, SamplingParams()), 5, coins, twice)
    assert [drafted for drafted, _ in asked] == [0, 1, 2]
    assert len(draft.tokens) == 2
    assert draft.draft_probs is not None
    assert torch.equal(draft.draft_probs, torch.stack([law for _, law in asked[:2]]))
    drafter.observe(Verdict(2, (0, 1), 4, "bonus"), None)
    assert drafter.cache_rows == 5, "both drafts are fed: the second was, to see the law that was declined"


def test_penalties_see_the_drafts_before_each_slot(drafter: ModelDrafter) -> None:
    params = SamplingParams(frequency_penalty=0.9, repetition_penalty=1.3)
    draft = propose(drafter, [1, 2, 3], 4, params)
    assert draft.draft_probs is not None
    for node in range(4):
        text = [1, 2, 3, *draft.tokens[:node]]
        logits = torch.tensor([laws_by_length(tuple(text))])
        assert torch.equal(draft.draft_probs[node], params.probs(logits, [text], prompt_length=1)[0])


def test_the_engine_tells_a_drafter_what_became_of_its_draft(spoken_model, fixed_drafter) -> None:
    target = spoken_model(9, lambda prefix: len(prefix) % 9)
    drafter = fixed_drafter(lambda tokens, budget: [len(tokens) % 9, 8, 8][:budget])
    generation = Engine(target, drafter, "chain", 3).generate([0], SamplingParams(temperature=0, stop=(6,)), 20)
    rounds = generation.trace.rounds
    assert generation.tokens == (1, 2, 3, 4, 5, 6)
    assert drafter.budgets == [3] * len(rounds)
    for verdict, r in zip(drafter.verdicts, rounds, strict=True):
        # the last token of a round is the pending one, a stop token inside the block too
        assert verdict.num_accepted == len(verdict.path) == len(r.emitted) - 1
        assert verdict.next_token == r.emitted[-1]


def test_a_drafter_shared_by_two_running_requests_is_refused() -> None:
    """It used to end in a RuntimeError of torch.stack, or in drafts from the other request's rows."""
    target, draft = toy_pair()
    shared = ModelDrafter(draft)
    greedy = SamplingParams(temperature=0)
    first = Engine(target, shared, "chain", 4).stream([1, 2, 3], greedy, 20)
    next(first)
    second = Engine(target, shared, "chain", 4).stream([1, 2, 3], greedy, 20)
    # the newer stream has the drafter; the older one stops before it reads a row of another request
    with pytest.raises(ValueError, match="overtaken: its drafter serves a newer one"):
        next(first)
    assert sum(len(step.tokens) for step in second) == 20
