"""What the engine needs from a model, a cache and a tokenizer; nothing else of them is used."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ForwardOutput:
    """Result of one forward pass, a row per token fed (or only the last, see `LanguageModel.forward`)."""

    logits: Float[Tensor, "rows vocab"]
    hidden: Float[Tensor, "fed width"] | None


@runtime_checkable
class KVCache(Protocol):
    """Key-value rows of one sequence, oldest first. `len(cache)` rows are valid.

    Rolling back and truncating only move the length: no byte is copied.
    """

    capacity: int
    rows_moved: int

    def __len__(self) -> int: ...

    def rollback(self, num_removed: int) -> None:
        """Drops the newest `num_removed` rows. ValueError if negative or more than there are."""
        ...

    def truncate(self, length: int) -> None:
        """Keeps the oldest `length` rows. ValueError if negative or more than there are."""
        ...

    def keep(self, node_ids: Sequence[int]) -> None:
        """Keeps, of the rows the latest forward wrote, those at the increasing offsets `node_ids`, in order.

        Offset 0 is the first row that forward wrote. Moves no row when the offsets are 0, 1, 2, ...;
        otherwise exactly the rows whose slot changes (counted in `rows_moved`), never an older row.
        """
        ...


@runtime_checkable
class LanguageModel(Protocol):
    """A causal language model over one sequence with an explicit cache."""

    vocab_size: int
    max_length: int
    device: torch.device
    dtype: torch.dtype

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for up to `capacity` rows, drafted rows included."""
        ...

    def forward(
        self,
        tokens: Int[Tensor, " rows"],
        positions: Int[Tensor, " rows"] | None = None,
        mask: Bool[Tensor, "rows total"] | None = None,
        *,
        cache: KVCache,
        last_only: bool = False,
    ) -> ForwardOutput:
        """Next-token logits (float32) for each token fed; appends one cache row a token.

        Shapes: `total` = rows in the cache before the call + rows fed. `positions` defaults to the next
        positions in order, `mask` (True = may look) to causal. With `last_only` just the last row's logits
        are computed (a prefill needs no others); `hidden` (the state the head reads) always has every row.

        Raises:
            ValueError: a token outside the vocabulary, a position at or past `max_length`, a mask of the
                wrong shape, or more rows than the cache has room for. The cache is unchanged then.
        """
        ...


@runtime_checkable
class Tokenizer(Protocol):
    """Text to ids and back."""

    vocab_size: int
    eos_ids: tuple[int, ...]

    def encode(self, text: str) -> list[int]:
        """Ids of plain text. Special tokens typed by a user are text, never control tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids; incomplete UTF-8 at the end is left out, control tokens are left out."""
        ...

    def chat(self, prompt: str, system: str | None = None) -> list[int]:
        """Ids of a one-turn chat prompt by the model's template, up to where the answer starts."""
        ...

    def token(self, token_id: int) -> str:
        """Printable form of one id: whitespace and partial bytes made visible."""
        ...
