"""From a drafter's logits to the laws it draws from or ranks by."""

from collections.abc import Sequence
from dataclasses import replace
import math

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.models.cut_head import spread_logits
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.warp import SamplingParams

Histories = Sequence[Sequence[int]] | None
"""For each row the tokens before it; None when the parameters do not look at them."""


def ranking_params(params: SamplingParams, temperature: float) -> SamplingParams:
    """Parameters for choosing the most probable children: penalties and bans as in the request, no filters.

    Deterministic children stand for no law, so any ranking is exact; at the request's temperature 0 a softmax would
    name one child only.
    """
    return replace(params, temperature=temperature, top_k=0, top_p=1.0, min_p=0.0)


def draft_laws(
    params: SamplingParams,
    logits: Float[Tensor, "rows ids"],
    histories: Histories,
    *,
    prompt_length: int,
    vocabulary: CutVocabulary | None = None,
) -> Float[Tensor, "rows ids"]:
    """The law of each row over the columns of `logits`: the target's ids, or those of `vocabulary` in its order.

    A row in which the request bans every token the drafter knows is zero: the target can go on there, the drafter has
    nothing to say. Penalties, biases and bans go by the target's ids.
    """
    full = logits
    if vocabulary is not None and _names_ids(params):
        full = spread_logits(logits, vocabulary)
    if not _bans(params):
        laws = params.probs(full, histories, prompt_length=prompt_length)
    else:
        scores = params.scores(full, histories, prompt_length=prompt_length)
        can_speak = scores.amax(dim=-1) > -math.inf
        laws = torch.zeros_like(scores)
        if bool(can_speak.any()):
            rows = can_speak.nonzero()[:, 0]
            kept = None if histories is None else [histories[row] for row in rows.tolist()]
            laws[rows] = params.probs(full[rows], kept, prompt_length=prompt_length)
    if vocabulary is not None and full is not logits:
        return laws[:, vocabulary.index.to(laws.device)]
    return laws


def has_mass(law: Float[Tensor, " ids"]) -> bool:
    """Whether there is a token to draw."""
    return bool(law.amax() > 0)


def _names_ids(params: SamplingParams) -> bool:
    """Whether the parameters speak of single ids, so that columns must stand for the target's."""
    return params.uses_history or bool(params.logit_bias) or _bans(params)


def _bans(params: SamplingParams) -> bool:
    has_banned = any(bias == -math.inf for bias in params.logit_bias.values())
    return has_banned or params.allowed_ids is not None or bool(params.bad_words)
