"""The animals: samplers that are broken in one way each, and the right one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float64, Int
import numpy as np
from numpy import ndarray

from specdec_labs.zoo.laws import HORIZON, ROWS, ZooLaw, zoo_law

NATS = {8: 1.0, 64: 3.0, 512: 5.5, 4096: 7.0, 49_152: 9.0}
"""Vocabularies of the zoo, and the entropy of a token there."""

DRIFT = 0.4
"""Share of the planned samples after which a drifting sampler breaks; a sequential pass may stop at half of them."""

Texts = Int[ndarray, "samples horizon"]
Noise = Float64[ndarray, "samples horizon"]
Group = Literal["noise", "order", "law", "race", "place", "time", "stated size", "unseen"]


@dataclass(frozen=True, slots=True)
class Draw:
    """What a sampler may use: uniform noise u of its own for each sample, more where it asks, and who it is.

    Attributes:
        requests: number of each sample, from 0; `slots` its place in the batch.
        total: samples the certificate planned.
        bias: the distance the certificate states.
    """

    law: ZooLaw
    rng: np.random.Generator
    u: Noise
    requests: Int[ndarray, " samples"]
    slots: Int[ndarray, " samples"]
    total: int
    bias: float


@dataclass(frozen=True, slots=True)
class Animal:
    """A broken sampler and the vocabularies it is shown over.

    Attributes:
        texts: from a draw to the texts.
        is_seen: whether a certificate is to catch it; those it cannot see by design are in the zoo as well.
    """

    name: str
    group: Group
    about: str
    texts: Callable[[Draw], Texts]
    vocabs: tuple[int, ...]

    @property
    def is_seen(self) -> bool:
        """Whether the certificate is to catch it."""
        return self.group != "unseen"


def on_noise(change: Callable[[Noise], None]) -> Callable[[Draw], Texts]:
    """A sampler that inverts the law at changed noise."""

    def texts(draw: Draw) -> Texts:
        u = draw.u.copy()
        change(u)
        return draw.law.texts(u % 1.0)

    return texts


def copied(*pairs: tuple[int, int]) -> Callable[[Draw], Texts]:
    """Noise of the second of each pair of positions read again from the first."""

    def change(u: Noise) -> None:
        for first, last in pairs:
            u[:, last] = u[:, first]

    return on_noise(change)


def where(mask: Callable[[Draw], ndarray], broken: Callable[[Draw], Texts]) -> Callable[[Draw], Texts]:
    """Broken for some samples only."""

    def texts(draw: Draw) -> Texts:
        right, wrong = draw.law.texts(draw.u), broken(draw)
        return np.where(mask(draw)[:, None], wrong, right)

    return texts


def with_rows(bent: Callable[[ndarray], ndarray]) -> Callable[[Draw], Texts]:
    """A sampler of other next-token laws: rows weighted anew, and normalised."""

    def texts(draw: Draw) -> Texts:
        rows = bent(draw.law.rows)
        ends = (rows / rows.sum(axis=1, keepdims=True)).cumsum(axis=1)
        tokens = np.full((len(draw.u), HORIZON + 1), -1, dtype=np.int64)
        for position in range(HORIZON):
            chosen = draw.law.row_of(tokens[:, position], position)
            for row in np.unique(chosen):
                here = chosen == row
                found = np.searchsorted(ends[row], draw.u[here, position], side="right")
                tokens[here, position + 1] = np.minimum(found, draw.law.vocab - 1)
        return tokens[:, 1:]

    return texts


def _without_tail(rows: ndarray, mass: float = 0.15) -> ndarray:
    order = np.argsort(rows, axis=1)
    below = np.take_along_axis(rows, order, axis=1).cumsum(axis=1) < mass
    kept = rows.copy()
    np.put_along_axis(kept, order, np.where(below, 0.0, np.take_along_axis(rows, order, axis=1)), axis=1)
    return kept


def stepwise(step: Callable[[Draw, int, ndarray, ndarray], ndarray]) -> Callable[[Draw], Texts]:
    """A sampler given by its next token: step(draw, position, tokens so far after a -1, right next token)."""

    def texts(draw: Draw) -> Texts:
        tokens = np.full((len(draw.u), HORIZON + 1), -1, dtype=np.int64)
        for position in range(HORIZON):
            right = draw.law.draw(tokens[:, position], position, draw.u[:, position])
            tokens[:, position + 1] = step(draw, position, tokens[:, : position + 1], right)
        return tokens[:, 1:]

    return texts


def _moved_tile(bit: int) -> Callable[[Draw], Texts]:
    def step(draw: Draw, position: int, tokens: ndarray, right: ndarray) -> ndarray:
        row = draw.law.row_of(tokens[:, -1], position)
        is_tail = draw.law.rows[row, right] < 4 / draw.law.vocab
        return np.where(is_tail, np.minimum(right ^ bit, draw.law.vocab - 1), right)

    return stepwise(step)


def _collapsed_tail(draw: Draw, position: int, tokens: ndarray, right: ndarray) -> ndarray:
    row = draw.law.row_of(tokens[:, -1], position)
    return np.where(draw.law.rows[row, right] < 1 / draw.law.vocab, right % 16, right)


def _stale_row(draw: Draw, position: int, tokens: ndarray, right: ndarray) -> ndarray:
    if position != 2:
        return right
    return draw.law.draw(tokens[:, -1], position, draw.u[:, position], draw.law.row_of(tokens[:, -2], position))


def _recovered_from_target(draw: Draw, position: int, tokens: ndarray, right: ndarray) -> ndarray:
    """Chain rule with q of another row; a rejected draft is replaced by a token of p, not of the residual."""
    row = draw.law.row_of(tokens[:, -1], position)
    drafted = draw.law.draw(tokens[:, -1], position, draw.rng.random(len(right)), (row + 1) % ROWS)
    p, q = draw.law.rows[row, drafted], draw.law.rows[(row + 1) % ROWS, drafted]
    return np.where(draw.rng.random(len(right)) * q < p, drafted, right)


def _accepted_by_draft_noise(draw: Draw, position: int, tokens: ndarray, right: ndarray) -> ndarray:
    row = draw.law.row_of(tokens[:, -1], position)
    noise = draw.rng.random(len(right))
    drafted = draw.law.draw(tokens[:, -1], position, noise, (row + 1) % ROWS)
    p, q = draw.law.rows[row, drafted], draw.law.rows[(row + 1) % ROWS, drafted]
    return np.where(noise * q < p, drafted, right)


def _all_accepted(draw: Draw, position: int, tokens: ndarray, right: ndarray) -> ndarray:
    if position != 1:
        return right
    return draw.law.draw(tokens[:, -1], position, draw.u[:, position], (draw.law.row_of(tokens[:, -1], 1) + 1) % ROWS)


def _repeats(draw: Draw, position: int, tokens: ndarray, right: ndarray) -> ndarray:
    again = draw.rng.random(len(right)) < 0.15
    return np.where(again & (position > 0), tokens[:, -1], right)


def raced(source: tuple[int, ...]) -> Callable[[Draw], Texts]:
    """argmin E_i / p_i with the exponentials of position source[t] at position t."""

    def texts(draw: Draw) -> Texts:
        count = len(draw.u)
        exponentials = {t: draw.rng.standard_exponential((count, draw.law.vocab)) for t in sorted(set(source))}
        tokens = np.full((count, HORIZON + 1), -1, dtype=np.int64)
        for position, own in enumerate(source):
            p = draw.law.rows[draw.law.row_of(tokens[:, position], position)]
            tokens[:, position + 1] = (exponentials[own] / p).argmin(axis=1)
        return tokens[:, 1:]

    return texts


def _three_way(u: Noise) -> None:
    u[:, 2] = u[:, 0] + u[:, 1]


def _parity_of_halves(u: Noise) -> None:
    halves = (u[:, 0] >= 0.5) ^ (u[:, 1] >= 0.5)
    u[:, 2] = (u[:, 2] + halves) / 2


def _set(position: int, value: Callable[[Noise], ndarray]) -> Callable[[Noise], None]:
    def change(u: Noise) -> None:
        u[:, position] = value(u)

    return change


def _everywhere(value: Callable[[Noise], ndarray]) -> Callable[[Noise], None]:
    def change(u: Noise) -> None:
        u[:] = value(u)

    return change


def _share(of: Callable[[float], float]) -> Callable[[Draw], ndarray]:
    return lambda draw: draw.rng.random(len(draw.u)) < of(draw.bias)


def _slot(step: int, place: int) -> Callable[[Draw], ndarray]:
    return lambda draw: draw.slots % step == place


def _late(draw: Draw) -> ndarray:
    return draw.requests >= DRIFT * draw.total


def _growing(draw: Draw) -> ndarray:
    return draw.rng.random(len(draw.u)) < draw.requests / draw.total


def _first_id(draw: Draw) -> Texts:
    texts = draw.law.texts(draw.u)
    texts[:, 0] = 0
    return texts


def _four_way(u: Noise) -> None:
    u[:, 3] = u[:, 0] + u[:, 1] + u[:, 2]


def _rare_context(draw: Draw) -> Texts:
    is_rare = (draw.u[:, 0] < 0.02) & (draw.u[:, 1] < 0.02)
    return where(lambda _: is_rare, copied((1, 2)))(draw)


def _four_share(draw: Draw) -> Texts:
    return draw.law.texts(draw.u[draw.slots // 4 * 4])


WIDE = tuple(NATS)
HIGH = (512, 4096, 49_152)
LAG1, PARITY = copied((0, 1)), copied((0, 1), (2, 3))

ANIMALS: tuple[Animal, ...] = (
    Animal("copy, lag 1", "noise", "token 2 reads the noise of token 1", LAG1, WIDE),
    Animal("copy, lag 2", "noise", "token 3 reads the noise of token 1", copied((0, 2)), WIDE),
    Animal("copy, lag 3", "noise", "token 4 reads the noise of token 1", copied((0, 3)), HIGH),
    Animal("copy, last pair", "noise", "token 4 reads the noise of token 3", copied((2, 3)), HIGH),
    Animal("one noise", "noise", "all tokens read one number", copied((0, 1), (0, 2), (0, 3)), WIDE),
    Animal("parity, even", "noise", "coins at length - length % 2: tokens 1, 2 and 3, 4 share", PARITY, HIGH),
    Animal("parity, odd", "noise", "the same for tokens 2 and 3", copied((1, 2)), HIGH),
    Animal("shifted", "noise", "u of token 2: token 1 + 0.37", on_noise(_set(1, lambda u: u[:, 0] + 0.37)), HIGH),
    Animal("mirrored", "noise", "u of token 3 is 1 - that of token 2", on_noise(_set(2, lambda u: 1 - u[:, 1])), HIGH),
    Animal("doubled", "noise", "u of token 2 is twice that of token 1", on_noise(_set(1, lambda u: 2 * u[:, 0])), HIGH),
    Animal("three-way sum", "noise", "u of token 3 is that of token 1 + token 2", on_noise(_three_way), HIGH),
    Animal("three-way parity", "noise", "two halves choose the third", on_noise(_parity_of_halves), HIGH),
    Animal("coarse noise", "noise", "u has 4 bits", on_noise(_everywhere(lambda u: np.floor(16 * u) / 16)), HIGH),
    Animal("bent noise", "noise", "u^1.3", on_noise(_everywhere(lambda u: u**1.3)), HIGH),
    Animal("noise below 0.9", "noise", "0.9 u: no last ids", on_noise(_everywhere(lambda u: 0.9 * u)), HIGH),
    Animal("hot", "order", "temperature 1.25", with_rows(lambda rows: rows**0.8), HIGH),
    Animal("cold", "order", "temperature 0.8", with_rows(lambda rows: rows**1.25), HIGH),
    Animal("tail cut", "order", "the least probable 15 % are never drawn", with_rows(_without_tail), HIGH),
    Animal("tail on 16 ids", "order", "tail tokens say their id modulo 16", stepwise(_collapsed_tail), HIGH),
    Animal("tile xor 1", "order", "tail tokens are their neighbours", _moved_tile(1), (4096, 49_152)),
    Animal("tile xor 256", "order", "tail tokens are read from another tile", _moved_tile(256), (512, 4096, 49_152)),
    Animal("tile xor 1024", "order", "the same, wider tiles", _moved_tile(1024), (4096, 49_152)),
    Animal("stale row", "law", "token 3 follows the text before token 2", stepwise(_stale_row), WIDE),
    Animal("all drafts kept", "law", "token 2 is drawn from q", stepwise(_all_accepted), WIDE),
    Animal("recovered from p", "law", "rejected drafts become a token of p", stepwise(_recovered_from_target), WIDE),
    Animal("draft judged by its noise", "law", "one noise draws and accepts", stepwise(_accepted_by_draft_noise), WIDE),
    Animal("repeats", "law", "15 % say the last token again", stepwise(_repeats), WIDE),
    Animal("race, lag 1", "race", "token 2 reuses the exponentials of token 1", raced((0, 0, 2, 3)), (8, 64, 512)),
    Animal("race, lag 2", "race", "token 3 reuses those of token 1", raced((0, 1, 0, 3)), (64, 512)),
    Animal("race, lag 3", "race", "token 4 reuses those of token 1", raced((0, 1, 2, 0)), (64, 512)),
    Animal("race, parity", "race", "tokens 1, 2 and 3, 4 share exponentials", raced((0, 0, 2, 2)), (64, 512)),
    Animal("slot 2 of 8 stuck", "place", "its first token is id 0", where(_slot(8, 2), _first_id), HIGH),
    Animal("slot 5 of 8 copies", "place", "it reads noise twice", where(_slot(8, 5), PARITY), HIGH),
    Animal("slot 2 of 16 stuck", "place", "its first token is id 0", where(_slot(16, 2), _first_id), HIGH),
    Animal("four requests share", "place", "requests 4 i to 4 i + 3 read one noise", _four_share, HIGH),
    Animal("drift", "time", "noise is copied after 40 % of the planned samples", where(_late, LAG1), HIGH),
    Animal("slow drift", "time", "noise is copied ever more often", where(_growing, LAG1), HIGH),
    Animal(
        "copy at the stated size", "stated size", "a share of 6/5 of the stated distance copies",
        where(_share(lambda bias: 6 / 5 * bias), LAG1), HIGH[1:],
    ),
    Animal(
        "three-way at the stated size", "stated size", "a share of 3 times the stated distance is a sum of three",
        where(_share(lambda bias: 3 * bias), on_noise(_three_way)), HIGH[2:],
    ),
    Animal(
        "repeats at the stated size", "stated size", "the stated distance more of token 2 = token 1",
        stepwise(lambda draw, position, tokens, right: np.where(
            (draw.rng.random(len(right)) < 1.05 * draw.bias) & (position == 1), tokens[:, -1], right)), HIGH,
    ),
    Animal(
        "marginal at the stated size", "stated size", "a share of 20/19 of the stated distance has u in one cell",
        where(_share(lambda bias: 20 / 19 * bias), on_noise(_set(0, lambda u: u[:, 0] / 20 + 0.5))), HIGH[1:],
    ),
    Animal("four-way sum", "unseen", "u of token 4 is the sum of the other three", on_noise(_four_way), (49_152,)),
    Animal("rare context", "unseen", "wrong after 0.04 % of the texts", _rare_context, (49_152,)),
    Animal("slot 2 of 256 copies", "unseen", "one row of a wide batch", where(_slot(256, 2), LAG1), (49_152,)),
)  # fmt: skip

RIGHT = Animal("right", "noise", "the law", lambda draw: draw.law.texts(draw.u), WIDE)


def law_of(vocab: int) -> ZooLaw:
    """The zoo's law over this vocabulary."""
    return zoo_law(vocab, NATS[vocab])
