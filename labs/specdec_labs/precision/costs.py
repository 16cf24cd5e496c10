"""The tables of `specdec precision`: total variation from the law that was meant, row by row."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from specdec_labs.precision.laws import normalised, total_variation, zipf
from specdec_labs.precision.noise import Noise, continuous, lab_noise, minus_log, minus_log_of_rest, stored_as
from specdec_labs.precision.race import race_law, tail_mass
from specdec_labs.precision.rounding import draft_of, emitted_law, residual_law, rounded, rounded_laws

EXPONENTS = (1.0, 1.3, 1.6)
TAIL_FROM = 1000
SPREADS = (0.5, 0.01)


@dataclass(frozen=True, slots=True)
class SoftmaxCost:
    """`lost` is the mass of the tokens whose probability became 0."""

    exponent: float
    what: str
    tv: float
    lost: float


@dataclass(frozen=True, slots=True)
class RaceCost:
    """`tail` is the mass drawn from ranks `TAIL_FROM` on, `true_tail` what it should be."""

    exponent: float
    what: str
    tv: float
    tail: float
    true_tail: float


@dataclass(frozen=True, slots=True)
class VerifyCost:
    """`tv` is that of the emitted token, `residual_tv` that of the law a refusal redraws from."""

    spread: float
    what: str
    accepted: float
    tv: float
    residual_tv: float


def noises() -> tuple[Noise, ...]:
    """The ways to make exponential noise that are compared, from the ideal down."""
    return (
        continuous(),
        lab_noise(),
        stored_as(torch.bfloat16),
        stored_as(torch.float16),
        minus_log(24),
        minus_log_of_rest(24),
        minus_log(23),
        minus_log(11, "-log(u), u in float16 (k 2^-11)"),
        minus_log(8, "-log(u), u in bfloat16 (k 2^-8)"),
    )


def softmax_costs(vocab: int) -> Iterator[SoftmaxCost]:
    """Every place of rounding, for each Zipf exponent."""
    for exponent in EXPONENTS:
        true = zipf(vocab, exponent)
        for what, law in rounded_laws(vocab, exponent).items():
            yield SoftmaxCost(exponent, what, total_variation(law, true), float(true[law == 0].sum()))


def race_costs(vocab: int) -> Iterator[RaceCost]:
    """Every noise, for each Zipf exponent."""
    for exponent in EXPONENTS:
        true = zipf(vocab, exponent)
        for noise in noises():
            law = race_law(true, noise)
            tails = (tail_mass(each, TAIL_FROM - 1) for each in (law, true))
            yield RaceCost(exponent, noise.name, total_variation(law, true), *tails)


def verify_costs(vocab: int, exponent: float = 1.0) -> Iterator[VerifyCost]:
    """Rounded p and q, drafts drawn from the q that judges or from the unrounded one, and coarse uniforms."""
    p = zipf(vocab, exponent)
    for spread in SPREADS:
        q = draft_of(vocab, exponent, spread)
        rest = residual_law(p, q)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            name = str(dtype).removeprefix("torch.")
            low_p, low_q = rounded(p, dtype), rounded(q, dtype)
            residual_tv = total_variation(residual_law(low_p, low_q), rest)
            for source, drawn_from in (("the same q", normalised(low_q)), ("another q", q)):
                if dtype == torch.float32 and source == "another q":
                    continue
                law = emitted_law(low_p, low_q, drawn_from)
                kept = float((drawn_from * (low_p / low_q.clamp(min=1e-300)).clamp(max=1)).sum())
                what = f"p and q in {name}, draft drawn from {source}"
                yield VerifyCost(spread, what, kept, total_variation(law, p), residual_tv)
        for bits in (32, 24, 11, 8):
            law = emitted_law(p, q, q, accept_bits=bits)
            kept = float(torch.minimum(p, q).sum())
            yield VerifyCost(spread, f"exact p and q, u = k 2^-{bits}", kept, total_variation(law, p), 0.0)
