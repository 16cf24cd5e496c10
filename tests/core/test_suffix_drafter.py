"""The suffix drafter by itself: what it copies, how far, from where; reported cases P40-P44 as they apply to it."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from specdec_core.coins import ScriptedCoins
from specdec_core.drafters import Context, SuffixDrafter
from specdec_core.engine import Engine
from specdec_core.laws import output_law, target_law
from specdec_core.rules import verify_block, verify_chain
from specdec_core.suffix_automaton import SEPARATOR, corpus_of
from specdec_core.warp import SamplingParams

GREEDY = SamplingParams(temperature=0)


def ask(drafter: SuffixDrafter, tokens: Sequence[int], budget: int, stop: tuple[int, ...] = ()) -> tuple[int, ...]:
    coins = ScriptedCoins([])
    context = Context(list(tokens), len(tokens), SamplingParams(stop=stop))
    draft = drafter.propose(context, budget, coins, lambda drafted, law: True)
    assert (draft.proposal, draft.draft_probs, coins.used) == ("deterministic", None, [])
    assert draft.tree.is_chain
    return draft.tokens


def fresh(tokens: Sequence[int], budget: int, stop: tuple[int, ...] = (), **options: Any) -> tuple[int, ...]:
    return ask(SuffixDrafter(**{"per_match": 99, "min_chance": 0.0, **options}), tokens, budget, stop)


def slow_draft(text: list[int], budget: int, *, max_match: int, per_match: float, min_chance: float) -> list[int]:
    """The same by searching the text for every question."""

    def followers(part: list[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for end in range(len(part), len(text)):
            if text[end - len(part) : end] == part:
                found.setdefault(text[end], []).append(end)
        return found

    def occurs(part: list[int]) -> bool:
        return any(text[end - len(part) : end] == part for end in range(len(part), len(text) + 1))

    matched = [text[-n:] for n in range(min(max_match, len(text)), 0, -1) if followers(text[-n:])]
    if not matched:
        return []
    context, drafted, chance = matched[0], [], 1.0
    limit = min(budget, max(1, int(per_match * len(context))))
    while len(drafted) < limit and context:
        found = followers(context)
        if not found:
            # the next shorter context that has another place
            places = len([1 for end in range(len(context), len(text) + 1) if text[end - len(context) : end] == context])
            while context and places == sum(
                text[end - len(context) : end] == context for end in range(len(context), len(text) + 1)
            ):
                context = context[1:]
            continue
        best = max(found, key=lambda token: (len(found[token]), found[token][-1]))
        chance *= len(found[best]) / sum(map(len, found.values()))
        if chance < min_chance:
            break
        drafted.append(best)
        context = [*context, best]
        while context and not (len(context) <= max_match and occurs(context)):
            context = context[1:]
    return drafted


@given(
    text=st.lists(st.integers(0, 3), max_size=30),
    grown=st.integers(0, 30),
    budget=st.integers(0, 8),
    max_match=st.integers(1, 6),
    per_match=st.sampled_from([0.3, 1.0, 2.5]),
    min_chance=st.sampled_from([0.0, 0.2, 0.6, 1.0]),
)
def test_the_draft_is_the_slow_search_and_the_text_may_come_in_pieces(
    text: list[int], grown: int, budget: int, max_match: int, per_match: float, min_chance: float
) -> None:
    drafter = SuffixDrafter(max_match=max_match, per_match=per_match, min_chance=min_chance)
    ask(drafter, text[:grown], 3)
    expected = slow_draft(text, budget, max_match=max_match, per_match=per_match, min_chance=min_chance)
    assert list(ask(drafter, text, budget)) == expected


def test_the_most_frequent_follower_wins_the_latest_among_equals() -> None:
    assert fresh([1, 7, 1, 7, 1, 8, 1], 1) == (7,)
    assert fresh([1, 7, 1, 8, 1], 1) == (8,)
    assert fresh([3, 1, 7, 4, 1, 8, 5, 1, 8, 3, 1], 1) == (7,), "a longer match before a more frequent follower"


def test_the_length_goes_with_the_match_and_the_counts() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2]
    assert fresh(text, 9, per_match=1) == (3, 4)
    assert fresh(text, 9, per_match=2.5) == (3, 4, 5, 6, 7)
    assert fresh(text, 9, per_match=0.1) == (3,), "at least one token"
    # behind 1 came 2 twice and 5 once, behind 1 2 came 3 and 4 once each
    forked = [1, 2, 3, 0, 1, 2, 4, 0, 1, 5, 9, 1]
    assert fresh(forked, 9, min_chance=0.6) == (2,)
    assert len(fresh(forked, 9, min_chance=0.3)) > 1


def test_a_longer_match_in_the_corpus_wins_and_a_tie_goes_to_the_request() -> None:
    corpus = corpus_of([[5, 1, 2, 9, 6], [4, 4]], 32)
    shared = SuffixDrafter(corpus=corpus, per_match=99, min_chance=0)
    assert ask(shared, [5, 1, 2], 4) == (9, 6), "and a document ends there"
    shared.start(9)
    assert ask(shared, [2, 7, 7, 1, 2], 2) == (9, 6), "1 2 there, only 2 here"
    shared.start(9)
    assert ask(shared, [1, 2, 7, 1, 2], 2) == (7, 1)
    corpus.extend([SEPARATOR, 8, 8, 1])
    shared.start(9)
    assert ask(shared, [8, 8], 1) == (1,), "a text added later is found"
    assert ask(SuffixDrafter(), [5, 1, 2], 4) == ()


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [([7, 5, 51, 0, 3, 51], ()), ([7, 5, 51, 8, 0, 3, 51], (8,)), ([0, 51, 8, 51], (8, 51, 8, 51))],
)
def test_p40_a_stop_token_is_not_drafted_nor_anything_behind_it(tokens: list[int], expected: tuple[int, ...]) -> None:
    assert fresh(tokens, 4, (0,)) == expected


@pytest.mark.parametrize("length", range(2, 9))
@pytest.mark.parametrize("k", range(5))
def test_p41_a_run_of_one_token_is_continued_and_never_past_the_end(length: int, k: int) -> None:
    assert fresh([4] * length, k) == (4,) * k, "at the end of the text a shorter match goes on"


def test_p42_the_longest_match_first_and_generated_tokens_are_searched_too(spoken_model) -> None:
    assert fresh([1, 2, 9, 9, 5, 2, 7, 7, 1, 2], 2) == (9, 9)
    target = spoken_model(20, lambda prefix: 10 + len(prefix) % 4)
    generation = Engine(target, SuffixDrafter(), "chain", 3).generate([1, 2], GREEDY, 20)
    assert generation.trace.rounds[-1].num_accepted > 0


def test_p43_the_counts_do_not_survive_the_request() -> None:
    drafter = SuffixDrafter()
    assert ask(drafter, [1, 2, 3, 4, 1, 2], 2) == (3, 4)
    with pytest.raises(ValueError, match="has read 6 tokens, the request has 2"):
        ask(drafter, [1, 2], 2)
    drafter.start(10)
    assert ask(drafter, [1, 2], 2) == ()


@pytest.mark.parametrize(
    ("tokens", "expected"), [([], ()), ([5], ()), ([5, 6], ()), ([5, 5], (5, 5)), ([5, 6, 7, 8, 9, 6, 7], (8, 9, 6, 7))]
)
def test_p44_tiny_prompts(tokens: list[int], expected: tuple[int, ...]) -> None:
    assert fresh(tokens, 4)[:2] == expected[:2]
    assert fresh(tokens, 0) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_match": 1, "min_match": 2}, "min_match is 2 and max_match is 1"),
        ({"min_match": 0}, "min_match is 0"),
        ({"per_match": 0}, "per_match is 0"),
        ({"min_chance": 1.5}, "min_chance is 1.5"),
    ],
)
def test_p44_bad_sizes_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SuffixDrafter(**options)
    with pytest.raises(ValueError, match="budget is -1"):
        fresh([5, 5], -1)


@pytest.mark.parametrize("gamma", [1, 3, 6])
def test_greedy_text_is_left_alone(gamma: int, random_law, model_of) -> None:
    for case in range(4):
        law = random_law(("suffix", case), 4)
        plain = Engine(model_of(law, 4)).generate([case, 1], GREEDY, 30)
        corpus = corpus_of([plain.tokens[5:25], [1, 2, 3]], 9)
        for drafter in (SuffixDrafter(), SuffixDrafter(min_chance=0, per_match=9), SuffixDrafter(corpus=corpus)):
            generation = Engine(model_of(law, 4), drafter, "chain", gamma).generate([case, 1], GREEDY, 30)
            assert generation.tokens == plain.tokens
            assert gamma == 1 or len(generation.trace.rounds) < 29


@pytest.mark.parametrize("rule", [verify_chain, verify_block])
def test_the_law_is_left_alone_exactly(rule: Any, random_law) -> None:
    """The drafter itself, in rational arithmetic: every prefix, every way the coins can fall."""
    law = random_law("suffix law", 3)

    def draft(prefix: tuple[int, ...], budget: int, coins: Any) -> tuple[tuple[int, ...], None]:
        return fresh(prefix, min(2, budget)), None

    prefix = (0, 1, 2, 0, 1)
    assert output_law(rule, law, draft, prefix, 5) == target_law(law, prefix, 5)
    assert fresh(prefix, 2) == (2, 0)
