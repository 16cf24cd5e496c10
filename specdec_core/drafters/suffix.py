"""Suffix decoding: the next tokens are those that most often followed the longest repeated end of the text."""

from collections.abc import Sequence
import math

from jaxtyping import Float
from torch import Tensor

from specdec_core.arguments import check_budget, check_fresh, check_whole
from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, DraftTree, Proposal
from specdec_core.drafters.protocol import Context, MayContinue
from specdec_core.rules.verdict import Verdict
from specdec_core.suffix_automaton import ROOT, Place, SuffixAutomaton


class SuffixDrafter:
    """Continues the longest end of the text that occurred before, by counts; costs no model.

    Prompt and output of the request are searched, and a `corpus` of other texts when one is given (`corpus_of`); the
    longer match wins, the request's own on a tie. From the match the most frequent follower is drafted, token after
    token, the latest one among equals. The draft ends with `per_match` tokens a matched token, or where the chance
    that counts give the whole draft falls below `min_chance`. A stop token is never drafted, nor anything after it.
    The proposal is deterministic: q is one-hot.

    A token costs a constant, amortised, whatever the length of the text (see `SuffixAutomaton`), and a draft the
    number of different followers it had to choose among.

    Source: SuffixDecoding, Oliaro et al. 2411.04975; suffix automaton in drafting: Hu et al. 2411.10666.
    """

    name = "suffix"
    proposal: Proposal = "deterministic"
    vocab_size: int | None = None
    max_length: int | None = None
    cache_rows: int | None = None

    def __init__(
        self,
        *,
        corpus: SuffixAutomaton | None = None,
        max_match: int = 31,
        min_match: int = 1,
        per_match: float = 2.0,
        min_chance: float = 0.1,
    ) -> None:
        for name, value in (("max_match", max_match), ("min_match", min_match)):
            check_whole(name, value)
        if not 1 <= min_match <= max_match:
            raise ValueError(f"min_match is {min_match} and max_match is {max_match}; expected 1 <= min <= max")
        if not 0 < per_match < math.inf:
            raise ValueError(
                f"per_match is {per_match}; expected drafted tokens for each matched one, above 0 and finite"
            )
        if not 0 <= min_chance <= 1:
            raise ValueError(f"min_chance is {min_chance}; expected a probability")
        if corpus is not None and not isinstance(corpus, SuffixAutomaton):
            raise ValueError(
                f"corpus is a {type(corpus).__name__}; expected a SuffixAutomaton, which `corpus_of` makes"
            )
        self.max_match, self.min_match = max_match, min_match
        self.per_match, self.min_chance = per_match, min_chance
        self.corpus = corpus
        self.start(0)

    def start(self, capacity: int) -> None:
        """Forgets the previous request; the corpus stays."""
        self.text = SuffixAutomaton(self.max_match + 1)
        self._in_corpus: Place = (ROOT, 0)

    def prefill(self, context: Context) -> None:
        """Reads the prompt."""
        check_fresh(len(self.text.tokens))
        self._read(context.tokens)

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """What most often followed, up to `budget`; empty when the last `min_match` tokens never occurred before."""
        check_budget(budget)
        self._read(context.tokens)
        automaton, place = self.text, self.text.repeated()
        if self.corpus is not None and self._in_corpus[1] > place[1]:
            automaton, place = self.corpus, self._in_corpus
        limit = min(budget, max(1, int(self.per_match * place[1])))
        tokens = self._continue(automaton, place, limit, context.params.stop)
        return Draft(DraftTree.chain(tokens), None, self.proposal)

    def observe(self, verdict: Verdict, hidden: Float[Tensor, "rows width"] | None) -> None:
        """Nothing to learn: the accepted tokens come back in the next context."""

    def _read(self, tokens: Sequence[int]) -> None:
        known = len(self.text.tokens)
        if known > len(tokens):
            raise ValueError(
                f"the drafter has read {known} tokens, the request has {len(tokens)}: it serves another request; "
                "call start() first, and give each engine that runs at the same time a drafter of its own"
            )
        fresh = tokens[known:]
        self.text.extend(fresh)
        if self.corpus is not None:
            for token in fresh:
                self._in_corpus = self.corpus.advance(self._in_corpus, token)

    def _continue(self, automaton: SuffixAutomaton, place: Place, limit: int, stop: tuple[int, ...]) -> list[int]:
        tokens: list[int] = []
        chance = 1.0
        while len(tokens) < limit and place[1] >= self.min_match:
            followers = automaton.followers(place)
            if not followers:
                # the context ends a text, and has no other end: a shorter one may
                place = automaton.shorter(place)
                continue
            token, count = followers[0]
            chance *= count / sum(often for _, often in followers)
            if chance < self.min_chance or token in stop:
                break
            tokens.append(token)
            place = automaton.advance(place, token)
        return tokens
