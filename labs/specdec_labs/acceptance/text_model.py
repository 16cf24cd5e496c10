"""A language model that knows one text: rows recorded from a real model, played back wherever the text is followed.

Engine, rule and drafter run on it as on the model itself, without its cost. Off the text - behind a draft that the
text does not contain - it knows nothing: such rows name token 0, and their states are NaN, so that a drafter which
looked at them would be found out. At the text's own places no rule lets them count.
"""

from collections.abc import Callable, Sequence

from jaxtyping import Bool, Float, Int
import torch
from torch import Tensor

from specdec_core.models.protocol import ForwardOutput, KVCache
from specdec_core.toy import TokenCache

LogitsRow = Callable[[int], Float[Tensor, " vocab"] | int]
"""Number of tokens before -> the recorded logits, or the one token that is certain."""


class TextModel:
    """`row_after(n)` is what the real model said after the first n tokens of `text`; `states[t]` its state of token t.

    `row_after` is asked for lengths at which something may be verified or drafted; past the text it is not asked.
    """

    def __init__(
        self,
        text: Sequence[int],
        row_after: LogitsRow,
        *,
        vocab_size: int,
        max_length: int,
        states: Float[Tensor, "rows width"] | None = None,
    ) -> None:
        self.vocab_size, self.max_length = vocab_size, max_length
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self._text, self._row_after, self._states = list(text), row_after, states

    @classmethod
    def certain(
        cls, text: Sequence[int], *, vocab_size: int, max_length: int, states: Float[Tensor, "rows width"] | None = None
    ) -> "TextModel":
        """The model that says the text and nothing else."""
        words = list(text)

        def next_token(length: int) -> int:
            return words[length] if length < len(words) else 0

        return cls(words, next_token, vocab_size=vocab_size, max_length=max_length, states=states)

    def new_cache(self, capacity: int) -> TokenCache:
        """An empty cache, its rows the tokens themselves."""
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
        """The recorded rows. ValueError for a cache of another model."""
        if not isinstance(cache, TokenCache):
            raise ValueError(f"cache is a {type(cache).__name__}; make it with this model's new_cache(capacity)")
        before, fed = len(cache), tokens.tolist()
        cache.append(fed)
        lengths = [self._length_on_text(cache.tokens, mask, before, row) for row in range(len(fed))]
        wanted = lengths[-1:] if last_only else lengths
        return ForwardOutput(self._logits(wanted), None if self._states is None else self._gather(lengths))

    def _length_on_text(self, rows: list[int], mask: Tensor | None, before: int, row: int) -> int | None:
        """How many tokens the row has seen, itself included; None when they are not the text's first ones."""
        if mask is None:
            seen = rows[: before + row + 1]
        else:
            seen = [rows[column] for column in mask[row].nonzero()[:, 0].tolist()]
        return len(seen) if seen == self._text[: len(seen)] else None

    def _logits(self, lengths: Sequence[int | None]) -> Float[Tensor, "rows vocab"]:
        logits = torch.full((len(lengths), self.vocab_size), -torch.inf)
        for row, length in enumerate(lengths):
            found = 0 if length is None else self._row_after(length)
            if isinstance(found, Tensor):
                logits[row] = found
            else:
                logits[row, found] = 0.0
        return logits

    def _gather(self, lengths: Sequence[int | None]) -> Float[Tensor, "rows width"]:
        assert self._states is not None
        states = torch.full((len(lengths), self._states.shape[1]), torch.nan)
        for row, length in enumerate(lengths):
            if length is not None and length <= len(self._states):
                states[row] = self._states[length - 1]
        return states
