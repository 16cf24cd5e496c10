"""Drafts for many texts at once, from keyed noise: chains and trees, sampled or deterministic."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float, Float64, Int64
import numpy as np
from numpy import ndarray
import torch
from torch import Tensor

from specdec_core.coins.noise import PURPOSE_CODES, exponential
from specdec_core.coins.philox import philox4x32
from specdec_labs.kernel_law.pair import Contexts, Pair, law_of

Proposal = Literal["iid", "without_replacement", "deterministic"]


@dataclass(frozen=True, slots=True)
class Drafts:
    """The drafts of some texts.

    Attributes:
        tokens, parents: by text and node; a parent of -1 is the pending token.
        target: logits by text and row: those of the pending token, then those of each node.
        draft: those that each node was drawn from.
    """

    tokens: Int64[Tensor, "texts nodes"]
    parents: Int64[Tensor, "texts nodes"]
    target: Float[Tensor, "texts rows vocab"]
    draft: Float[Tensor, "texts nodes vocab"]


def draft_noise(
    requests: Int64[ndarray, " texts"], lengths: Int64[ndarray, " texts"], node: int, vocab: int
) -> Float64[ndarray, "texts vocab"]:
    """The exponentials of a draft at `node`, as `NoiseKey(0, request, length, node, "draft")` has them."""
    blocks = []
    for block in range(-(-vocab // 4)):
        counter = np.empty((len(requests), 4), dtype=np.uint32)
        counter[:, 0], counter[:, 1], counter[:, 2] = block, lengths, requests
        counter[:, 3] = node << 3 | PURPOSE_CODES["draft"]
        blocks.append(philox4x32(counter, (0, 0)))
    return exponential(np.concatenate(blocks, 1)[:, :vocab])


def propose(
    pair: Pair,
    contexts: Contexts,
    shape: Sequence[int],
    proposal: Proposal,
    requests: Int64[ndarray, " texts"],
    lengths: Int64[ndarray, " texts"],
) -> Drafts:
    """Drafts with the parents `shape`; `requests` and `lengths` key the noise.

    Deterministic children are the likeliest tokens of the draft's law, in order.
    """
    at = {-1: contexts}
    tokens, target, draft = list[Tensor](), [pair.target_rows(contexts)], list[Tensor]()
    for node, parent in enumerate(shape):
        draft.append(pair.draft_rows(at[parent]))
        siblings = [tokens[earlier] for earlier in range(node) if shape[earlier] == parent]
        if proposal == "deterministic":
            drawn = draft[-1].argsort(dim=-1, descending=True)[:, len(siblings)]
        else:
            law = law_of(draft[-1])
            for sibling in siblings if proposal == "without_replacement" else ():
                law[np.arange(len(law)), sibling.numpy()] = 0
            with np.errstate(divide="ignore"):
                drawn = torch.from_numpy((draft_noise(requests, lengths, node, pair.vocab) / law).argmin(1))
        tokens.append(drawn)
        at[node] = at[parent].then(drawn)
        target.append(pair.target_rows(at[node]))
    parents = torch.tensor(list(shape)).repeat(len(requests), 1)
    return Drafts(torch.stack(tokens, 1), parents, torch.stack(target, 1), torch.stack(draft, 1))
