"""Targets and drafts with memory: logits by the last two tokens and by whether the position is odd."""

from collections.abc import Sequence
from dataclasses import dataclass
import math

from jaxtyping import Float, Float64, Int64
import numpy as np
from numpy import ndarray
import torch
from torch import Tensor

TEMPERATURE = 0.9

Row = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Contexts:
    """Where some texts stand: what the laws of the next token depend on. Texts begin behind two tokens 0."""

    before: Int64[Tensor, " texts"]
    last: Int64[Tensor, " texts"]
    length: Int64[Tensor, " texts"]

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> "Contexts":
        """After these texts."""
        tails = torch.tensor([[0, 0, *text][-2:] for text in texts])
        return cls(tails[:, 0], tails[:, 1], torch.tensor([len(text) for text in texts]))

    def then(self, tokens: Int64[Tensor, " texts"]) -> "Contexts":
        """One token on."""
        return Contexts(self.last, tokens, self.length + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A target and a draft: the logits of each context."""

    name: str
    vocab: int
    target: Float[Tensor, "parity vocab vocab vocab"]
    draft: Float[Tensor, "parity vocab vocab vocab"]

    @classmethod
    def of(cls, name: str, rows: Sequence[tuple[Row, Row]]) -> "Pair":
        """Each context has one of these rows (target, draft), tokens turned round by an amount that it sets too.

        So neighbouring rows of a batch differ, and whoever reads a wrong one shows.
        """
        vocab = len(rows[0][0])
        tables = torch.empty(2, 2, vocab, vocab, vocab)
        for parity in range(2):
            for before in range(vocab):
                for last in range(vocab):
                    row = torch.tensor(rows[(before + 2 * last + 3 * parity) % len(rows)])
                    tables[:, parity, before, last] = row.roll(2 * before + last + parity, dims=1)
        return cls(name, vocab, tables[0], tables[1])

    def target_rows(self, contexts: Contexts) -> Float[Tensor, "texts vocab"]:
        """The target's logits."""
        return self.target[contexts.length % 2, contexts.before, contexts.last]

    def draft_rows(self, contexts: Contexts) -> Float[Tensor, "texts vocab"]:
        """The draft's logits."""
        return self.draft[contexts.length % 2, contexts.before, contexts.last]

    def target_law(self, tokens: tuple[int, ...]) -> Float64[ndarray, " vocab"]:
        """The target's law after a text, in float64: what the certificate holds the kernels against."""
        return law_of(self.target_rows(Contexts.of([tokens])))[0]


def law_of(logits: Float[Tensor, "texts vocab"]) -> Float64[ndarray, "texts vocab"]:
    """softmax(logits / TEMPERATURE), with the temperature in float32 as the kernels read it."""
    return torch.softmax(logits.double() / float(np.float32(TEMPERATURE)), -1).numpy()


# The first three: of 1,500 random rows three of those that a recovery on the draft's noise shifts most (0.07 in total
# variation each). The last three have a draft that is close, so that whole drafts are kept too. Five tokens are no
# multiple of four: the last block of noise is cut, and tiles of eight have padding lanes.
MEMORY = Pair.of(
    "memory",
    (
        ((1.1, -0.4, 0.5, 1.5, -1.1), (-1.7, 1.4, -1.0, 0.8, 0.4)),
        ((0.9, -0.3, 1.4, -1.2, 0.2), (0.6, -0.7, 1.7, -0.9, 0.5)),
        ((0.7, -1.1, -1.8, 0.5, -1.5), (1.3, 1.0, 1.7, -1.5, -1.0)),
        ((-0.6, 1.1, 0.3, 0.8, -0.2), (-0.2, 0.9, 0.6, 0.4, -0.6)),
        ((-0.8, -0.7, 0.1, 0.8, 1.0), (0.2, -0.7, -1.3, -0.9, -2.4)),
        ((0.2, 0.6, -0.9, 0.1, 1.3), (-0.1, 0.9, -0.6, -0.2, 1.0)),
    ),
)

# Of 6,000 random rows one of those that move the law most when the residual of block verification is not scaled.
PREFIX = Pair.of("prefix", (((1.1, 1.1, -0.7, 0.3, -1.4), (3.7, 2.3, 0.4, -2.6, -0.2)),))

# The likelier of two tokens, 3/5, is always drafted: coins keyed by position cost block verification much.
COIN = Pair.of("coin", (((math.log(0.6) * TEMPERATURE, math.log(0.4) * TEMPERATURE), (1.0, 0.0)),))
