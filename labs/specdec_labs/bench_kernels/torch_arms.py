"""What a careful program without Triton would run: whole batches, no look at a value, fit for torch.compile.

Chains and blocks take their noise as tensors, so that their verdicts can be compared with those of the kernels.
"""

from jaxtyping import Bool, Float, Int32, Int64
import torch
from torch import Tensor
import torch.nn.functional as F

from specdec_kernels.tree_attention import TreeKV

Verdicts = tuple[Int64[Tensor, " requests"], Int64[Tensor, "requests slots"]]


def torch_chain(
    target: Float[Tensor, "requests slots vocab"],
    draft: Float[Tensor, "requests drafts vocab"] | None,
    tokens: Int64[Tensor, "requests drafts"],
    temperature: Float[Tensor, " requests"],
    uniforms: Float[Tensor, "requests drafts"],
    exponentials: Float[Tensor, "requests vocab"],
) -> Verdicts:
    """(drafts kept, emitted tokens then -1) of token-wise rejection sampling; no request may be greedy."""
    p, q = _laws(target, draft, temperature)
    at_p, at_q = _at_tokens(p, q, tokens)
    kept = (uniforms * at_q < at_p).long().cumprod(1).sum(1)
    return _draw(p, q, tokens, kept, torch.ones_like(temperature), exponentials)


def torch_block(
    target: Float[Tensor, "requests slots vocab"],
    draft: Float[Tensor, "requests drafts vocab"] | None,
    tokens: Int64[Tensor, "requests drafts"],
    temperature: Float[Tensor, " requests"],
    uniforms: Float[Tensor, "requests drafts"],
    exponentials: Float[Tensor, "requests vocab"],
) -> Verdicts:
    """(drafts kept, emitted tokens then -1) of block verification; no request may be greedy."""
    p, q = _laws(target, draft, temperature)
    at_p, at_q = _at_tokens(p, q, tokens)
    drafts = tokens.shape[1]
    w = [torch.ones_like(temperature)]
    for place in range(drafts):
        w.append((w[-1] * at_p[:, place] / at_q[:, place]).clamp(max=1))
    weights = torch.stack(w, 1)
    # prefix i < K passes with Z / (Z + 1 - w_i), prefix K with w_K
    if q is None:
        total = weights[:, 1:drafts] * (1 - at_p[:, 1:])
    else:
        total = (weights[:, 1:drafts, None] * p[:, 1:drafts] - q[:, 1:]).clamp(min=0).sum(-1)
    passes = uniforms[:, : drafts - 1] * (total + (1 - weights[:, 1:drafts])) < total
    passes = torch.cat([passes, (uniforms[:, drafts - 1] < weights[:, drafts])[:, None]], 1)
    kept = (passes * torch.arange(1, drafts + 1, device=tokens.device)).amax(1)
    scale = weights.gather(1, kept[:, None])[:, 0]
    return _draw(p, q, tokens, kept, scale, exponentials)


def _laws(target: Tensor, draft: Tensor | None, temperature: Tensor) -> tuple[Tensor, Tensor | None]:
    warm = temperature[:, None, None]
    return (target.float() / warm).softmax(-1), None if draft is None else (draft.float() / warm).softmax(-1)


def _at_tokens(p: Tensor, q: Tensor | None, tokens: Tensor) -> tuple[Tensor, Tensor]:
    at_p = p[:, :-1].gather(2, tokens[..., None])[..., 0]
    return at_p, torch.ones_like(at_p) if q is None else q.gather(2, tokens[..., None])[..., 0]


def _draw(p: Tensor, q: Tensor | None, tokens: Tensor, kept: Tensor, scale: Tensor, exponentials: Tensor) -> Verdicts:
    """The race over the one row that is left; nothing left of it (p = q after rounding): over p."""
    requests, drafts = tokens.shape
    who, refused = torch.arange(requests, device=tokens.device), (kept < drafts)[:, None]
    row, place = p[who, kept], kept.clamp(max=drafts - 1)
    if q is None:
        rest = row.scatter(1, tokens[who, place][:, None], 0.0)
    else:
        rest = (scale[:, None] * row - q[who, place]).clamp(min=0)
    weights = torch.where(refused & (rest.amax(1, keepdim=True) > 0), rest, row)
    following = (weights / exponentials).argmax(1)
    slots = torch.arange(drafts + 1, device=tokens.device)
    emitted = torch.where(slots < kept[:, None], F.pad(tokens, (0, 1)), -1)
    return kept, emitted.scatter(1, kept[:, None], following[:, None])


def torch_attention(
    queries: Float[Tensor, "requests rows heads head_dim"], kv: TreeKV, mask: Bool[Tensor, "rows total"]
) -> Float[Tensor, "requests rows heads head_dim"]:
    """Attention of all requests by scaled_dot_product_attention; all have the same prefix.

    Query heads that share a key head become rows of it: with a mask, no fused kernel takes grouped heads. Pages are
    gathered first, for want of a paged form.
    """
    requests, rows, heads, dim = queries.shape
    kv_heads, total = kv.keys.shape[1], mask.shape[1]
    if kv.block_table is None:
        keys, values = (half.view(requests, -1, kv_heads, dim)[:, :total] for half in (kv.keys, kv.values))
    else:
        pages = kv.block_table.long()
        keys, values = (
            half.view(-1, kv.page, kv_heads, dim)[pages].view(requests, -1, kv_heads, dim)[:, :total]
            for half in (kv.keys, kv.values)
        )
    group = heads // kv_heads
    packed = (
        queries.view(requests, rows, kv_heads, group, dim).permute(0, 2, 1, 3, 4).reshape(requests, kv_heads, -1, dim)
    )
    out = F.scaled_dot_product_attention(
        packed, keys.transpose(1, 2), values.transpose(1, 2), attn_mask=mask.repeat_interleave(group, 0)
    )
    return out.view(requests, kv_heads, rows, group, dim).permute(0, 2, 1, 3, 4).reshape(queries.shape)


def torch_compact(
    pool: Float[Tensor, "layers slots width"],
    table: Int32[Tensor, "requests blocks"],
    starts: Int64[Tensor, " requests"],
    path: Int64[Tensor, "requests depth"],
    page: int,
) -> None:
    """KV compaction by indexing, of full paths: rows that stay are copied onto themselves."""
    at = torch.arange(path.shape[1], device=path.device)
    positions = torch.stack((starts[:, None] + path, starts[:, None] + at))
    slots = table.long().gather(1, (positions // page).transpose(0, 1).flatten(1)).view(len(table), 2, -1)
    source, target = (slots * page + positions.transpose(0, 1) % page).unbind(1)
    pool.index_copy_(1, target.flatten(), pool.index_select(1, source.flatten()))
