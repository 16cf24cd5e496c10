"""The registered tree attention inside transformers models: `attn_implementation="specdec_tree"`.

The operator is "attention_pass" of `specdec_core.ops` (a kernels package registers it). Whatever it does not take - a
batch, a sliding window, a CPU - goes to transformers' own SDPA attention, so a model may keep the setting everywhere.
"""

from collections.abc import Callable
from typing import Any
import weakref

import torch
from torch import Tensor

from specdec_core import ops

NAME = "specdec_tree"

# arguments that change what attention means; None or absent otherwise
_UNUSUAL = ("softcap", "position_bias", "s_aux", "sinks", "sliding_window")


def register_attention(name: str = NAME) -> str:
    """The name that transformers now takes as `attn_implementation`; nothing changes for models with another.

    Raises:
        ValueError: a name that transformers uses itself.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    known = AttentionInterface()
    if name == "eager" or (name in known and not isinstance(known[name], _TreeAttention)):
        raise ValueError(f"name is {name!r}, which is an attention of transformers; choose another")
    AttentionInterface.register(name, _TreeAttention())
    AttentionMaskInterface.register(name, sdpa_mask)
    return name


class _TreeAttention:
    """An attention function of transformers. The first layer of a pass makes the plan, the others find it here."""

    def __init__(self) -> None:
        self._latest: tuple[Any, int, int, Callable[..., Tensor] | None] = (None, 0, 0, None)

    def __call__(
        self,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **options: Any,
    ) -> tuple[Tensor, None]:
        """[batch, rows, heads, head_dim] from query [batch, heads, rows, head_dim] and the whole keys and values."""
        usual = not dropout and all(options.get(word) is None for word in _UNUSUAL)
        plan = self._plan(module, query, key, attention_mask, is_causal) if usual and len(query) == 1 else None
        if plan is not None:
            return plan(query[0], key[0], value[0], scale=scaling).transpose(0, 1)[None], None
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **options
        )

    def _plan(
        self, module: Any, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool | None
    ) -> Callable[..., Tensor] | None:
        rows, total = query.shape[2], key.shape[2]
        seen, latest_rows, latest_total, plan = self._latest
        same = (mask is None and seen is None) or (seen is not None and seen() is mask)
        # a caller may write a new tree into the mask it used before: only later layers take the plan as it is
        if same and (latest_rows, latest_total) == (rows, total) and getattr(module, "layer_idx", 0):
            return plan
        plan = self._fresh(module, query, total, mask, is_causal)
        self._latest = (None if mask is None else weakref.ref(mask), rows, total, plan)
        return plan

    @staticmethod
    def _fresh(
        module: Any, query: Tensor, total: int, mask: Tensor | None, is_causal: bool | None
    ) -> Callable[..., Tensor] | None:
        operator, rows = ops.get("attention_pass"), query.shape[2]
        if operator is None:
            return None
        if mask is not None:
            fits = mask.dtype == torch.bool and mask.shape[-2:] == (rows, total) and mask.shape[:-2].numel() == 1
            return operator(total - rows, rows, mask.view(rows, total), query.device, query.dtype) if fits else None
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        # without a mask, rows behind a cache of unused room count from its start
        if rows > 1 and not (causal and total == rows):
            return None
        return operator(total - rows, rows, None, query.device, query.dtype)
