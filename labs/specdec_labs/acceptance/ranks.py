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


def eagle_ranks(steps: Sequence[tuple[Tensor, Tensor]], starts: int) -> Ranks:
    """Of an EAGLE head; `steps` as `eagle_steps` gives them."""
    found = [token_ranks(logits, ids) for logits, ids in steps]
    return _by_start(lambda ahead: found[ahead], starts, len(found))


def eagle_steps(
    head: EagleHead,
    cut_head: Float[Tensor, "cut width"],
    embedding: Float[Tensor, "vocab width"],
    vocabulary: CutVocabulary,
    states: Float[Tensor, "rows width"],
    tokens: Sequence[int],
    prompt_length: int,
    depth: int,
) -> list[tuple[Float[Tensor, "starts cut"], Int[Tensor, " starts"]]]:
    """For each step of a draft that is led along the text: logits over the cut from every start, and the text's tokens
    in the cut's ids (-1: not in it). Pass s over the whole text makes the s-th step of every draft at once.
    """
    fed, following = eagle_pairs(states, torch.tensor(tokens))
    own = vocabulary.inverse[torch.tensor(tokens)]
    embedded = F.embedding(following, embedding)[None]
    current, passes, found = fed[None], [], []
    with torch.inference_mode():
        for step in range(depth):
            made = head(current, embedded, passes)
            # row j ends with token j + 1 and guesses token j + 2; the first start has the answer's first token pending
            rows = made[0, prompt_length - 1 + step : -1]
            found.append((F.linear(rows, cut_head).float(), own[prompt_length + 1 + step :]))
            current = shifted(made)
    return found


def chances_of_model(
    logits: Float[Tensor, "answer ids"], tokens: Sequence[int], prompt_length: int, depth: int
) -> Float[Tensor, "starts depth"]:
    """q of the text's tokens at temperature 1 from every start, for a draft model; NaN behind the end."""
    answer = torch.tensor(tokens[prompt_length:])
    own = logits.softmax(dim=-1).gather(-1, answer[:, None])[:, 0]
    return _by_start(lambda ahead: own[1 + ahead :], len(own) - 1, depth, torch.nan)


def chances_of_eagle(steps: Sequence[tuple[Tensor, Tensor]], starts: int) -> Float[Tensor, "starts depth"]:
    """The same of an EAGLE head; 0 for tokens outside the cut."""
    found = [
        logits.softmax(dim=-1).gather(-1, ids.clamp(min=0)[:, None])[:, 0].masked_fill(ids < 0, 0.0)
        for logits, ids in steps
    ]
    return _by_start(lambda ahead: found[ahead], starts, len(found), torch.nan)


def _by_start(ahead: Callable[[int], Tensor], starts: int, depth: int, behind: float = NO_TOKEN) -> Tensor:
    table = torch.full((max(0, starts), depth), behind)
    for place in range(min(depth, starts)):
        table[: starts - place, place] = ahead(place)[: starts - place]
    return table
