"""Target and draft as tables: the next token depends on the last few tokens only, so every law is known exactly."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
import random
from typing import Any

Row = tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """A target and a draft that look at the last `order` tokens.

    Attributes:
        name: how reports call the pair.
        start: the `order` tokens before the first sampled one.
        target, draft: a row per context, in the order of the contexts read as numbers of base `vocab`.
    """

    name: str
    vocab: int
    order: int
    start: tuple[int, ...]
    target: tuple[Row, ...]
    draft: tuple[Row, ...]

    def __post_init__(self) -> None:
        if len(self.start) != self.order:
            raise ValueError(f"start has {len(self.start)} tokens; expected as many as order, {self.order}")
        for side, rows in (("target", self.target), ("draft", self.draft)):
            if len(rows) != self.vocab**self.order:
                raise ValueError(f"{side} has {len(rows)} rows; expected one per context, {self.vocab**self.order}")
            if any(len(row) != self.vocab or sum(row) != 1 for row in rows):
                raise ValueError(f"{side} has a row that is not {self.vocab} probabilities with sum 1")

    def target_after(self, tokens: Sequence[int]) -> Row:
        """The target's law after `start` and these tokens."""
        return self.target[self.context(tokens)]

    def draft_after(self, tokens: Sequence[int]) -> Row:
        """The draft's law after `start` and these tokens."""
        return self.draft[self.context(tokens)]

    def context(self, tokens: Sequence[int]) -> int:
        """The row of the last `order` tokens."""
        text = (*self.start, *tokens)
        row = 0
        for token in text[len(text) - self.order :]:
            row = row * self.vocab + token
        return row

    @property
    def has_deterministic_draft(self) -> bool:
        """Whether every row of the draft is one token."""
        return all(max(row) == 1 for row in self.draft)

    def greedy(self) -> "Tables":
        """The same target; the draft's rows are one-hot at their largest entry (the lowest of equal ones)."""
        best = [max(range(self.vocab), key=row.__getitem__) for row in self.draft]
        rows = tuple(tuple(Fraction(int(token == chosen)) for token in range(self.vocab)) for chosen in best)
        return replace(self, draft=rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, probabilities as floats."""
        rows = {side: [[float(p) for p in row] for row in getattr(self, side)] for side in ("target", "draft")}
        return {"name": self.name, "vocab": self.vocab, "order": self.order, "start": list(self.start), **rows}


def paper_example() -> Tables:
    """p = (1/3, 2/3), q = (2/3, 1/3) without memory: the example of Sun et al. 2403.10444, section 2."""
    third = Fraction(1, 3)
    return Tables("paper", 2, 0, (), ((third, 2 * third),), ((2 * third, third),))


def coin_example() -> Tables:
    """p = (1/2, 1/2), and a draft that prefers token 0: drafted greedily, every draft is 0."""
    half, third = Fraction(1, 2), Fraction(1, 3)
    return Tables("coin", 2, 0, (), ((half, half),), ((2 * third, third),))


def random_tables(seed: int, *, vocab: int = 3, order: int = 2, largest: int = 9, distinct: bool = False) -> Tables:
    """Rows of integers 1 .. `largest` divided by their sum: no probability is zero, none is irrational.

    With `distinct` no row repeats one, so that top-k has no ties.
    """
    numbers = random.Random(seed)

    def row() -> Row:
        weights = (
            numbers.sample(range(1, largest + 1), vocab)
            if distinct
            else [numbers.randint(1, largest) for _ in range(vocab)]
        )
        return tuple(Fraction(weight, sum(weights)) for weight in weights)

    count = vocab**order
    target = tuple(row() for _ in range(count))
    return Tables(
        f"random-{vocab}-{order}-{seed}", vocab, order, (0,) * order, target, tuple(row() for _ in range(count))
    )


def memory_example() -> Tables:
    """Three tokens, the last two matter. Of forty such pairs the one that keyed noise moves most in our simulation."""
    return replace(random_tables(37), name="memory")
