"""From what happened in a round to its frozen record."""

from collections.abc import Sequence

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.coins.protocol import Event
from specdec_core.draft import Draft
from specdec_core.residual import residual, residual_of_one_hot
from specdec_core.rules.verdict import Verdict
from specdec_core.trace import RoundKind, SlotTop

TopTokens = tuple[tuple[int, float], ...]


def cut_at_stop(tokens: Sequence[int], stop: Sequence[int]) -> tuple[int, ...]:
    """The tokens up to the first stop token, which is kept."""
    for place, token in enumerate(tokens):
        if token in stop:
            return tuple(tokens[: place + 1])
    return tuple(tokens)


def round_kind(draft: Draft, verdict: Verdict, was_cut: bool) -> RoundKind:
    """How the round ended: cut by a stop token, plain, recovered or bonus."""
    if was_cut:
        return "stopped"
    return verdict.kind if len(draft.tree) else "plain"


def accept_uniforms(events: Sequence[Event], drafted: int) -> tuple[float | None, ...]:
    """The uniform that judged each drafted node, None where none was asked for."""
    asked = {event.node: event.uniform for event in events if event.purpose == "accept"}
    return tuple(asked.get(node) for node in range(drafted))


def probs_of_drafts(draft: Draft, target_probs: Float[Tensor, "rows vocab"]) -> tuple[float, ...]:
    """p of each drafted token, in the row of its parent."""
    return tuple(float(target_probs[parent + 1, token]) for parent, token in zip(draft.tree.parents, draft.tokens))


def slot_tops(draft: Draft, target_probs: Float[Tensor, "rows vocab"], end: int, count: int) -> tuple[SlotTop, ...]:
    """The `count` most probable tokens of p, q and residual: a slot a drafted node, then the bonus slot.

    The bonus slot follows the node where the walk ended (`end`, -1: the pending token) if nothing was drafted there,
    else the last node.
    """
    slots = []
    for node, (parent, token) in enumerate(zip(draft.tree.parents, draft.tokens)):
        p = target_probs[parent + 1]
        q = None if draft.draft_probs is None else draft.draft_probs[node]
        rest = residual_of_one_hot(p, token) if q is None else residual(p, q)
        slots.append(SlotTop(_top(p, count), None if q is None else _top(q, count), _top(rest, count)))
    bonus_row = len(draft.tree) if draft.tree.children(end) else end + 1
    return (*slots, SlotTop(_top(target_probs[bonus_row], count), None, None))


def _top(law: Tensor, count: int) -> TopTokens:
    largest = torch.topk(law, min(count, len(law)))
    pairs = zip(largest.indices.tolist(), largest.values.tolist())
    return tuple((token, value) for token, value in pairs if value > 0)
