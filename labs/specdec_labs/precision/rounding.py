"""The cost of rounded logits, rounded probabilities and a coarse acceptance uniform, exact for the rounded numbers."""

import torch

from specdec_labs.precision.laws import Law, normalised, zipf_logits

LOW = (torch.bfloat16, torch.float16)


def rounded_laws(vocab: int, exponent: float) -> dict[str, Law]:
    """The law that is drawn from when a softmax over Zipf logits is rounded in one place or another."""
    logits = zipf_logits(vocab, exponent)
    laws = {"all in float32": normalised(torch.softmax(logits.float(), dim=-1))}
    for dtype in LOW:
        name = str(dtype).removeprefix("torch.")
        laws[f"logits rounded to {name}"] = normalised(torch.softmax(logits.to(dtype).float(), dim=-1))
        laws[f"probabilities rounded to {name}"] = normalised(torch.softmax(logits.float(), dim=-1).to(dtype))
        laws[f"softmax in {name}"] = normalised(torch.softmax(logits.to(dtype), dim=-1))
    return laws


def draft_of(vocab: int, exponent: float, spread: float, seed: int = 0) -> Law:
    """A draft's law near the Zipf law: its logits plus normal noise of standard deviation `spread`."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(vocab, generator=generator, dtype=torch.float64)
    return torch.softmax(zipf_logits(vocab, exponent) + spread * noise, dim=-1)


def residual_law(p: Law, q: Law) -> Law:
    """max(p - q, 0), normalised; p itself when nothing is left."""
    excess = (p - q).clamp(min=0)
    return excess / excess.sum() if float(excess.sum()) > 0 else p / p.sum()


def emitted_law(p: Law, q: Law, drawn_from: Law, *, accept_bits: int | None = None) -> Law:
    """The law of the first token when the draft is drawn from one law and judged with p and q, rounded or not.

    A draft x is kept with probability P(u q(x) < p(x)): min(1, p / q) for a continuous u, the next multiple of
    2^-bits for a uniform on that grid. Else the token comes from `residual_law(p, q)`.
    """
    ratio = torch.where(q > 0, p / q.clamp(min=torch.finfo(q.dtype).tiny), (p > 0).to(p.dtype)).clamp(max=1)
    if accept_bits is not None:
        ratio = (ratio * 2.0**accept_bits).ceil() / 2.0**accept_bits
    kept = drawn_from * ratio
    return kept + (1 - kept.sum()) * residual_law(p, q)


def rounded(law: Law, dtype: torch.dtype) -> Law:
    """The law's probabilities rounded to `dtype`, not normalised again: what a kernel in that type is handed."""
    return law.to(dtype).to(torch.float64)
