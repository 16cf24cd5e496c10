"""How far a draft's law q is from the target's p: the losses a draft is trained with, and what they aim at."""

from collections.abc import Callable

from jaxtyping import Bool, Float
import torch
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]


def forward_kl(target: Float[Tensor, "... vocab"], draft: Float[Tensor, "... vocab"]) -> Float[Tensor, "..."]:
    """KL(p || q) from log-probabilities: q must cover all that p does. Cross-entropy has the same gradient."""
    return (target.exp() * (target - draft)).nan_to_num(0.0).sum(dim=-1)


def reverse_kl(target: Float[Tensor, "... vocab"], draft: Float[Tensor, "... vocab"]) -> Float[Tensor, "..."]:
    """KL(q || p) from log-probabilities: q must not go where p does not."""
    return (draft.exp() * (draft - target)).sum(dim=-1)


def total_variation(target: Float[Tensor, "... vocab"], draft: Float[Tensor, "... vocab"]) -> Float[Tensor, "..."]:
    """TV(p, q) = 1 - alpha from log-probabilities: exactly the probability that a draft is refused."""
    return (target.exp() - draft.exp()).abs().sum(dim=-1) / 2


LOSSES: dict[str, Loss] = {"kl": forward_kl, "reverse_kl": reverse_kl, "tv": total_variation}


def loss_named(name: str) -> Loss:
    """The loss of that name. ValueError listing those there are."""
    if name not in LOSSES:
        raise ValueError(f"loss is {name!r}; expected one of {', '.join(LOSSES)}")
    return LOSSES[name]


def masked_mean(values: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None) -> Float[Tensor, ""]:
    """The mean of the values under the mask; zero, with a gradient of zero, when it is empty."""
    if mask is None:
        return values.mean()
    weights = mask.to(values.dtype)
    return (values * weights).sum() / weights.sum().clamp(min=1.0)


def acceptance_figures(
    target: Float[Tensor, "... vocab"], draft: Float[Tensor, "... vocab"], mask: Bool[Tensor, "..."] | None = None
) -> dict[str, float]:
    """Mean acceptance at temperature 1, 1 - TV(p, q), and at temperature 0, how often the two argmaxes agree."""
    alpha = torch.minimum(target.exp(), draft.exp()).sum(dim=-1)
    agree = (target.argmax(dim=-1) == draft.argmax(dim=-1)).to(alpha.dtype)
    return {"alpha": float(masked_mean(alpha, mask)), "greedy_alpha": float(masked_mean(agree, mask))}
