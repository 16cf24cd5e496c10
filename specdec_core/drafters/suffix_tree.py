"""Suffix decoding with branches: the continuations of the text that counts give most chance, as a tree."""

from collections.abc import Iterator
from dataclasses import dataclass
import heapq

from specdec_core.arguments import check_budget
from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, DraftTree
from specdec_core.drafters.protocol import Context, MayContinue
from specdec_core.drafters.suffix import SuffixDrafter
from specdec_core.suffix_automaton import ROOT, Place, SuffixAutomaton

_REST = 0.02
"""What is left to shorter contexts when looking further back is no longer worth it."""

Known = list[tuple[SuffixAutomaton, Place]]
"""How much of the text's end each automaton knows; the request's own first."""


_Waiting = list[tuple[float, int, tuple[int, int], int, int, Known]]
"""Candidates as a heap: minus their chance, depth, (parent, rank among siblings), parent, token, and what is known."""


@dataclass(frozen=True, slots=True)
class _Followers:
    """The most frequent followers of a context, and the sums over all of them."""

    ranked: list[tuple[int, int]]
    total: int
    distinct: int


class SuffixTreeDrafter(SuffixDrafter):
    """Drafts the paths that are likeliest by counts, best first, until the budget is full; costs no model.

    The chance of a token comes from the longest repeated end of the text; a share is left for tokens that never
    followed it, and goes to the next shorter end, and so on (prediction by partial matching, method C: with d
    different followers in n occurrences, d / (n + d) is left). A corpus takes part wherever it knows the longer end,
    the request's own text first on a tie. A path whose chance falls below `min_chance` is not drafted, nor is a stop
    token.

    Deterministic: q is one-hot at every node, so it needs a tree rule.

    Source: SuffixDecoding, Oliaro et al. 2411.04975; method C: Moffat, "Implementing the PPM data compression scheme"
    (IEEE Trans. Comm. 1990).
    """

    name = "suffix tree"

    def __init__(self, *, corpus: SuffixAutomaton | None = None, max_match: int = 15, min_chance: float = 0.01) -> None:
        super().__init__(corpus=corpus, max_match=max_match, min_chance=min_chance)
        self._in_corpus_followers: dict[int, _Followers] = {}
        self._corpus_length = 0

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """The best paths, up to `budget` nodes; empty when the last token never occurred before."""
        check_budget(budget)
        self._read(context.tokens)
        known: Known = [(self.text, self.text.repeated())]
        if self.corpus is not None:
            known.append((self.corpus, self._in_corpus))
        tokens: list[int] = []
        parents: list[int] = []
        waiting: _Waiting = []
        self._branch(waiting, -1, 0, 1.0, known, budget, context.params.stop)
        while waiting and len(tokens) < budget:
            below, depth, _, parent, token, ends = heapq.heappop(waiting)
            tokens.append(token)
            parents.append(parent)
            further: Known = [(automaton, automaton.advance(place, token)) for automaton, place in ends]
            self._branch(waiting, len(tokens) - 1, depth, -below, further, budget, context.params.stop)
        return Draft(DraftTree(tuple(tokens), tuple(parents)), None, self.proposal)

    def _branch(
        self,
        waiting: _Waiting,
        parent: int,
        depth: int,
        chance: float,
        known: Known,
        budget: int,
        stop: tuple[int, ...],
    ) -> None:
        """Puts the followers of one node among the candidates. Ties: the shallower, then the node's own order."""
        for rank, (token, own) in enumerate(self._chances(known, budget)):
            if chance * own >= self.min_chance and token not in stop:
                heapq.heappush(waiting, (-chance * own, depth + 1, (parent, rank), parent, token, known))

    def _chances(self, known: Known, count: int) -> list[tuple[int, float]]:
        """The `count` likeliest next tokens, likeliest first."""
        found: dict[int, float] = {}
        rest = 1.0
        for automaton, place in _ends(known):
            followers = self._followers(automaton, place, count)
            seen = [often for token in found if (often := automaton.count_after(place, token))]
            total, distinct = followers.total - sum(seen), followers.distinct - len(seen)
            if distinct:
                share = rest / (total + distinct)
                found |= {token: share * often for token, often in followers.ranked if token not in found}
                rest = share * distinct
            if rest < _REST:
                break
        return sorted(found.items(), key=lambda entry: -entry[1])[:count]

    def _followers(self, automaton: SuffixAutomaton, place: Place, count: int) -> _Followers:
        if automaton is not self.corpus:
            return _summed(automaton, place, count)
        if self._corpus_length != len(automaton.tokens):
            self._in_corpus_followers, self._corpus_length = {}, len(automaton.tokens)
        held = self._in_corpus_followers.get(place[0])
        if held is None or len(held.ranked) < min(count, held.distinct):
            held = self._in_corpus_followers[place[0]] = _summed(automaton, place, count)
        return held


def _summed(automaton: SuffixAutomaton, place: Place, count: int) -> _Followers:
    followers = automaton.followers(place)
    # tokens of longer contexts are left out later, so a few more than `count` are kept
    return _Followers(followers[: 2 * count], sum(often for _, often in followers), len(followers))


def _ends(known: Known) -> Iterator[tuple[SuffixAutomaton, Place]]:
    """The repeated ends of the text, longest first over all automata."""
    left = list(known)
    while True:
        longest = max(range(len(left)), key=lambda index: (left[index][1][1], -index))
        automaton, place = left[longest]
        if place[0] == ROOT:
            return
        yield automaton, place
        left[longest] = (automaton, automaton.shorter(place))
