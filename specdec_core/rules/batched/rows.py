"""Rows of p and q in float64: residuals and draws, by the same arithmetic as `specdec_core.residual`.

Equal to the scalar functions to the last bit on the CPU. Sums are the only place where that needs care: torch adds a
long sum in parts that depend on the number of threads, but the sum of a row that is alone, or of rows of a tensor below
torch's parallel grain of 32,768 elements (a group of `laws.py`), is the sum of that row by itself.
"""

from jaxtyping import Float, Float64, Int64
import torch
from torch import Tensor

from specdec_core.coins.protocol import Purpose
from specdec_core.residual import wide
from specdec_core.rules.batched.coins import BatchCoins, Questions
from specdec_core.rules.batched.laws import LawGroup, Laws


def law_rows(probs: Float[Tensor, "rows vocab"], rows: Int64[Tensor, " some"]) -> Float64[Tensor, "some vocab"]:
    """Some rows in float64, to be read only."""
    # a single row is a view, so that a large one is read once
    return wide(probs.narrow(0, int(rows), 1) if rows.shape[0] == 1 else probs[rows])


def single(law: Float[Tensor, " vocab"]) -> Float[Tensor, " vocab"]:
    """The law in float32, or float64 if that is what it is in."""
    return law.detach() if law.dtype in (torch.float32, torch.float64) else law.detach().to(torch.float32)


def residual_rows(p: Float64[Tensor, "rows vocab"], q: Float64[Tensor, "rows vocab"]) -> LawGroup:
    """`residual` of each row, yet to be divided by its sum."""
    return LawGroup((p - q).clamp_(min=0), p)


def residual_of_one_hot_rows(p: Float64[Tensor, "rows vocab"], tokens: Int64[Tensor, " rows"]) -> LawGroup:
    """`residual_of_one_hot` of each row: p without that token, yet to be divided by its sum."""
    return LawGroup(p.scatter(1, tokens[:, None], 0.0), p)


def scaled_excess_rows(
    p: Float64[Tensor, "rows vocab"],
    scale: Float64[Tensor, " rows"],
    q: Float64[Tensor, "rows vocab"] | None,
    tokens: Int64[Tensor, " rows"],
) -> Float64[Tensor, "rows vocab"]:
    """max(scale * p - q, 0) of each row, not normalised; q None: one-hot at the row's token."""
    excess = p * scale[:, None]
    if q is None:
        excess.scatter_add_(1, tokens[:, None], -torch.ones_like(excess[:, :1]))
    else:
        excess -= q
    return excess.clamp_(min=0)


def without_rows(
    q: Float64[Tensor, "rows vocab"], tokens: Int64[Tensor, " rows"]
) -> tuple[Float64[Tensor, "rows vocab"], Tensor]:
    """`without` of each row, and whether anything is left of it."""
    rest = q.scatter(1, tokens[:, None], 0.0)
    total = rest.sum(-1, keepdim=True)
    return rest / total, total[:, 0] > 0


def draw_from_rows(
    probs: Float[Tensor, "rows vocab"],
    rows: Int64[Tensor, " some"],
    coins: BatchCoins,
    questions: Questions,
    purpose: Purpose,
) -> Int64[Tensor, " some"]:
    """A token from each of the rows, as they are."""
    numbers = rows.tolist()
    laws = Laws(
        len(rows),
        probs.shape[1],
        make=lambda part: LawGroup(law_rows(probs, rows[part])),
        rough=lambda law: single(probs[numbers[law]]),
        entries=lambda which, tokens: wide(probs[rows[which, None], tokens]),
    )
    return coins.draw(laws, questions, purpose)
