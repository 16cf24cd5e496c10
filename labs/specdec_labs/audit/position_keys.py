"""What noise keyed by position does to a verification rule: our own decoder, with each kind of noise keyed or fresh.

A position that is drafted in one round and dropped is drafted again in the next. Noise keyed by (request, position)
then comes back. `simulate` samples quickly; `specdec_labs.audit.keyed_law` is exact, for small models.
"""

from collections.abc import Collection
from dataclasses import dataclass

from jaxtyping import Float, Int
import numpy as np

from specdec_labs.audit.keyed_law import KEYED
from specdec_labs.audit.tables import Tables

LEAST = 1e-300
"""Stands for a probability of 0 in a race: it never wins, and its logarithm is finite."""

Probabilities = Float[np.ndarray, "requests vocab"]


@dataclass(frozen=True, slots=True)
class Simulation:
    """How to decode: rule "block" or "chain", tokens drafted a round, and which noise is keyed by position."""

    tables: Tables
    rule: str
    drafted: int
    horizon: int
    keyed: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.rule not in ("block", "chain"):
            raise ValueError(f"rule is {self.rule!r}; expected block or chain")
        if unknown := set(self.keyed) - set(KEYED):
            raise ValueError(f"keyed has {sorted(unknown)}; expected some of {', '.join(KEYED)}")


def simulate(how: Simulation, n: int, seed: int = 0) -> Int[np.ndarray, "n horizon"]:
    """The first `horizon` tokens of `n` requests, float64 throughout."""
    noise = np.random.default_rng(seed)
    tables, last = how.tables, how.horizon + how.drafted
    rows = {side: np.array([[float(p) for p in row] for row in getattr(tables, side)]) for side in ("target", "draft")}
    text = np.zeros((n, tables.order + last + 1), dtype=np.int64)
    text[:, : tables.order] = tables.start
    emitted = np.zeros(n, dtype=np.int64)
    gumbel = noise.gumbel(size=(n, last, tables.vocab))
    uniform = noise.random((n, last))
    while len(active := np.flatnonzero(emitted < how.horizon)):
        slots = emitted[active, None] + np.arange(how.drafted)
        draws = (
            gumbel[active[:, None], slots] if "draft" in how.keyed else noise.gumbel(size=(*slots.shape, tables.vocab))
        )
        coins = uniform[active[:, None], slots] if "accept" in how.keyed else noise.random(slots.shape)
        q, p = [], []
        for step in range(how.drafted + 1):
            context = _contexts(tables, text, active, emitted[active] + step)
            p.append(rows["target"][context])
            if step < how.drafted:
                q.append(rows["draft"][context])
                token = (np.log(np.maximum(q[step], LEAST)) + draws[:, step]).argmax(axis=1)
                text[active, tables.order + emitted[active] + step] = token
        tokens = text[active[:, None], tables.order + slots]
        kept, rest = (_block if how.rule == "block" else _chain)(np.stack(p, 1), np.stack(q, 1), tokens, coins)
        following = (np.log(np.maximum(rest, LEAST)) + noise.gumbel(size=rest.shape)).argmax(axis=1)
        text[active, tables.order + emitted[active] + kept] = following
        emitted[active] += kept + 1
    return text[:, tables.order : tables.order + how.horizon]


def _contexts(
    tables: Tables, text: Int[np.ndarray, "n length"], active: Int[np.ndarray, " a"], at: Int[np.ndarray, " a"]
) -> Int[np.ndarray, " a"]:
    context = np.zeros(len(active), dtype=np.int64)
    for back in range(tables.order):
        context = context * tables.vocab + text[active, at + back]
    return context


def _ratios(p: np.ndarray, q: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    index = tokens[..., None]
    drafted = tokens.shape[1]
    return (np.take_along_axis(p[:, :drafted], index, 2) / np.take_along_axis(q, index, 2))[..., 0]


def _chain(p: np.ndarray, q: np.ndarray, tokens: np.ndarray, coins: np.ndarray) -> tuple[np.ndarray, Probabilities]:
    accepted = coins < _ratios(p, q, tokens)
    kept = np.cumprod(accepted, axis=1).sum(axis=1)
    return kept, _rest(p, q, kept, np.ones((len(kept), q.shape[1] + 1)))


def _block(p: np.ndarray, q: np.ndarray, tokens: np.ndarray, coins: np.ndarray) -> tuple[np.ndarray, Probabilities]:
    count, drafted = tokens.shape
    ratios = _ratios(p, q, tokens)
    weights = np.ones((count, drafted + 1))
    for step in range(drafted):
        weights[:, step + 1] = np.minimum(1, weights[:, step] * ratios[:, step])
    passes = np.empty((count, drafted))
    passes[:, -1] = weights[:, drafted]
    for step in range(1, drafted):
        mass = np.maximum(weights[:, step, None] * p[:, step] - q[:, step], 0).sum(axis=1)
        below = mass + 1 - weights[:, step]
        passes[:, step - 1] = np.divide(mass, below, out=np.ones(count), where=below > 0)
    kept = np.where(coins < passes, np.arange(1, drafted + 1), 0).max(axis=1)
    return kept, _rest(p, q, kept, weights)


def _rest(p: np.ndarray, q: np.ndarray, kept: np.ndarray, weights: np.ndarray) -> Probabilities:
    everything = np.arange(len(kept))
    scaled = weights[everything, kept, None] * p[everything, kept]
    excess = np.maximum(scaled - q[everything, np.minimum(kept, q.shape[1] - 1)], 0)
    return np.where((kept == q.shape[1])[:, None], p[everything, kept], excess)
