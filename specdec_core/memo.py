"""A language model that remembers the logits of every prefix it has met.

Certificates sample the same short continuations thousands of times; with this in front, each prefix costs one
forward in all. What is *not* exercised then is the model's own cache: run some samples without it too.
"""

from jaxtyping import Bool, Int
import torch
from torch import Tensor

from specdec_core.models.protocol import KVCache, LanguageModel
from specdec_core.toy import PrefixModel

_ROWS_PER_PASS = 64


class MemoisedModel(PrefixModel):
    """`model`, with the logits of each prefix computed once. `misses` counts the forwards of `model`.

    `capacity` is the length of the longest prefix. Memory: 4 bytes times the vocabulary a prefix. With `keep_states`
    the states are remembered too, for drafters that read them.
    """

    def __init__(self, model: LanguageModel, *, capacity: int, keep_states: bool = False) -> None:
        state_of = self.state_after if keep_states else None
        super().__init__(model.vocab_size, self.logits_after, max_length=model.max_length, state_of=state_of)
        self._keep_states = keep_states
        self._states: dict[tuple[int, ...], Tensor] = {}
        self.misses = 0
        self._model = model
        self._cache: KVCache = model.new_cache(capacity + _ROWS_PER_PASS)
        self._cached: tuple[int, ...] = ()
        self._memo: dict[tuple[int, ...], Tensor] = {}

    def logits_after(self, prefix: tuple[int, ...]) -> Tensor:
        """Next-token logits after `prefix`, on the CPU."""
        if prefix not in self._memo:
            self._compute(prefix)
        return self._memo[prefix]

    def state_after(self, prefix: tuple[int, ...]) -> Tensor:
        """The model's state of the last token of `prefix`, on the CPU.

        Raises:
            ValueError: the model gives none, or the memo was made without `keep_states`.
        """
        if not self._keep_states:
            raise ValueError("this memo keeps no states; make it with keep_states=True")
        if prefix not in self._states:
            self._compute(prefix)
        return self._states[prefix]

    def _prepare(self, prefixes: list[tuple[int, ...]]) -> None:
        # a draft tree in few passes, as the model itself would take it
        if len(prefixes) > 1:
            self.prefetch(prefixes)

    def _remember(self, prefix: tuple[int, ...], logits: Tensor, state: Tensor | None) -> None:
        self._memo[prefix] = logits.to("cpu", copy=True)
        if self._keep_states:
            if state is None:
                raise ValueError(f"{type(self._model).__name__} gives no states to keep; use keep_states=False")
            self._states[prefix] = state.to("cpu", torch.float32, copy=True)

    def _compute(self, prefix: tuple[int, ...]) -> None:
        # the last token is always fed again, so that there is a row to read
        shared = self._rewind(prefix[:-1])
        fed = torch.tensor(prefix[shared:], dtype=torch.long, device=self._model.device)
        output = self._model.forward(fed, cache=self._cache, last_only=True)
        self._cached = prefix
        self.misses += 1
        self._remember(prefix, output.logits[-1], None if output.hidden is None else output.hidden[-1])

    def _rewind(self, wanted: tuple[int, ...]) -> int:
        """Keeps the cached rows that `wanted` begins with; how many those are."""
        shared = 0
        for cached, token in zip(self._cached, wanted):
            if cached != token:
                break
            shared += 1
        self._cache.truncate(shared)
        self._cached = wanted[:shared]
        return shared

    def prefetch(self, prefixes: list[tuple[int, ...]]) -> None:
        """Computes many prefixes that share their first tokens, several a pass under a tree mask."""
        missing = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in self._memo]
        if not missing:
            return
        shared = _common_prefix(missing)
        block: list[tuple[int, ...]] = []
        nodes: set[tuple[int, ...]] = set()
        for prefix in missing:
            added = {prefix[:length] for length in range(shared + 1, len(prefix) + 1)}
            if block and len(nodes | added) > _ROWS_PER_PASS:
                self._prefetch_block(block, shared)
                block, nodes = [], set()
            block.append(prefix)
            nodes |= added
        self._prefetch_block(block, shared)

    def _prefetch_block(self, prefixes: list[tuple[int, ...]], shared: int) -> None:
        base = prefixes[0][:shared]
        known = self._rewind(base)
        if known < shared:
            fed = torch.tensor(base[known:], dtype=torch.long, device=self._model.device)
            self._model.forward(fed, cache=self._cache, last_only=True)
        self._cached = base
        tokens, positions, mask, row_of = _trie(prefixes, shared)
        device = self._model.device
        output = self._model.forward(tokens.to(device), positions.to(device), mask.to(device), cache=self._cache)
        self._cache.truncate(shared)
        self.misses += 1
        for prefix in prefixes:
            row = row_of[prefix]
            self._remember(prefix, output.logits[row], None if output.hidden is None else output.hidden[row])


def _common_prefix(prefixes: list[tuple[int, ...]]) -> int:
    """Length of the longest prefix of all, one short of the shortest, so that each has a row of its own."""
    shortest = min(len(prefix) for prefix in prefixes) - 1
    first = prefixes[0]
    for length in range(shortest):
        if any(prefix[length] != first[length] for prefix in prefixes):
            return length
    return shortest


def _trie(
    prefixes: list[tuple[int, ...]], shared: int
) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"], Bool[Tensor, "rows total"], dict[tuple[int, ...], int]]:
    """The tokens behind the shared part as a tree: tokens, positions, mask, and the row of each prefix."""
    row_of: dict[tuple[int, ...], int] = {}
    for prefix in prefixes:
        for length in range(shared + 1, len(prefix) + 1):
            row_of.setdefault(prefix[:length], len(row_of))
    mask = torch.zeros(len(row_of), shared + len(row_of), dtype=torch.bool)
    mask[:, :shared] = True
    for node, row in row_of.items():
        for length in range(shared + 1, len(node) + 1):
            mask[row, shared + row_of[node[:length]]] = True
    tokens = torch.tensor([node[-1] for node in row_of], dtype=torch.long)
    positions = torch.tensor([len(node) - 1 for node in row_of], dtype=torch.long)
    return tokens, positions, mask, row_of
