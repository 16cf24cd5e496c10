"""From scores to a law, a row at a time: greedy, top-k, top-p, min-p.

A row is shaped by itself, never by a sum over the batch: the row a drafter made alone and the one verification made
among others are the same bits, so that equal logits are accepted for certain.
"""

from jaxtyping import Float
import torch
from torch import Tensor


def one_hot_at_argmax(
    scores: Float[Tensor, "rows vocab"], largest: Float[Tensor, "rows 1"]
) -> Float[Tensor, "rows vocab"]:
    """1 at the lowest index of each row's largest score, 0 elsewhere."""
    # argmax is not promised to take the first of several maxima; nonzero lists them in order
    rows, columns = (scores == largest).nonzero(as_tuple=True)
    is_first = torch.ones_like(rows, dtype=torch.bool)
    is_first[1:] = rows[1:] != rows[:-1]
    law = torch.zeros_like(scores)
    law[rows[is_first], columns[is_first]] = 1
    return law


def filtered_law(
    scores: Float[Tensor, " vocab"], temperature: float, top_k: int, top_p: float, min_p: float
) -> Float[Tensor, " vocab"]:
    """Softmax at `temperature` over what top-k keeps, then top-p, then min-p, each renormalised."""
    top_k = top_k if 0 < top_k < len(scores) else 0
    probs = _softmax_of_top(scores, top_k, temperature) if top_k else softmax(scores, temperature)
    if top_p < 1:
        probs = _nucleus(probs, top_p)
    return _above_share(probs, min_p) if min_p > 0 else probs


def softmax(scores: Float[Tensor, "*rows vocab"], temperature: float) -> Float[Tensor, "*rows vocab"]:
    """Softmax of scores / temperature; the largest score is taken off first, so that nothing overflows."""
    return torch.softmax((scores - scores.amax(dim=-1, keepdim=True)) / temperature, dim=-1)


def _softmax_of_top(scores: Float[Tensor, " vocab"], k: int, temperature: float) -> Float[Tensor, " vocab"]:
    """Softmax over the k largest scores and the ties with the k-th; only those are ever exponentiated."""
    smallest = torch.topk(scores, k).values[-1]
    kept = (scores >= smallest).nonzero()[:, 0]
    probs = torch.zeros_like(scores)
    probs[kept] = softmax(scores[kept], temperature)
    return probs


def _nucleus(probs: Float[Tensor, " vocab"], top_p: float) -> Float[Tensor, " vocab"]:
    """The most probable tokens up to mass `top_p`, renormalised; equal probabilities enter by lowest id."""
    # tokens below this bound hold less than half of 1 - top_p together, so the nucleus ends before them
    bound = (1 - top_p) / (2 * len(probs))
    candidates = (probs >= bound).nonzero()[:, 0]
    ordered = torch.sort(probs[candidates], descending=True, stable=True)
    is_inside = ordered.values.cumsum(0) - ordered.values < top_p
    # a top_p too small for float32 keeps the most probable token all the same
    is_inside[0] = True
    chosen = candidates[ordered.indices[is_inside]]
    kept = torch.zeros_like(probs)
    kept[chosen] = probs[chosen]
    return kept / kept.sum()


def _above_share(probs: Float[Tensor, " vocab"], min_p: float) -> Float[Tensor, " vocab"]:
    """The tokens with at least `min_p` times the largest probability, renormalised."""
    kept = probs * (probs >= min_p * probs.max())
    return kept / kept.sum()
