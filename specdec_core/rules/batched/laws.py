"""The laws a batch draws from, a few rows at a time: small enough to stay in cache, nothing of size [slots, vocab]."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jaxtyping import Float, Float64, Int64
import torch
from torch import Tensor

_MOST_ELEMENTS = 32_767
"""Rows of a group together stay below torch's parallel grain, so that their sums do not depend on each other."""


def groups(count: int, vocab: int) -> Iterator[slice]:
    """Slices of 0 .. count - 1, each of as many rows as are worked on at a time; one row of a large vocabulary."""
    size = max(1, _MOST_ELEMENTS // max(1, vocab))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


@dataclass(frozen=True, slots=True, eq=False)
class LawGroup:
    """Some laws up to a factor; `values` divides, which only a draw that depends on its rounding needs.

    Attributes:
        rows: the weights.
        fallback: the laws that take the place of rows without a positive weight; None: the rows are laws as they are.
    """

    rows: Float64[Tensor, "rows vocab"]
    fallback: Float64[Tensor, "rows vocab"] | None = None

    def values(self) -> Float64[Tensor, "rows vocab"]:
        """The weights that the scalar rule draws from."""
        if self.fallback is None:
            return self.rows
        sums = self.rows.sum(-1, keepdim=True)
        empty = sums == 0
        return torch.where(empty, self.fallback, self.rows / sums) if bool(empty.any()) else self.rows / sums


@dataclass(frozen=True, slots=True, eq=False)
class Laws:
    """`count` laws over `vocab` tokens, made group by group when they are iterated over.

    Attributes:
        make: the laws of a slice.
        rough: one law's row, each entry off by at most one part in 2^24, in any dtype from float32 up.
        entries: (laws [n], tokens [n, m]) -> the rows of those laws at these tokens.
    """

    count: int
    vocab: int
    make: Callable[[slice], LawGroup]
    rough: Callable[[int], Float[Tensor, " vocab"]]
    entries: Callable[[Int64[Tensor, " laws"], Int64[Tensor, "laws tokens"]], Float64[Tensor, "laws tokens"]]

    @classmethod
    def of(cls, rows: Float64[Tensor, "rows vocab"]) -> "Laws":
        """Rows that are there already."""
        return cls(
            rows.shape[0],
            rows.shape[1],
            make=lambda part: LawGroup(rows[part]),
            rough=lambda law: rows[law],
            entries=lambda which, tokens: rows[which[:, None], tokens],
        )

    @property
    def is_large(self) -> bool:
        """Whether a group is a single row."""
        return 2 * self.vocab > _MOST_ELEMENTS

    def __iter__(self) -> Iterator[tuple[slice, LawGroup]]:
        for part in groups(self.count, self.vocab):
            yield part, self.make(part)
