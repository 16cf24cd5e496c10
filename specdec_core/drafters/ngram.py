"""Prompt lookup: the next tokens are copied from where the latest ones occurred before."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from specdec_core.arguments import check_budget, check_whole
from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, DraftTree, Proposal
from specdec_core.drafters.protocol import Context, MayContinue
from specdec_core.rules.verdict import Verdict


class NGramDrafter:
    """Copies what followed an earlier occurrence of the latest n tokens; costs no model and no memory.

    The longest n from `max_n` down to `min_n` with an earlier occurrence wins, in prompt and output alike. Of
    its occurrences the latest one that fills the budget is copied; when none does, the first one, which has
    most to copy. A stop token is never drafted, nor anything after it. The proposal is deterministic: q is
    one-hot.

    Source: prompt lookup decoding (A. Saxena, 2023); LLMA, Yang et al. 2304.04487.
    """

    name = "ngram"
    proposal: Proposal = "deterministic"
    vocab_size: int | None = None
    max_length: int | None = None
    cache_rows: int | None = None

    def __init__(self, max_n: int = 3, min_n: int = 1) -> None:
        for name, value in (("max_n", max_n), ("min_n", min_n)):
            check_whole(name, value)
        if not 1 <= min_n <= max_n:
            raise ValueError(f"min_n is {min_n} and max_n is {max_n}; expected 1 <= min_n <= max_n")
        self.max_n = max_n
        self.min_n = min_n
        self.start(0)

    def start(self, capacity: int) -> None:
        """Forgets the previous request."""
        self._followers: dict[tuple[int, ...], list[int]] = {}
        self._indexed = 0

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """What followed the same tokens before, up to `budget`; empty when they never occurred."""
        check_budget(budget)
        self._index(context.tokens)
        tokens = self._copy(context.tokens, budget)
        for place, token in enumerate(tokens):
            if token in context.params.stop:
                tokens = tokens[:place]
                break
        return Draft(DraftTree.chain(tokens), None, self.proposal)

    def observe(self, verdict: Verdict, hidden: Float[Tensor, "rows width"] | None) -> None:
        """Nothing to learn: the accepted tokens come back in the next context."""

    def _index(self, tokens: Sequence[int]) -> None:
        """Notes, for every n-gram that something follows, where the follower stands."""
        for follower in range(max(self._indexed, self.min_n), len(tokens)):
            for n in range(self.min_n, min(self.max_n, follower) + 1):
                self._followers.setdefault(tuple(tokens[follower - n : follower]), []).append(follower)
        self._indexed = max(self._indexed, len(tokens))

    def _copy(self, tokens: Sequence[int], budget: int) -> list[int]:
        for n in range(min(self.max_n, len(tokens)), self.min_n - 1, -1):
            followers = self._followers.get(tuple(tokens[len(tokens) - n :]))
            if followers:
                fills = (start for start in reversed(followers) if len(tokens) - start >= budget)
                start = next(fills, followers[0])
                return list(tokens[start : start + budget])
        return []
