"""Checks of a batch's inputs, as `specdec_core.rules.checks` makes them: which argument, where, what was expected."""

from jaxtyping import Float, Int
import torch
from torch import Tensor

from specdec_core.rules.batched.coins import BatchCoins
from specdec_core.rules.batched.ragged import Ragged
from specdec_core.rules.checks import SUM_SLACK

_ROWS_AT_ONCE = 1 << 20
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_IDS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_batch(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "rows vocab"],
    coins: BatchCoins | None,
    *,
    are_laws: bool = True,
    needs_coins: bool = True,
) -> None:
    """ValueError unless the drafts, laws and coins of the batch fit together and every row is a law."""
    _check_offsets(draft_tokens, cu_num_draft)
    requests, slots = len(cu_num_draft) - 1, len(draft_tokens)
    if needs_coins:
        _check_coins(coins, requests)
    _check_rows("target_probs", target_probs, slots + requests, "a row for each draft and one more for each request")
    vocab = target_probs.shape[1]
    if draft_probs is not None:
        _check_rows("draft_probs", draft_probs, slots, "a row for each draft, or None for a deterministic proposal")
        if draft_probs.shape[1] != vocab:
            raise ValueError(
                f"draft_probs has vocab {draft_probs.shape[1]}, target_probs has {vocab}; pad with zeros or map first"
            )
    batch = Ragged.of(draft_tokens, cu_num_draft)
    outside = torch.nonzero((draft_tokens < 0) | (draft_tokens >= vocab))[:, 0]
    if len(outside):
        slot = int(outside[0])
        raise ValueError(
            f"draft_tokens[{slot}] {_whose(batch, slot)} is {int(draft_tokens[slot])}; the vocabulary has ids "
            f"0..{vocab - 1} (padding belongs in a rectangle: flatten_padded takes it out)"
        )
    if are_laws:
        _check_laws("target_probs", target_probs, batch, extra=1)
        if draft_probs is not None:
            _check_laws("draft_probs", draft_probs, batch, extra=0)


def check_parents(
    parents: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
) -> None:
    """ValueError unless nodes have parents that come before them, and siblings one law; after `check_batch`."""
    slots = int(cu_num_draft[-1])
    _check_ids("parents", parents)
    if len(parents) != slots:
        raise ValueError(f"parents has shape {tuple(parents.shape)} for {slots} nodes; give one parent a node")
    batch = Ragged.of(parents, cu_num_draft)
    wrong = torch.nonzero((parents < -1) | (parents >= batch.node_of_slot))[:, 0]
    if len(wrong):
        slot = int(wrong[0])
        raise ValueError(
            f"parents[{slot}] {_whose(batch, slot)} is {int(parents[slot])}; a parent is numbered within its request, "
            "comes before its child and is -1 for the pending token"
        )
    if draft_probs is not None:
        _check_siblings(parents, draft_probs, batch)


def _check_siblings(parents: Tensor, draft_probs: Tensor, batch: Ragged) -> None:
    """All siblings are judged against the law of the first, so theirs must be the same."""
    place = (batch.first_slot + torch.arange(len(batch), device=parents.device))[batch.request_of_slot] + parents + 1
    order = torch.argsort(place, stable=True)
    one, other = order[:-1], order[1:]
    pairs = torch.nonzero(place[one] == place[other])[:, 0].tolist()
    for first, second in ((int(one[pair]), int(other[pair])) for pair in pairs):
        if not torch.equal(draft_probs[first], draft_probs[second]):
            raise ValueError(
                f"draft_probs[{second}] {_whose(batch, second)} differs from draft_probs[{first}], a sibling's law; "
                "siblings are drawn from one law (without replacement: the law before anything is taken out)"
            )


def _check_ids(name: str, values: Tensor) -> None:
    if not isinstance(values, Tensor):
        raise ValueError(f"{name} is a {type(values).__name__}; expected a tensor of whole numbers")
    if values.ndim != 1 or values.dtype not in _IDS:
        raise ValueError(
            f"{name} is {values.dtype} of shape {tuple(values.shape)}; expected one dimension of int64 (or int32)"
        )


def _check_coins(coins: BatchCoins | None, requests: int) -> None:
    if coins is None or not hasattr(coins, "uniforms"):
        raise ValueError(
            f"coins is a {type(coins).__name__}; expected coins of a batch - PhiloxBatchCoins(seeds, requests=..., "
            "lengths=...) or ScriptedBatchCoins"
        )
    if len(coins) != requests:
        raise ValueError(f"coins are for {len(coins)} requests; cu_num_draft describes {requests}")


def _check_offsets(draft_tokens: Tensor, cu_num_draft: Tensor) -> None:
    _check_ids("draft_tokens", draft_tokens)
    _check_ids("cu_num_draft", cu_num_draft)
    offsets = cu_num_draft.tolist()
    if not offsets or offsets[0] != 0 or offsets[-1] != len(draft_tokens) or sorted(offsets) != offsets:
        raise ValueError(
            f"cu_num_draft is {offsets if len(offsets) < 9 else [*offsets[:4], '...', *offsets[-2:]]} for "
            f"{len(draft_tokens)} draft tokens; expected 0, K_0, K_0 + K_1, ... up to that number"
        )


def _check_rows(name: str, probs: Tensor, rows: int, why: str) -> None:
    if not isinstance(probs, Tensor):
        raise ValueError(f"{name} is a {type(probs).__name__}; expected a tensor [{rows}, vocab]: {why}")
    if probs.ndim != 2 or probs.shape[0] != rows or probs.shape[1] == 0 or probs.dtype not in _FLOATS:
        raise ValueError(
            f"{name} is {probs.dtype} of shape {tuple(probs.shape)}; expected [{rows}, vocab] in float64, float32, "
            f"float16 or bfloat16: {why}"
        )


def _check_laws(name: str, probs: Tensor, batch: Ragged, *, extra: int) -> None:
    size = max(1, _ROWS_AT_ONCE // max(1, probs.shape[1]))
    for start in range(0, probs.shape[0], size):
        rows = probs[start : start + size]
        # NaN fails both comparisons
        fine = ((rows.sum(-1, dtype=torch.float32) - 1).abs() <= SUM_SLACK) & (rows.amin(-1) >= 0)
        if not bool(fine.all()):
            row = start + int(torch.nonzero(~fine)[0])
            starts = batch.first_slot.cpu() + extra * torch.arange(len(batch), device="cpu")
            request = int(torch.searchsorted(starts, row, right=True)) - 1
            local = row - int(batch.first_slot[request]) - extra * request
            raise ValueError(
                f"{name}[{row}] (request {request}, row {local}) is no law: probabilities are finite, not negative and "
                "sum to 1 - give the softmax of the logits after temperature, top-k and top-p, not logits"
            )


def _whose(batch: Ragged, slot: int) -> str:
    return f"(request {int(batch.request_of_slot[slot])}, draft {int(batch.node_of_slot[slot])})"
