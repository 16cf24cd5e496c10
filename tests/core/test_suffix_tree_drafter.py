"""The suffix tree drafter: its chances and its order against a slow computation; what it leaves alone."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from specdec_core.coins import ScriptedCoins
from specdec_core.draft import DraftTree
from specdec_core.drafters import Context, SuffixTreeDrafter
from specdec_core.engine import Engine
from specdec_core.laws import output_law, target_law
from specdec_core.rules.tree import verify_recursive
from specdec_core.suffix_automaton import SEPARATOR, corpus_of
from specdec_core.warp import SamplingParams

GREEDY = SamplingParams(temperature=0)


def ask(drafter: SuffixTreeDrafter, tokens: Sequence[int], budget: int, stop: tuple[int, ...] = ()) -> DraftTree:
    context = Context(list(tokens), len(tokens), SamplingParams(stop=stop))
    draft = drafter.propose(context, budget, ScriptedCoins([]), lambda drafted, law: True)
    assert (draft.proposal, draft.draft_probs) == ("deterministic", None)
    return draft.tree


def followers(texts: list[list[int]], end: list[int]) -> dict[int, list[int]]:
    """For each follower the places where it followed `end`, over all texts."""
    found: dict[int, list[int]] = {}
    place = 0
    for text in texts:
        for at in range(len(end), len(text)):
            if text[at - len(end) : at] == end:
                found.setdefault(text[at], []).append(place + at)
        place += len(text) + 1
    return found


def occurs(texts: list[list[int]], end: list[int]) -> int:
    return sum(text[at - len(end) : at] == end for text in texts for at in range(len(end), len(text) + 1))


def known_ends(texts: list[list[int]], context: list[int], longest: int, *, own: bool) -> list[list[int]]:
    """The ends of the context that occur, one for each different set of places, longest first."""
    ends, places = [], 0
    for length in range(min(longest, len(context)), 0, -1):
        end = context[-length:]
        count = occurs(texts, end)
        # the text's own end is no occurrence to learn from
        if count > places and not (own and count < 2):
            ends.append(end)
            places = count
    return ends


def slow_chances(text: list[int], corpus: list[list[int]], drafted: list[int], longest: int) -> dict[int, Fraction]:
    """Prediction by partial matching, method C with exclusion, over the ends known to either side."""
    ladder = [(end, [text]) for end in known_ends([text], [*text, *drafted], longest, own=not drafted)]
    ladder += [(end, corpus) for end in known_ends(corpus, [*text, *drafted], longest, own=False)]
    chances: dict[int, Fraction] = {}
    rest = Fraction(1)
    for end, source in sorted(ladder, key=lambda entry: (-len(entry[0]), entry[1] is corpus)):
        fresh = {token: len(at) for token, at in followers(source, end).items() if token not in chances}
        if fresh:
            share = rest / (sum(fresh.values()) + len(fresh))
            chances |= {token: share * count for token, count in fresh.items()}
            rest = share * len(fresh)
        if rest < Fraction(2, 100):
            break
    return chances


@given(
    text=st.lists(st.integers(0, 3), min_size=1, max_size=25),
    corpus=st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=2),
    budget=st.integers(1, 10),
)
def test_the_nodes_are_the_likeliest_paths(text: list[int], corpus: list[list[int]], budget: int) -> None:
    drafter = SuffixTreeDrafter(corpus=corpus_of(corpus, 5), max_match=4, min_chance=0.001)
    tree = ask(drafter, text, budget)
    paths = [tuple(tree.tokens[node] for node in path) for path in tree.paths()]
    assert len(set(paths)) == len(paths)
    value = {(): Fraction(1)}
    for path in sorted(paths, key=len):
        value[path] = value[path[:-1]] * slow_chances(text, corpus, list(path[:-1]), 4)[path[-1]]
    values = [value[path] for path in paths]
    assert values == sorted(values, reverse=True), "best first"
    left = [
        value[parent] * chance
        for parent in ((), *paths)
        for token, chance in slow_chances(text, corpus, list(parent), 4).items()
        if (*parent, token) not in value
    ]
    if len(paths) == budget:
        assert max(left, default=Fraction(0)) <= min(values), "nothing likelier was left out"
    else:
        assert all(chance < Fraction(1001, 1_000_000) for chance in left)


def test_frequent_and_recent_followers_become_siblings() -> None:
    tree = ask(SuffixTreeDrafter(), [1, 7, 1, 7, 1, 8, 1], 2)
    assert (tree.tokens, tree.parents) == ((7, 1), (-1, 0))
    tree = ask(SuffixTreeDrafter(), [1, 7, 2, 1, 8, 3, 1], 2)
    assert (tree.tokens, tree.parents) == ((8, 7), (-1, -1)), "the latest among equals first"


def test_a_corpus_is_shared_and_may_grow() -> None:
    corpus = corpus_of([[5, 1, 2, 9]], 16)
    drafter = SuffixTreeDrafter(corpus=corpus)
    assert ask(drafter, [5, 1, 2], 1).tokens == (9,)
    corpus.extend([SEPARATOR, *[5, 1, 2, 6] * 3])
    drafter.start(9)
    assert ask(drafter, [5, 1, 2], 1).tokens == (6,), "counts that were remembered are counted anew"
    assert ask(SuffixTreeDrafter(), [5, 1, 2], 4).tokens == ()


def test_a_small_budget_does_not_narrow_the_next_draft() -> None:
    """What is remembered of the corpus is enough for the budget it was counted for, not for a larger one."""
    corpus = corpus_of([[1, token, 9] for token in (2, 3, 4, 5, 6)], 8)
    drafter = SuffixTreeDrafter(corpus=corpus)
    assert len(ask(drafter, [7, 1], 1).tokens) == 1
    tree = ask(drafter, [7, 1], 5)
    assert (set(tree.tokens), set(tree.parents)) == ({2, 3, 4, 5, 6}, {-1})


def test_a_stop_token_is_not_drafted_nor_anything_behind_it() -> None:
    tree = ask(SuffixTreeDrafter(), [7, 5, 51, 8, 0, 3, 51], 6, (0,))
    assert 0 not in tree.tokens and 3 not in tree.tokens
    assert ask(SuffixTreeDrafter(), [5, 5], 0).tokens == ()
    with pytest.raises(ValueError, match="budget is -1"):
        ask(SuffixTreeDrafter(), [5, 5], -1)
    with pytest.raises(ValueError, match="min_chance is 2"):
        SuffixTreeDrafter(min_chance=2)


def test_greedy_text_is_left_alone(random_law, model_of) -> None:
    accepted = 0
    for case in range(4):
        law = random_law(("suffix tree", case), 4)
        plain = Engine(model_of(law, 4)).generate([case, 1], GREEDY, 25)
        corpus = corpus_of([plain.tokens[5:20], [1, 2, 3]], 9)
        for drafter in (SuffixTreeDrafter(), SuffixTreeDrafter(corpus=corpus, max_match=8)):
            generation = Engine(model_of(law, 4), drafter, "recursive", 6).generate([case, 1], GREEDY, 25)
            assert generation.tokens == plain.tokens
            accepted += sum(r.num_accepted for r in generation.trace.rounds)
    assert accepted > 40


def test_the_law_is_left_alone_exactly(random_law) -> None:
    law = random_law("suffix tree law", 3)

    def draft(prefix: tuple[int, ...], budget: int, coins: Any) -> tuple[DraftTree, None]:
        tree = ask(SuffixTreeDrafter(), prefix, 3)
        kept = [node for node, depth in enumerate(tree.depths) if depth <= budget]
        number = {-1: -1, **{node: place for place, node in enumerate(kept)}}
        return DraftTree(tuple(tree.tokens[n] for n in kept), tuple(number[tree.parents[n]] for n in kept)), None

    prefix = (0, 1, 2, 0, 1, 1, 0)
    assert output_law(verify_recursive, law, draft, prefix, 4) == target_law(law, prefix, 4)
