"""Tree attention as a model's forward wants it: planned once a pass, then called in every layer.

The operator "attention_pass" of `specdec_core.ops`. Planning looks at the mask and packs it, which may wait for the
device once; the layers' calls do not.
"""

from dataclasses import dataclass
import os

from jaxtyping import Bool, Float, Int32
import torch
from torch import Tensor

from specdec_kernels.chain_launch import takes_triton
from specdec_kernels.tree_attention import MAX_ROWS, TreeKV, pack_mask, tree_attention_triton

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True, eq=False)
class AttentionPass:
    """The attention of one pass: `rows` new rows behind `past` cached ones."""

    past: int
    rows: int
    mask: Int32[Tensor, "1 rows words"]
    prefix: Int32[Tensor, " 1"]

    def __call__(
        self,
        queries: Float[Tensor, "heads rows head_dim"],
        keys: Float[Tensor, "kv_heads total head_dim"],
        values: Float[Tensor, "kv_heads total head_dim"],
        *,
        scale: float | None = None,
    ) -> Float[Tensor, "heads rows head_dim"]:
        """What each row takes in; nothing is copied but the queries. `scale` None takes head_dim ** -0.5.

        Raises:
            ValueError: shapes or strides that the kernels do not take, by the argument's name.
        """
        kv = TreeKV(keys.transpose(0, 1), values.transpose(0, 1), self.prefix, self.past + self.rows)
        mixed = tree_attention_triton(queries.transpose(0, 1).contiguous()[None], kv, self.mask, scale=scale)
        return mixed[0].transpose(0, 1)


def attention_pass(
    past: int,
    rows: int,
    mask: Bool[Tensor, "rows total"] | None,
    device: torch.device,
    dtype: torch.dtype,
    *,
    interpreted: bool = False,
) -> AttentionPass | None:
    """The plan of a pass, or None where the caller has to attend by itself.

    None without a CUDA device or Triton, for another dtype than float32, float16 and bfloat16, more than 128 rows, or
    a mask that is no tree's: a row has to see all cached rows and itself, or nothing at all. `mask` None is causal.
    `interpreted` also takes a CPU under TRITON_INTERPRET=1, for tests.

    Raises:
        ValueError: a negative `past`, or a mask that is not boolean of [rows, past + rows].
    """
    if past < 0:
        raise ValueError(f"past is {past}; expected the number of cached rows, at least 0")
    if mask is not None and (mask.dtype != torch.bool or tuple(mask.shape) != (rows, past + rows)):
        raise ValueError(
            f"mask is {mask.dtype} of shape {tuple(mask.shape)}; expected torch.bool of {(rows, past + rows)}, or None"
        )
    is_interpreted = interpreted and device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    if not (takes_triton(device) or is_interpreted) or dtype not in _DTYPES or not 0 < rows <= MAX_ROWS:
        return None
    if mask is None:
        tree = torch.ones(rows, rows, dtype=torch.bool).tril()
    elif _is_tree(mask, past):
        tree = mask[:, past:]
    else:
        return None
    prefix = torch.tensor([past], dtype=torch.int32, device=device)
    return AttentionPass(past, rows, pack_mask(tree[None]).to(device), prefix)


def _is_tree(mask: Bool[Tensor, "rows total"], past: int) -> bool:
    live = mask[:, past:].diagonal()[:, None]
    fits = (mask[:, :past] == live).all() & (mask[:, past:] <= live).all()
    return bool(fits)
