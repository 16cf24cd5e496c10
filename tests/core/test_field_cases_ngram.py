"""Reported cases on prompt lookup: P40-P44."""

from collections.abc import Sequence

import pytest

from specdec_core.coins import ScriptedCoins
from specdec_core.drafters import NGramDrafter
from specdec_core.drafters.protocol import Context
from specdec_core.engine import Engine
from specdec_core.warp import SamplingParams

GREEDY = SamplingParams(temperature=0)


def draft(
    tokens: Sequence[int], k: int, *, max_n: int = 3, min_n: int = 1, stop: tuple[int, ...] = ()
) -> tuple[int, ...]:
    context = Context(list(tokens), len(tokens), SamplingParams(stop=stop))
    return NGramDrafter(max_n, min_n).propose(context, k, ScriptedCoins([]), lambda drafted, law: True).tokens


@pytest.mark.parametrize(
    ("tokens", "expected"), [([7, 5, 51, 0, 3, 51], ()), ([7, 5, 51, 8, 0, 3, 51], (8,)), ([0, 51, 8, 51], (8, 51))]
)
def test_p40_a_stop_token_is_not_drafted_nor_anything_behind_it(tokens: list[int], expected: tuple[int, ...]) -> None:
    assert draft(tokens, 4, max_n=1, stop=(0,)) == expected


def test_p40_an_empty_draft_is_a_plain_step(spoken_model) -> None:
    target = spoken_model(60, lambda prefix: 51 if len(prefix) < 6 else 9)
    params = SamplingParams(temperature=0, stop=(0,))
    generation = Engine(target, NGramDrafter(1), "chain", 4).generate([7, 5, 51, 0, 3], params, 3)
    first = generation.trace.rounds[0]
    assert (first.draft_tokens, first.kind, first.emitted) == ((), "plain", (9,))


def test_p41_the_suffix_does_not_match_itself() -> None:
    assert draft([4, 4, 4, 4], 3, max_n=2, min_n=2) == (4, 4), "the first match, which has most to copy"


@pytest.mark.parametrize("length", range(3, 9))
@pytest.mark.parametrize("k", range(5))
def test_p41_a_run_of_one_token_never_copies_past_the_end(length: int, k: int) -> None:
    tokens = draft([4] * length, k, max_n=2, min_n=2)
    assert tokens == (4,) * min(k, length - 2)


def test_p42_the_latest_match_wins_the_longest_n_first() -> None:
    assert draft([1, 2, 9, 1, 2, 8, 1, 2], 3, max_n=2, min_n=2) == (8, 1, 2)
    # a later match of one token loses to an earlier match of two
    assert draft([1, 2, 9, 9, 5, 2, 7, 7, 1, 2], 2, max_n=2) == (9, 9)
    assert draft([1, 2, 9, 9, 5, 2, 7, 7, 1, 2], 2, max_n=1) == (7, 7)


def test_p42_a_match_that_fills_the_budget_wins_over_a_later_one_that_does_not() -> None:
    assert draft([1, 2, 9, 1, 2, 8, 1, 2], 4, max_n=2, min_n=2) == (9, 1, 2, 8)
    assert draft([1, 2, 9, 1, 2, 8, 1, 2], 9, max_n=2, min_n=2) == (9, 1, 2, 8, 1, 2)


def test_p42_generated_tokens_are_searched_too(spoken_model) -> None:
    # the prompt repeats nothing; the text has period four
    target = spoken_model(20, lambda prefix: 10 + len(prefix) % 4)
    generation = Engine(target, NGramDrafter(), "chain", 3).generate([1, 2], GREEDY, 20)
    assert sum(r.num_accepted for r in generation.trace.rounds) >= 9
    assert generation.trace.rounds[-1].num_accepted > 0


def test_p43_the_table_does_not_survive_the_request(spoken_model) -> None:
    drafter = NGramDrafter()
    engine = Engine(spoken_model(9, lambda prefix: 2 if len(prefix) == 1 else 5), drafter, "chain", 2)
    first = engine.generate([1, 2, 3, 4, 1, 2], GREEDY, 3)
    assert first.trace.rounds[0].draft_tokens == ()
    fresh = Engine(spoken_model(9, lambda prefix: 2 if len(prefix) == 1 else 5), NGramDrafter(), "chain", 2)
    second, alone = (e.generate([1], GREEDY, 6) for e in (engine, fresh))
    assert second.trace.tokens[:2] == (1, 2)
    assert second.trace.rounds[0].draft_tokens == (), "not (3, 4) of the request before"
    assert [r.draft_tokens for r in second.trace.rounds] == [r.draft_tokens for r in alone.trace.rounds]
    assert second.trace.rounds[0].index == 0


def test_p43_start_forgets() -> None:
    drafter, coins = NGramDrafter(), ScriptedCoins([])

    def ask(tokens: list[int]) -> tuple[int, ...]:
        return drafter.propose(Context(tokens, 1, SamplingParams()), 2, coins, lambda drafted, law: True).tokens

    assert ask([1, 2, 3, 4, 1, 2]) == (3, 4)
    drafter.start(10)
    assert ask([1, 2]) == ()


@pytest.mark.parametrize(
    ("tokens", "k", "expected"),
    [
        ([], 4, ()),
        ([5], 4, ()),
        ([5, 6], 4, ()),
        ([5, 5], 4, (5,)),
        ([5, 6, 7, 8, 9, 6, 7], 4, (8, 9, 6, 7)),
        ([5, 6, 7, 8, 9, 6, 7], 0, ()),
    ],
)
def test_p44_tiny_prompts(tokens: list[int], k: int, expected: tuple[int, ...]) -> None:
    assert draft(tokens, k) == expected


@pytest.mark.parametrize(("max_n", "min_n"), [(1, 2), (3, 0), (0, 0), (2, -1)])
def test_p44_bad_sizes_are_refused(max_n: int, min_n: int) -> None:
    with pytest.raises(ValueError, match=f"min_n is {min_n} and max_n is {max_n}"):
        NGramDrafter(max_n, min_n)


def test_p44_a_negative_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="budget is -1"):
        draft([5, 5], -1)
