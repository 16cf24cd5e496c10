"""A draft's own, smaller vocabulary: the target's most frequent ids. The others are never proposed: q is zero there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

from jaxtyping import Float, Int
import torch
from torch import Tensor


@dataclass(frozen=True)
class CutVocabulary:
    """`ids[i]` is the target's id of the draft's id i; increasing.

    Source: FR-Spec, Zhao et al. 2502.14856.
    """

    ids: tuple[int, ...]
    target_size: int

    def __post_init__(self) -> None:
        if not all(isinstance(token, Integral) for token in self.ids):
            raise ValueError("ids holds something that is no whole number; expected the target's token ids")
        if not self.ids or list(self.ids) != sorted(set(self.ids)):
            raise ValueError(f"ids has {len(self.ids)} entries; expected some, increasing and each once")
        if self.ids[0] < 0 or self.ids[-1] >= self.target_size:
            raise ValueError(f"ids go from {self.ids[0]} to {self.ids[-1]}; the target has 0..{self.target_size - 1}")

    @classmethod
    def most_frequent(
        cls, tokens: Iterable[int], size: int, target_size: int, *, always: Sequence[int] = ()
    ) -> "CutVocabulary":
        """The `size` ids that occur most often in `tokens`, lower ids first among equals; `always` are in any case."""
        if not len(set(always)) <= size <= target_size:
            raise ValueError(f"size is {size}; expected {len(set(always))}..{target_size}")
        found = torch.as_tensor(list(tokens), dtype=torch.long)
        for name, ids in (("tokens", found), ("always", torch.as_tensor(list(always), dtype=torch.long))):
            if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < target_size:
                raise ValueError(
                    f"{name} go from {int(ids.min())} to {int(ids.max())}; the target has 0..{target_size - 1}"
                )
        counts = torch.bincount(found, minlength=target_size)
        counts[list(always)] = counts.sum() + 1
        order = torch.argsort(counts, descending=True, stable=True)
        return cls(tuple(sorted(order[:size].tolist())), target_size)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def index(self) -> Int[Tensor, " cut"]:
        """The target's ids as a tensor: `head_weight[index]` are the rows a cut head needs."""
        return torch.tensor(self.ids)

    @cached_property
    def inverse(self) -> Int[Tensor, " target"]:
        """The draft's id of every target id, -1 where there is none."""
        table = torch.full((self.target_size,), -1)
        table[self.index] = torch.arange(len(self.ids))
        return table

    def spread(self, probs: Float[Tensor, "... cut"]) -> Float[Tensor, "... target"]:
        """A law over the cut as one over the target's ids, zero elsewhere."""
        if probs.shape[-1] != len(self.ids):
            raise ValueError(f"probs has {probs.shape[-1]} entries, the cut vocabulary {len(self.ids)}")
        full = probs.new_zeros(*probs.shape[:-1], self.target_size)
        return full.index_copy_(-1, self.index.to(probs.device), probs)
