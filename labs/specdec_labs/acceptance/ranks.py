"""At which rank of a drafter's guesses the text's next tokens stood, from every place of the text.

With deterministic children, the most probable ones, these ranks say how every tree shape would have fared: a node with
b children passes when the rank of the next token is below b. No drafting is needed to compare shapes.
"""

from collections.abc import Callable, Sequence

from jaxtyping import Float, Int
import torch
from torch import Tensor
import torch.nn.functional as F

from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead, eagle_pairs, shifted
from specdec_core.models.medusa import MedusaHeads

NEVER = 1 << 30
"""The rank of a token the drafter does not know."""

NO_TOKEN = -1
"""In place of a rank behind the end of the text."""

Ranks = Int[Tensor, "starts depth"]
"""Row i: a round that starts behind the i-th token of the answer (from 1); column d: the token d places on."""


def token_ranks(logits: Float[Tensor, "rows ids"], ids: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """How many ids come before each, the most probable first and the lower id on a tie; `NEVER` for a negative id."""
    own = logits.gather(-1, ids.clamp(min=0)[:, None])
    lower = torch.arange(logits.shape[1]) < ids[:, None]
    before = ((logits > own) | ((logits == own) & lower)).sum(dim=-1)
    return before.masked_fill(ids < 0, NEVER)


def model_ranks(logits: Float[Tensor, "answer ids"], tokens: Sequence[int], prompt_length: int, depth: int) -> Ranks:
    """Of a draft model, whose law depends on the text before alone; `logits` are those for the answer's tokens."""
    ranks = token_ranks(logits, torch.tensor(tokens[prompt_length:]))
    return _by_start(lambda ahead: ranks[1 + ahead :], len(ranks) - 1, depth)


def medusa_ranks(
    heads: MedusaHeads,
    cut_head: Float[Tensor, "cut width"],
    vocabulary: CutVocabulary,
    states: Float[Tensor, "rows width"],
    tokens: Sequence[int],
    prompt_length: int,
) -> Ranks:
    """Of Medusa heads: a round behind token t reads the state of token t - 1, and head k guesses t + 1 + k."""
    own = vocabulary.inverse[torch.tensor(tokens)]
    with torch.inference_mode():
        guessed = heads(states[prompt_length - 1 :])

    def ahead(place: int) -> Tensor:
        wanted = own[prompt_length + 1 + place :]
        return token_ranks(F.linear(guessed[place, : len(wanted)], cut_head), wanted)

    return _by_start(ahead, len(tokens) - prompt_length - 1, len(guessed))


def eagle_ranks(
    head: EagleHead,
    cut_head: Float[Tensor, "cut width"],
    embedding: Float[Tensor, "vocab width"],
    vocabulary: CutVocabulary,
    states: Float[Tensor, "rows width"],
    tokens: Sequence[int],
    prompt_length: int,
    depth: int,
) -> Ranks:
    """Of an EAGLE head led along the text, from all starts at once: pass s makes the s-th step of every draft."""
    fed, following = eagle_pairs(states, torch.tensor(tokens))
    own = vocabulary.inverse[torch.tensor(tokens)]
    embedded = F.embedding(following, embedding)[None]
    current, passes, found = fed[None], [], []
    with torch.inference_mode():
        for step in range(depth):
            made = head(current, embedded, passes)
            # row j ends with token j + 1 and guesses token j + 2; the first start has the answer's first token pending
            rows = made[0, prompt_length - 1 + step : -1]
            found.append(token_ranks(F.linear(rows, cut_head), own[prompt_length + 1 + step :]))
            current = shifted(made)
    return _by_start(lambda ahead: found[ahead], len(tokens) - prompt_length - 1, depth)


def _by_start(ahead: Callable[[int], Tensor], starts: int, depth: int) -> Ranks:
    table = torch.full((max(0, starts), depth), NO_TOKEN)
    for place in range(min(depth, starts)):
        table[: starts - place, place] = ahead(place)[: starts - place]
    return table
