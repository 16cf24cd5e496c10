"""How far each token of a text is from the target's own greedy choice."""

from collections.abc import Sequence

import torch

from specdec_core.models.protocol import LanguageModel
from specdec_core.warp import SamplingParams


def logit_gaps(
    target: LanguageModel, prompt: Sequence[int], tokens: Sequence[int], params: SamplingParams | None = None
) -> tuple[float, ...]:
    """For each of `tokens`, the best logit minus this token's, given all before it: 0 where it is the greedy choice.

    The prompt is fed in one pass and then one token at a time, as plain decoding does, so the rows are those of plain
    decoding to the bit. Logits are taken after the penalties and bans of `params`; a banned token has gap inf. Two
    texts that part at a near-tie are both within a small gap everywhere, which equality cannot say.

    Raises:
        ValueError: an empty prompt, or a token outside the vocabulary.
    """
    params = params or SamplingParams(temperature=0)
    if len(prompt) == 0:
        raise ValueError("prompt is empty; give at least one token id")
    cache = target.new_cache(len(prompt) + len(tokens))
    gaps: list[float] = []
    text, fed = list(prompt), list(prompt)
    for place, token in enumerate(tokens):
        if not 0 <= token < target.vocab_size:
            raise ValueError(f"tokens[{place}] is {token}; the vocabulary has ids 0..{target.vocab_size - 1}")
        rows = torch.tensor(fed, dtype=torch.long, device=target.device)
        logits = target.forward(rows, cache=cache, last_only=True).logits
        scores = params.scores(logits, [text] if params.uses_history else None, prompt_length=len(prompt))[0]
        gaps.append(float(scores.max() - scores[token]))
        text.append(token)
        fed = [token]
    return tuple(gaps)
