"""The suffix automaton against a slow count of every substring, and what it costs."""

import random

from hypothesis import given
from hypothesis import strategies as st
import pytest

from specdec_core.suffix_automaton import ROOT, SEPARATOR, Place, SuffixAutomaton, corpus_of

texts = st.lists(st.integers(0, 2), max_size=40)


def occurrences(text: list[int], part: list[int]) -> list[int]:
    """Where `part` ends in the text (the number of tokens up to there)."""
    return [end for end in range(len(part), len(text) + 1) if text[end - len(part) : end] == part]


def read(automaton: SuffixAutomaton, part: list[int]) -> Place:
    place: Place = (ROOT, 0)
    for token in part:
        place = automaton.advance(place, token)
    return place


@given(text=texts, depth=st.integers(1, 6), part=st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_counts_are_the_numbers_of_occurrences(text: list[int], depth: int, part: list[int]) -> None:
    automaton = SuffixAutomaton(depth)
    automaton.extend(text)
    # the longest end of `part` that occurs and is short enough to be followed
    ends = [part[start:] for start in range(len(part)) if len(part) - start < depth]
    longest = next((end for end in ends if occurrences(text, end)), [])
    place = read(automaton, part)
    assert place[1] == len(longest)
    if longest:
        assert automaton.count(place) == len(occurrences(text, longest))
    expected = {}
    for end in occurrences(text, longest) if longest else range(len(text) + 1):
        if end < len(text):
            expected.setdefault(text[end], []).append(end)
    order = sorted(expected, key=lambda token: (-len(expected[token]), -expected[token][-1]))
    assert automaton.followers(place) == [(token, len(expected[token])) for token in order]


@given(text=texts, depth=st.integers(1, 6))
def test_the_repeated_end_is_the_longest_that_occurred_before(text: list[int], depth: int) -> None:
    automaton = SuffixAutomaton(depth)
    automaton.extend(text)
    lengths = [n for n in range(1, min(depth - 1, len(text)) + 1) if len(occurrences(text, text[-n:])) > 1]
    place = automaton.repeated()
    assert place[1] == max(lengths, default=0)
    if lengths:
        assert automaton.count(place) == len(occurrences(text, text[-place[1] :]))


@given(documents=st.lists(texts, max_size=4), depth=st.integers(2, 5), part=st.lists(st.integers(0, 2), max_size=4))
def test_no_context_crosses_a_separator(documents: list[list[int]], depth: int, part: list[int]) -> None:
    automaton = corpus_of(documents, depth)
    joined = [token for document in documents for token in (SEPARATOR, *document)]
    ends = [part[start:] for start in range(len(part)) if len(part) - start < depth]
    longest = next((end for end in ends if occurrences(joined, end)), [])
    place = read(automaton, part)
    assert place[1] == len(longest)
    if longest:
        counts = dict(automaton.followers(place))
        for token in range(3):
            assert counts.get(token, 0) == len(occurrences(joined, [*longest, token]))
    assert SEPARATOR not in dict(automaton.followers(place))


@given(text=texts, more=texts, depth=st.integers(2, 5))
def test_a_place_stays_valid_while_the_text_grows(text: list[int], more: list[int], depth: int) -> None:
    """A split moves short contexts to a state of their own; who holds a place from before still finds them."""
    growing = SuffixAutomaton(depth)
    growing.extend(text)
    held = {tuple(text[:n]): read(growing, text[:n]) for n in range(len(text) + 1)}
    growing.extend(more)
    for part, place in held.items():
        for token in range(3):
            fresh = read(growing, [*part[len(part) - place[1] :], token])
            assert growing.advance(place, token) == fresh


@pytest.mark.parametrize("kind", ["run of one token", "period of four", "two letters", "words", "fresh tokens"])
def test_a_token_costs_the_same_at_the_end_of_a_long_text(kind: str) -> None:
    generator = random.Random(1)
    words = [[generator.randrange(200) for _ in range(5)] for _ in range(40)]
    long, depth = 40_000, 16
    text = {
        "run of one token": [7] * long,
        "period of four": [1, 2, 3, 4] * (long // 4),
        "two letters": [generator.randrange(2) for _ in range(long)],
        "words": [token for _ in range(long // 5) for token in generator.choice(words)],
        "fresh tokens": list(range(long)),
    }[kind]
    automaton = SuffixAutomaton(depth)
    steps = []
    for part in range(4):
        before = automaton.steps
        automaton.extend(text[part * long // 4 : (part + 1) * long // 4])
        steps.append((automaton.steps - before) / (long // 4))
    assert max(steps) <= depth + 6, "a constant a token: the counted contexts, and the automaton's own amortised steps"
    assert steps[-1] <= 1.3 * steps[0] + 1, "the last quarter of the text costs what the first did"


def test_bad_depths_are_refused() -> None:
    with pytest.raises(ValueError, match="depth is 0"):
        SuffixAutomaton(0)
