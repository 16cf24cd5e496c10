"""A suffix automaton that grows token by token and counts how often each short context occurred.

States are sets of substrings that end at the same places. A state keeps the longest of them (its length), the link to
the state of its longest suffix that ends in more places, and how often and where it last ended.

Source: Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text"; in drafting: SAM decoding,
Hu et al. 2411.10666.
"""

from collections.abc import Iterable, Sequence

ROOT = 0
SEPARATOR = -1
"""Stands between documents: it is no token, so no context and no continuation crosses it."""

Place = tuple[int, int]
"""A context: its state, and its length in tokens (a state holds several lengths)."""


class SuffixAutomaton:
    """All substrings of a growing text. Counts are exact for contexts of up to `depth` tokens.

    A token costs an amortised constant for the automaton itself, and at most `depth` steps for the counts: never more
    when the text grows. `steps` counts them all.
    """

    def __init__(self, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"depth is {depth}; expected the longest context to count, at least 1 token")
        self.depth = depth
        self.tokens: list[int] = []
        self.steps = 0
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._count = [0]
        self._last_end = [0]
        self._whole = ROOT
        self._recent: Place = (ROOT, 0)

    def extend(self, tokens: Iterable[int]) -> None:
        """Appends tokens. `SEPARATOR` cuts: contexts begin anew behind it."""
        for token in tokens:
            self._append(token)

    def count(self, place: Place) -> int:
        """How often that context occurred."""
        return self._count[place[0]]

    def recent(self) -> Place:
        """The context of the last `depth` tokens (fewer in a shorter text)."""
        return self._recent

    def repeated(self) -> Place:
        """The longest end of the text, below `depth` tokens, that occurred before with a token behind it."""
        state, length = self._trim(*self._recent, self.depth - 1)
        while length and self._count[state] < 2:
            state, length = self._up(state)
        return state, length

    def followers(self, place: Place) -> list[tuple[int, int]]:
        """The tokens that followed the context and how often, most frequent first, the latest first among equals."""
        after = self._next[place[0]]
        self.steps += len(after)
        order = sorted(after, key=lambda token: (-self._count[after[token]], -self._last_end[after[token]]))
        return [(token, self._count[after[token]]) for token in order]

    def count_after(self, place: Place, token: int) -> int:
        """How often that token followed the context."""
        following = self._next[place[0]].get(token)
        return 0 if following is None else self._count[following]

    def advance(self, place: Place, token: int) -> Place:
        """The longest end of context + token that occurs in the text, below `depth` tokens: the root when none does."""
        state, length = self._trim(*place, self.depth - 1)
        while token not in self._next[state]:
            if state == ROOT:
                return ROOT, 0
            state, length = self._up(state)
        return self._trim(self._next[state][token], length + 1, self.depth - 1)

    def shorter(self, place: Place) -> Place:
        """The longest end of the context that also occurs elsewhere; of the root the root."""
        return (ROOT, 0) if place[0] == ROOT else self._up(place[0])

    def _append(self, token: int) -> None:
        self.tokens.append(token)
        if token == SEPARATOR:
            self._whole, self._recent = ROOT, (ROOT, 0)
            return
        self._whole = self._add_state(token)
        state, length = self._trim(*self._recent, self.depth)
        self._recent = self._trim(self._next[state][token], length + 1, self.depth)
        state = self._recent[0]
        while state > ROOT:
            self._count[state] += 1
            self._last_end[state] = len(self.tokens)
            self.steps += 1
            state = self._link[state]

    def _add_state(self, token: int) -> int:
        """The state of the whole text (since the last separator) with the token behind it."""
        existing = self._next[self._whole].get(token)
        if existing is not None and self._length[existing] == self._length[self._whole] + 1:
            # behind a separator a text may begin as an earlier one did
            return existing
        if existing is not None:
            return self._split(self._whole, token, existing)
        new = self._new_state(self._length[self._whole] + 1, {})
        state = self._whole
        while state >= ROOT and token not in self._next[state]:
            self._next[state][token] = new
            self.steps += 1
            state = self._link[state]
        if state < ROOT:
            self._link[new] = ROOT
            return new
        following = self._next[state][token]
        exact = self._length[following] == self._length[state] + 1
        self._link[new] = following if exact else self._split(state, token, following)
        return new

    def _split(self, state: int, token: int, following: int) -> int:
        """Gives the substrings of `following` that end one token behind `state` a state of their own."""
        clone = self._new_state(self._length[state] + 1, dict(self._next[following]))
        self.steps += len(self._next[following])
        self._link[clone] = self._link[following]
        self._count[clone], self._last_end[clone] = self._count[following], self._last_end[following]
        self._link[following] = clone
        while state >= ROOT and self._next[state].get(token) == following:
            self._next[state][token] = clone
            self.steps += 1
            state = self._link[state]
        return clone

    def _trim(self, state: int, length: int, longest: int) -> Place:
        """The context's last `longest` tokens. A split may have moved a shorter one to a state of its own, too."""
        length = min(length, longest)
        while state > ROOT and self._length[self._link[state]] >= length:
            self.steps += 1
            state = self._link[state]
        return state, length

    def _up(self, state: int) -> Place:
        self.steps += 1
        link = self._link[state]
        return link, self._length[link]

    def _new_state(self, length: int, following: dict[int, int]) -> int:
        self._next.append(following)
        self._link.append(ROOT)
        self._length.append(length)
        self._count.append(0)
        self._last_end.append(0)
        return len(self._length) - 1


def corpus_of(documents: Iterable[Sequence[int]], depth: int) -> SuffixAutomaton:
    """An automaton of several documents, for drafters to share; `extend([SEPARATOR, *tokens])` adds one later.

    Raises:
        ValueError: a depth below 1.
    """
    automaton = SuffixAutomaton(depth)
    for document in documents:
        automaton.extend([SEPARATOR, *document])
    return automaton
