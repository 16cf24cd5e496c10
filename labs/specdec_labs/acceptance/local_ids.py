"""A text in ids of its own: the engine then handles rows of a few hundred entries instead of the whole vocabulary.

Only for deterministic drafts, where the rows say with certainty what comes next. The drafter itself goes on seeing the
target's ids; a draft that the text does not contain at all becomes one id that never comes next.
"""

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, DraftTree, Proposal
from specdec_core.drafters.protocol import Context, Drafter, MayContinue
from specdec_core.rules.verdict import Verdict


class LocalIds:
    """`ids[i]` is the target's id of local id i; `other` stands for all that are not among them."""

    def __init__(self, tokens: Sequence[int], stop: Sequence[int]) -> None:
        self.ids = sorted({*tokens, *stop})
        self.other = len(self.ids)
        self.vocab_size = self.other + 1
        self._local = {token: place for place, token in enumerate(self.ids)}

    def inward(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """The target's ids as local ones."""
        return tuple(self._local.get(token, self.other) for token in tokens)

    def outward(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Local ids as the target's; `other` has none."""
        return tuple(self.ids[token] for token in tokens)


class LocalDrafter:
    """A deterministic drafter between local ids outside and the target's inside."""

    proposal: Proposal = "deterministic"

    def __init__(self, drafter: Drafter, local: LocalIds) -> None:
        if drafter.proposal != "deterministic":
            raise ValueError(
                f"drafter {drafter.name!r} proposes {drafter.proposal!r}; its law is over the target's ids, so only "
                "deterministic drafters can be run on local ones"
            )
        self.name, self.max_length = drafter.name, drafter.max_length
        self.vocab_size: int | None = local.vocab_size
        self.reads_states = getattr(drafter, "reads_states", None)
        self._drafter, self._local = drafter, local

    @property
    def cache_rows(self) -> int | None:
        """The drafter's own."""
        return self._drafter.cache_rows

    def start(self, capacity: int) -> None:
        """The drafter's own."""
        self._drafter.start(capacity)

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """The drafter's draft in local ids."""
        params = replace(context.params, stop=self._local.outward(context.params.stop))
        inside = replace(context, tokens=list(self._local.outward(context.tokens)), params=params)
        draft = self._drafter.propose(inside, budget, coins, may_continue)
        tree = DraftTree(self._local.inward(draft.tokens), draft.tree.parents)
        return Draft(tree, None, "deterministic")

    def observe(self, verdict: Verdict, hidden: Float[Tensor, "rows width"] | None) -> None:
        """Tells the drafter."""
        (token,) = self._local.outward([verdict.next_token])
        self._drafter.observe(replace(verdict, next_token=token), hidden)
