"""Target laws of a chosen entropy over any vocabulary, cheap enough for a million texts of 49,152 tokens."""

from collections.abc import Sequence
from functools import cache

from jaxtyping import Float64, Int
import numpy as np
from numpy import ndarray

from specdec_core.noise_cells import Readings, own_noise, pairs_of, readings_of
from specdec_core.partition import Tokens

HORIZON = 4
ROWS = 16
"""Different next-token laws of a zoo law; the last token and the position choose among them."""


class ZooLaw:
    """`NextLaws` whose next token has about `nats` of entropy; every row ranks the ids in an order of its own."""

    def __init__(self, vocab: int, nats: float) -> None:
        self.vocab = vocab
        logits = np.random.default_rng([vocab, int(10 * nats)]).standard_normal((ROWS, vocab))
        self.rows = _of_entropy(logits, nats)
        self.ends = self.rows.cumsum(axis=1)
        order = np.argsort(self.rows, axis=1, kind="stable")
        self._smaller = np.empty_like(self.rows)
        inner = np.take_along_axis(self.rows, order, axis=1).cumsum(axis=1)
        np.put_along_axis(self._smaller, order, np.concatenate([np.zeros((ROWS, 1)), inner[:, :-1]], axis=1), axis=1)

    @property
    def nats(self) -> float:
        """Mean entropy of the rows."""
        return float(-(self.rows * np.log(np.maximum(self.rows, 1e-300))).sum(axis=1).mean())

    def row_of(self, before: Int[ndarray, " samples"], position: int) -> Int[ndarray, " samples"]:
        """The row after the token `before` (-1 for none) at a position from 0."""
        return (before + 1) * 7919 % 10007 * 31 % ROWS if position else np.zeros_like(before)

    def __call__(self, continuation: Tokens) -> Float64[ndarray, " vocab"]:
        """The law after a text."""
        before = np.array([continuation[-1] if continuation else -1])
        return self.rows[int(self.row_of(before, len(continuation))[0])]

    def prefetch(self, continuations: Sequence[Tokens]) -> None:
        """Nothing to do."""

    def draw(self, before: Int[ndarray, " samples"], position: int, u: Float64[ndarray, " samples"], rows=None):
        """The tokens at which the cumulative law passes u; `rows` may replace the rows of the law."""
        chosen = self.row_of(before, position) if rows is None else rows
        tokens = np.empty(len(u), dtype=np.int64)
        for row in np.unique(chosen):
            is_here = chosen == row
            # rounding may leave the last end below 1
            tokens[is_here] = np.minimum(np.searchsorted(self.ends[row], u[is_here], side="right"), self.vocab - 1)
        return tokens

    def texts(self, u: Float64[ndarray, "samples horizon"]) -> Int[ndarray, "samples horizon"]:
        """The texts of a sampler that inverts the law at u."""
        tokens = np.full((len(u), u.shape[1] + 1), -1, dtype=np.int64)
        for position in range(u.shape[1]):
            tokens[:, position + 1] = self.draw(tokens[:, position], position, u[:, position])
        return tokens[:, 1:]

    def reader(self, seed: int) -> "ZooReader":
        """What `LawReader` is for any law, by table."""
        return ZooReader(self, seed)

    def masses(self, tokens: Int[ndarray, "samples horizon"]) -> tuple[ndarray, ndarray]:
        """What `readings_of` needs: masses below, at, less probable than and as probable as a token, and chances."""
        count, horizon = tokens.shape
        base, chances = np.empty((count, horizon, 4)), np.empty((count, len(pairs_of(horizon))))
        for position in range(horizon):
            before = tokens[:, position - 1] if position else np.full(count, -1)
            row, own = self.row_of(before, position), tokens[:, position]
            p = self.rows[row, own]
            base[:, position] = np.stack([self.ends[row, own] - p, p, self._smaller[row, own], p], axis=1)
            for column, (first, last) in enumerate(pairs_of(horizon)):
                if last == position + 1:
                    chances[:, column] = self.rows[row, tokens[:, first - 1]]
        return base, chances


class ZooReader:
    """Reads batches by table."""

    def __init__(self, law: ZooLaw, seed: int) -> None:
        self._law, self._noise = law, own_noise(seed)

    def read(self, samples: Sequence[Tokens]) -> Readings:
        """The readings of the next batch."""
        tokens = np.array(samples)
        return readings_of(tokens, *self._law.masses(tokens), self._noise)


def _of_entropy(logits: Float64[ndarray, "rows vocab"], nats: float) -> Float64[ndarray, "rows vocab"]:
    low, high = 0.0, 100.0
    for _ in range(40):
        scale = (low + high) / 2
        rows = np.exp(scale * (logits - logits.max(axis=1, keepdims=True)))
        rows /= rows.sum(axis=1, keepdims=True)
        found = -(rows * np.log(np.maximum(rows, 1e-300))).sum(axis=1).mean()
        low, high = (scale, high) if found > nats else (low, scale)
    return rows


@cache
def zoo_law(vocab: int, nats: float) -> ZooLaw:
    """Made once."""
    return ZooLaw(vocab, nats)
