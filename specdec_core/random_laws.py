"""Random exact laws with memory, for proofs: small whole weights that depend on every token of the text.

A law without memory would hide a rule that reads the wrong row.
"""

from collections.abc import Callable, Collection
from fractions import Fraction
import random

from specdec_core.exact_drafts import NextLaw, Prefix

Children = Callable[[Prefix], tuple[int, ...]]
Support = Callable[[Prefix], Collection[int]]


def random_law(seed: object, vocab: int, *, zeros: bool = True, support: Support | None = None) -> NextLaw:
    """A law of weights 0..5, or 1..5 without `zeros`; with `support`, 1..5 on `support(text)` and 0 off it."""
    memo: dict[Prefix, list[Fraction]] = {}

    def law(prefix: Prefix) -> list[Fraction]:
        if prefix not in memo:
            generator = random.Random(f"{seed} {prefix}")
            weights = [generator.randint(0 if zeros and support is None else 1, 5) for _ in range(vocab)]
            if support is not None:
                inside = support(prefix)
                weights = [weight if token in inside else 0 for token, weight in enumerate(weights)]
            if not any(weights):
                weights[generator.randrange(vocab)] = 1
            memo[prefix] = [Fraction(weight, sum(weights)) for weight in weights]
        return memo[prefix]

    return law


def one_hot_law(seed: object, vocab: int) -> NextLaw:
    """A law that is sure of one token, another one after another text."""
    return random_law(seed, vocab, support=lambda prefix: {random.Random(f"{seed} one {prefix}").randrange(vocab)})


def sparse_law(seed: object, vocab: int) -> NextLaw:
    """A law that leaves out at least one token after every text."""

    def support(prefix: Prefix) -> list[int]:
        generator = random.Random(f"{seed} sparse {prefix}")
        return generator.sample(range(vocab), generator.randint(1, vocab - 1))

    return random_law(seed, vocab, support=support)


def disjoint_laws(seed: object, vocab: int) -> tuple[NextLaw, NextLaw]:
    """Two laws that share no token after any text."""

    def split(prefix: Prefix) -> tuple[list[int], list[int]]:
        generator = random.Random(f"{seed} split {prefix}")
        order = generator.sample(range(vocab), vocab)
        cut = generator.randint(1, vocab - 1)
        return order[:cut], order[cut:]

    left = random_law(f"{seed} left", vocab, support=lambda prefix: split(prefix)[0])
    return left, random_law(f"{seed} right", vocab, support=lambda prefix: split(prefix)[1])


def random_children(seed: object, vocab: int, *, duplicates: bool) -> Children:
    """Ordered children of a text, enough for a shape of 7 nodes; without `duplicates` the first `vocab` differ."""

    def children(prefix: Prefix) -> tuple[int, ...]:
        generator = random.Random(f"{seed} {prefix}")
        if duplicates:
            return tuple(generator.choices(range(vocab), k=7))
        return tuple(generator.sample(range(vocab), vocab) * 7)[:7]

    return children
