"""Inputs of the timed cases, made on the device: several of each, so that none of them is still in the cache."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float, Int32, Int64
import torch
from torch import Tensor

from specdec_kernels.tree_attention import TreeKV, pack_mask
from specdec_kernels.verify_batch import KeyedNoise, VerifyBatch
from specdec_labs.bench_kernels.plan import Case
from specdec_labs.bench_kernels.timing import copies_for

HEADS, KV_HEADS, HEAD_DIM, PAGE = 32, 8, 128, 16
LAYERS, WIDTH, BLOCKS = 32, 2 * KV_HEADS * HEAD_DIM, 4
KEPT = (0, 2, 5, 9, 12, 15)
"""Accepted nodes of a compaction: the first stays where it is."""

_CHUNK = 1 << 26


@dataclass(frozen=True, slots=True, eq=False)
class AttentionInput:
    """One call of tree attention, its mask packed and as a boolean one over all columns."""

    queries: Float[Tensor, "requests rows heads head_dim"]
    kv: TreeKV
    packed: Int32[Tensor, "requests rows words"]
    mask: Bool[Tensor, "rows total"]


@dataclass(frozen=True, slots=True, eq=False)
class CompactInput:
    """One call of KV compaction."""

    pool: Float[Tensor, "layers slots width"]
    table: Int32[Tensor, "requests blocks"]
    starts: Int64[Tensor, " requests"]
    path: Int64[Tensor, "requests depth"]


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The inputs of a case.

    Attributes:
        items: `VerifyBatch`, `AttentionInput` or `CompactInput`, one a copy.
        floor_bytes: what any implementation has to move at least; None where that depends on the values.
        parents: of the tree's nodes, all requests end to end; None where there is no tree.
    """

    case: Case
    device: torch.device
    items: list[Any]
    floor_bytes: int | None
    parents: Any = None


