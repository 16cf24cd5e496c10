"""What the engine needs from a drafter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Float
from torch import Tensor

from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, Proposal
from specdec_core.models.protocol import KVCache
from specdec_core.rules.verdict import Verdict
from specdec_core.warp import SamplingParams

MayContinue = Callable[[int, Float[Tensor, " vocab"]], bool]
"""(drafted so far, law of the next draft) -> whether to draft it. Must not look at a token it would drop."""


@dataclass(frozen=True, slots=True)
class Context:
    """The request as a round starts.

    Attributes:
        tokens: prompt and output so far; the last one is pending (the target has not been fed it).
        prompt_length: how many of them are the prompt.
        params: the request's sampling parameters.
        hidden: the target's states of the committed rows since the latest `propose`, oldest first, for drafters that
            say `reads_states`: the last one belongs to the token before the pending one. None when the target gives
            none.
        cache: the target's cache, for drafters that share it.
        room: levels that a draft may have at most: tokens that are left to emit, but one. None: as many as nodes.
    """

    tokens: Sequence[int]
    prompt_length: int
    params: SamplingParams
    hidden: Float[Tensor, "rows width"] | None = None
    cache: KVCache | None = None
    room: int | None = None

    def levels(self, budget: int) -> int:
        """Levels that a draft of at most `budget` nodes may have."""
        return budget if self.room is None else min(budget, self.room)


class Drafter(Protocol):
    """Proposes the next tokens of one request at a time.

    A drafter of trees also has `branches = True`: near the end of a text its budget of nodes is then not cut to the
    tokens that are left; it keeps to `context.levels(budget)` levels itself. Without it a draft is at most as long as
    the text may still grow.

    A drafter that reads the target's states says so: `reads_states = "all"` (every committed row, once) or "last" (the
    newest alone). Without it `context.hidden` is None and nothing is kept for it.

    `max_length` is the longest context its own model takes, None without limit: drafts end where the last one drawn,
    which is never fed, stands behind the last row.

    A drafter that reads the prompt has `prefill(context)` too: the engine calls it once after the target's own prefill,
    timed apart from the rounds, with the prompt as `context.tokens` and the states of all but its last token. Whoever
    calls `propose` without it gets the same drafts, the first of them later.
    """

    name: str
    proposal: Proposal
    vocab_size: int | None
    max_length: int | None

    def start(self, capacity: int) -> None:
        """Forgets the previous request; the new one will have at most `capacity` tokens."""
        ...

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """A draft of at most `budget` nodes; an empty one means a plain step."""
        ...

    def observe(self, verdict: Verdict, hidden: Float[Tensor, "rows width"] | None) -> None:
        """Learns what became of the latest draft; `hidden` are the target's states of the pending token and nodes."""
        ...

    @property
    def cache_rows(self) -> int | None:
        """Valid rows of the drafter's own cache, None when it has none."""
        ...
