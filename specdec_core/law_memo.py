"""Sampling parameters that remember: the same logits are warped once.

Behind a `MemoisedModel` a certificate meets the same few thousand rows of logits again and again, and warping a row
of 49,152 costs more than everything else in a sample. What the engine sees is the same, bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.warp import SamplingParams

_NOT_IN_THE_LAW = ("seed", "stop", "memo")
_SPARSE_BELOW = 1 / 8
MAX_STORED = 1 << 26
"""Probabilities a memo keeps, 256 MB; laws met after that are warped each time."""

Key = tuple[tuple[str, ...], int, int]


class LawMemo:
    """Laws by key, those with few positive entries without the zeros, up to `MAX_STORED` numbers in all."""

    def __init__(self) -> None:
        self.laws: dict[Key, tuple[Tensor | None, Tensor]] = {}
        self._stored = 0

    def put(self, key: Key, law: Float[Tensor, " vocab"]) -> None:
        """Keeps a copy, if there is room and it is new."""
        if key in self.laws:
            return
        indices = law.nonzero()[:, 0]
        is_sparse = len(indices) < _SPARSE_BELOW * len(law)
        size = len(indices) if is_sparse else len(law)
        if self._stored + size <= MAX_STORED:
            self._stored += size
            self.laws[key] = (indices, law[indices]) if is_sparse else (None, law.clone())

    def fill(self, key: Key, law: Float[Tensor, " vocab"]) -> None:
        """Writes the law of `key` into a row of zeros."""
        indices, values = self.laws[key]
        law[... if indices is None else indices] = values


@dataclass(frozen=True, kw_only=True)
class RememberedParams(SamplingParams):
    """`SamplingParams` whose `probs` looks rows up by a 64-bit hash of their bytes.

    Two different rows among 10^5 share one with probability 3e-10. A copy made by `dataclasses.replace` shares the
    memo, under keys of its own. With penalties, which look at the history, nothing is remembered.
    """

    memo: LawMemo = field(default_factory=LawMemo, repr=False, compare=False)

    @classmethod
    def of(cls, params: SamplingParams) -> "RememberedParams":
        """The same parameters with an empty memo."""
        return cls(**{entry.name: getattr(params, entry.name) for entry in fields(SamplingParams)})

    def to_dict(self) -> dict[str, Any]:
        """The parameters as plain JSON data."""
        data = super().to_dict()
        del data["memo"]
        return data

    def probs(
        self,
        logits: Float[Tensor, "rows vocab"],
        history: Sequence[Sequence[int]] | None = None,
        *,
        prompt_length: int = 0,
    ) -> Float[Tensor, "rows vocab"]:
        """As `SamplingParams.probs`; the rows are fresh copies."""
        if self.uses_history or logits.device.type != "cpu":
            return super().probs(logits, history, prompt_length=prompt_length)
        own = tuple(repr(getattr(self, entry.name)) for entry in fields(self) if entry.name not in _NOT_IN_THE_LAW)
        raw = logits.contiguous().view(torch.uint8).numpy()
        keys = [(own, logits.shape[-1], hash(row.tobytes())) for row in raw]
        if not all(key in self.memo.laws for key in keys):
            # all rows are given, so that an error names the row by its own number
            laws = super().probs(logits)
            for key, law in zip(keys, laws):
                self.memo.put(key, law)
            return laws
        laws = torch.zeros(logits.shape, dtype=torch.float32)
        for key, law in zip(keys, laws):
            self.memo.fill(key, law)
        return laws