def tree_parents(nodes: int) -> list[int]:
    """A tree with two children a node, in topological order; -1 is the pending token."""
    return [node // 2 - 1 for node in range(nodes)]


def children_of(parents: list[int]) -> list[list[int]]:
    """The children of each target row; row 0 is the pending token's."""
    return [[node for node, parent in enumerate(parents) if parent == row - 1] for row in range(len(parents) + 1)]


def make_inputs(case: Case, device: torch.device, seed: int = 1) -> Inputs:
    """Random inputs of the case: bfloat16, temperature 1, drafts from q with q near p."""
    rng = torch.Generator(device).manual_seed(seed)
    if case.operator == "tree_attention":
        return _attention(case, device, rng)
    if case.operator == "kv_compact":
        return _compact(case, device, rng)
    is_tree = case.operator == "verify_tree"
    parents = tree_parents(case.nodes) if is_tree else [node - 1 for node in range(case.nodes)]
    families = children_of(parents)
    rows = case.nodes + 1
    # a family shares the law of its first child; the draw reads one target row again
    laws = 0 if case.variant in ("none", "target_only") else sum(bool(family) for family in families)
    floor = 2 * case.vocab * case.requests * (rows + laws + 1)
    copies = copies_for(device, floor)
    items = _batches(case, device, families, copies, rng)
    of_all = torch.tensor(parents * case.requests, device=device) if is_tree else None
    # how many rows target_only reads depends on where it stops
    return Inputs(case, device, items, None if case.variant == "target_only" else floor, of_all)


def _batches(
    case: Case, device: torch.device, families: list[list[int]], copies: int, rng: torch.Generator
) -> list[VerifyBatch]:
    requests, nodes, vocab = case.requests, case.nodes, case.vocab
    options: dict[str, Any] = {"dtype": torch.bfloat16, "device": device, "generator": rng}
    draft = torch.randn(copies, requests, nodes, vocab, **options)
    target = torch.randn(copies, requests, nodes + 1, vocab, **options)
    tokens = torch.zeros(copies, requests, nodes, dtype=torch.int64, device=device)
    for row, family in enumerate(families):
        if family:
            draft[:, :, family[1:]] = draft[:, :, family[:1]]
            target[:, :, row].mul_(0.5).add_(draft[:, :, family[0]])
            tokens[:, :, family] = _without_replacement(draft[:, :, family[0]], len(family), rng)
    offsets = torch.arange(requests + 1, device=device) * nodes
    temperature, who = torch.ones(requests, device=device), torch.arange(requests, device=device)
    return [
        VerifyBatch(
            # a copy begins where its kernels expect wide loads: at a multiple of 16 bytes
            target[copy].view(-1, vocab), tokens[copy].flatten().clone(), offsets, temperature,
            KeyedNoise.of(torch.full_like(who, 7), who, torch.full_like(who, 100 + copy)), nodes,
            draft_logits=None if case.variant == "none" else draft[copy].view(-1, vocab),
        )
        for copy in range(copies)
    ]  # fmt: skip


def _without_replacement(
    logits: Float[Tensor, "copies requests vocab"], count: int, rng: torch.Generator
) -> Int64[Tensor, "copies requests count"]:
    """`count` different tokens of each row's law, as drawn one after another."""
    drawn = []
    for part in logits.split(max(1, _CHUNK // logits[0].numel())):
        noise = torch.empty(part.shape, device=part.device).exponential_(generator=rng)
        drawn.append((part.float() - noise.log_()).topk(count).indices)
    return torch.cat(drawn)


def tree_mask(rows: int) -> Bool[Tensor, "rows rows"]:
    """What each row of a tree sees of it; row 0 is the pending token, the tree that of `tree_parents`."""
    mask = torch.eye(rows, dtype=torch.bool)
    for node, parent in enumerate(tree_parents(rows - 1)):
        mask[node + 1] |= mask[parent + 1]
    return mask


def _attention(case: Case, device: torch.device, rng: torch.Generator) -> Inputs:
    requests, rows, prefix = case.requests, case.nodes, case.prefix
    small = device.type != "cuda"
    heads, kv_heads, dim = (2, 1, 16) if small else (HEADS, KV_HEADS, HEAD_DIM)
    capacity, is_paged = prefix + rows, case.variant == "paged"
    blocks = -(-capacity // PAGE)
    slots = requests * (blocks * PAGE if is_paged else capacity)
    floor = 4 * (requests * capacity * kv_heads * dim + requests * rows * heads * dim)
    options: dict[str, Any] = {"dtype": torch.bfloat16, "device": device, "generator": rng}
    tree = tree_mask(rows).to(device)
    packed = pack_mask(tree[None]).expand(requests, -1, -1).contiguous()
    mask = torch.cat([torch.ones(rows, prefix, dtype=torch.bool, device=device), tree], 1)
    lengths = torch.full((requests,), prefix, dtype=torch.int32, device=device)
    items = []
    for _ in range(copies_for(device, floor)):
        keys, values = torch.randn(2, slots, kv_heads, dim, **options)
        table = None
        if is_paged:
            table = torch.randperm(requests * blocks, generator=rng, device=device).view(requests, blocks).int()
        kv = TreeKV(keys, values, lengths, capacity, table, PAGE if is_paged else 0)
        items.append(AttentionInput(torch.randn(requests, rows, heads, dim, **options), kv, packed, mask))
    return Inputs(case, device, items, floor)


def _compact(case: Case, device: torch.device, rng: torch.Generator) -> Inputs:
    layers, width = (2, 16) if device.type != "cuda" else (LAYERS, WIDTH)
    requests = case.requests
    floor = 4 * (len(KEPT) - 1) * requests * layers * width
    starts = torch.full((requests,), PAGE + 5, device=device)
    path = torch.tensor([KEPT], device=device).repeat(requests, 1)
    items = []
    for _ in range(copies_for(device, floor)):
        table = torch.randperm(requests * BLOCKS, generator=rng, device=device).view(requests, BLOCKS).int()
        pool = torch.randn(layers, requests * BLOCKS * PAGE, width, dtype=torch.bfloat16, device=device, generator=rng)
        items.append(CompactInput(pool, table, starts, path))
    return Inputs(case, device, items, floor)
