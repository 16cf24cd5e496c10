"""Models small enough to check by hand: any function of the prefix behind the `LanguageModel` protocol.

A `PrefixModel` reads the tokens *out of its cache*, so a stale or missing row, a wrong mask or a wrong position
changes what it says. Toy models without memory cannot show such mistakes.
"""

from collections.abc import Callable, Sequence

from jaxtyping import Bool, Int
import torch
from torch import Tensor

from specdec_core.cache import check_kept, check_length, check_removal
from specdec_core.models.protocol import ForwardOutput, KVCache

LogitsOf = Callable[[tuple[int, ...]], Sequence[float] | Tensor]
StateOf = Callable[[tuple[int, ...]], Tensor]


class TokenCache:
    """A cache whose rows are the tokens themselves."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows_moved = 0
        self.tokens: list[int] = []
        self._block_start = 0

    def __len__(self) -> int:
        return len(self.tokens)

    def append(self, tokens: Sequence[int]) -> None:
        """Writes a row a token. ValueError when they do not fit."""
        if len(self.tokens) + len(tokens) > self.capacity:
            raise ValueError(f"{len(tokens)} rows do not fit: the cache holds {len(self.tokens)} of {self.capacity}")
        self._block_start = len(self.tokens)
        self.tokens.extend(tokens)

    def rollback(self, num_removed: int) -> None:
        """Drops the newest rows."""
        check_removal(len(self.tokens), num_removed)
        self.truncate(len(self.tokens) - num_removed)

    def truncate(self, length: int) -> None:
        """Keeps the oldest rows."""
        check_length(len(self.tokens), length)
        del self.tokens[length:]
        self._block_start = min(self._block_start, length)

    def keep(self, node_ids: Sequence[int]) -> None:
        """Keeps the rows at these offsets of the latest forward; see `KVCache.keep`."""
        check_kept(len(self.tokens) - self._block_start, node_ids)
        self.rows_moved += sum(slot != node for slot, node in enumerate(node_ids))
        self.tokens[self._block_start :] = [self.tokens[self._block_start + node] for node in node_ids]


class PrefixModel:
    """The language model whose next-token logits are `logits_of(prefix)` and whose state is `state_of(prefix)`, if any.

    `positions_fed` counts the rows of all forwards, `forwards` the calls: what a real model would have cost.
    """

    def __init__(
        self, vocab_size: int, logits_of: LogitsOf, *, max_length: int = 1 << 20, state_of: StateOf | None = None
    ) -> None:
        self.vocab_size = vocab_size
        self.max_length = max_length
        self.device = torch.device("cpu")
        self.dtype = torch.float32
        self.positions_fed = 0
        self.forwards = 0
        self._logits_of = logits_of
        self._state_of = state_of

    def new_cache(self, capacity: int) -> TokenCache:
        """An empty cache."""
        return TokenCache(capacity)

    def forward(
        self,
        tokens: Int[Tensor, " rows"],
        positions: Int[Tensor, " rows"] | None = None,
        mask: Bool[Tensor, "rows total"] | None = None,
        *,
        cache: KVCache,
        last_only: bool = False,
    ) -> ForwardOutput:
        """Logits of each row from the tokens it sees; `hidden` is None without `state_of`.

        Raises:
            ValueError: besides what the protocol lists, a row whose position is not the number of tokens before it.
        """
        if not isinstance(cache, TokenCache):
            raise ValueError(f"cache is a {type(cache).__name__}; make it with this model's new_cache(capacity)")
        fed = tokens.tolist()
        for index, token in enumerate(fed):
            if not 0 <= token < self.vocab_size:
                raise ValueError(f"tokens[{index}] is {token}; the vocabulary has ids 0..{self.vocab_size - 1}")
        before, total = len(cache), len(cache) + len(fed)
        if mask is None:
            mask = torch.ones(len(fed), total, dtype=torch.bool).tril(before)
        if tuple(mask.shape) != (len(fed), total):
            raise ValueError(f"mask has shape {tuple(mask.shape)}; expected {(len(fed), total)}: rows fed, rows in all")
        at = list(range(before, total)) if positions is None else positions.tolist()
        rows = [*cache.tokens, *fed]
        prefixes = [tuple(rows[column] for column in row.nonzero()[:, 0].tolist()) for row in mask]
        for index, (prefix, position) in enumerate(zip(prefixes, at)):
            if position != len(prefix) - 1 or position >= self.max_length:
                raise ValueError(
                    f"positions[{index}] is {position}, but that row sees {len(prefix)} tokens "
                    f"(context {self.max_length}); expected {len(prefix) - 1}"
                )
        cache.append(fed)
        self.positions_fed += len(fed)
        self.forwards += 1
        wanted = prefixes[-1:] if last_only else prefixes
        self._prepare(wanted if self._state_of is None else prefixes)
        logits = [torch.as_tensor(self._logits_of(prefix), dtype=torch.float32) for prefix in wanted]
        hidden = None if self._state_of is None else torch.stack([self._state_of(prefix) for prefix in prefixes])
        return ForwardOutput(torch.stack(logits), hidden)

    def _prepare(self, prefixes: list[tuple[int, ...]]) -> None:
        """Called before the logits (and states) of these prefixes are asked for."""


def one_hot_logits(vocab_size: int, token: int) -> list[float]:
    """Logits that leave no doubt: 0 for `token`, -30 for the rest."""
    return [0.0 if index == token else -30.0 for index in range(vocab_size)]


def toy_target_next(prefix: Sequence[int]) -> int:
    """The TOY target's next token: (3 * last + length) mod 10."""
    return (3 * prefix[-1] + len(prefix)) % 10


def toy_draft_next(prefix: Sequence[int]) -> int:
    """The TOY drafter's next token: the target's, plus 1 (mod 10) after a multiple of four tokens."""
    return (toy_target_next(prefix) + (len(prefix) % 4 == 0)) % 10


def toy_pair(max_length: int = 1 << 20) -> tuple[PrefixModel, PrefixModel]:
    """The TOY target and draft model: vocabulary 10, sensitive to the last token and to the position."""
    target = PrefixModel(10, lambda prefix: one_hot_logits(10, toy_target_next(prefix)), max_length=max_length)
    draft = PrefixModel(10, lambda prefix: one_hot_logits(10, toy_draft_next(prefix)), max_length=max_length)
    return target, draft
