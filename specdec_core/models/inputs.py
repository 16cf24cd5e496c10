"""The checks of `LanguageModel.forward`, the same for every model."""

from jaxtyping import Bool, Int
import torch
from torch import Tensor

from specdec_core.models.protocol import LanguageModel


def check_inputs(
    model: LanguageModel,
    tokens: Int[Tensor, " rows"],
    positions: Int[Tensor, " rows"] | None,
    mask: Bool[Tensor, "rows total"] | None,
    *,
    past: int,
) -> None:
    """ValueError unless the model can be fed these rows after `past` cached ones. Looks, changes nothing."""
    _check_integers("tokens", tokens)
    rows = tokens.shape[0]
    if rows == 0:
        raise ValueError("tokens is empty; feed at least one")
    low, high = (int(bound) for bound in torch.aminmax(tokens))
    if low < 0 or high >= model.vocab_size:
        wrong = low if low < 0 else high
        raise ValueError(f"tokens holds {wrong}, outside the vocabulary; expected 0..{model.vocab_size - 1}")
    first, last = past, past + rows - 1
    if positions is not None:
        _check_integers("positions", positions)
        if positions.shape != tokens.shape:
            raise ValueError(f"positions has {positions.shape[0]} entries for {rows} tokens; give one a token")
        first, last = (int(bound) for bound in torch.aminmax(positions))
    if first < 0 or last >= model.max_length:
        wrong = first if first < 0 else last
        raise ValueError(
            f"position {wrong} is outside the model's context; expected 0..{model.max_length - 1} - shorten the text"
        )
    if mask is not None:
        _check_mask(mask, rows, past)


def _check_integers(name: str, values: Tensor) -> None:
    if values.ndim != 1 or values.dtype.is_floating_point or values.dtype == torch.bool:
        raise ValueError(f"{name} has shape {tuple(values.shape)} and {values.dtype}; expected whole numbers [rows]")


def _check_mask(mask: Tensor, rows: int, past: int) -> None:
    if mask.dtype != torch.bool:
        raise ValueError(f"mask is {mask.dtype}; expected torch.bool, True where a row may look")
    if mask.shape != (rows, past + rows):
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}; expected ({rows}, {past + rows}): "
            f"rows fed, by {past} cached rows and the rows fed"
        )
