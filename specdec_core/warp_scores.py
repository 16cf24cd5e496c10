"""What is done to the logits before the temperature: penalties and bans that read the history, bias, allowed ids.

Every function changes `scores` in place; `history[i]` holds the tokens before row i. A ban *adds* -inf, so that a NaN
under it still shows.
"""

from collections.abc import Collection, Mapping, Sequence
import math

from jaxtyping import Float
import torch
from torch import Tensor

Scores = Float[Tensor, "rows vocab"]
History = Sequence[Sequence[int]]


def penalise(
    scores: Scores, history: History, prompt_length: int, *, repetition: float, frequency: float, presence: float
) -> None:
    """Repetition penalty on everything said, then frequency and presence penalties on what was generated."""
    for row, tokens in zip(scores, history):
        seen = torch.tensor(sorted(set(tokens)), dtype=torch.long, device=scores.device)
        row[seen] = torch.where(row[seen] > 0, row[seen] / repetition, row[seen] * repetition)
        output = torch.tensor(list(tokens[prompt_length:]), dtype=torch.long, device=scores.device)
        generated, counts = torch.unique(output, return_counts=True)
        row[generated] -= frequency * counts + presence


def add_bias(scores: Scores, bias: Mapping[int, float]) -> None:
    """Adds the bias of each token to every row."""
    for token, value in bias.items():
        scores[:, token] += value


def allow_only(scores: Scores, ids: Collection[int]) -> None:
    """-inf for every token that is not in `ids`."""
    ban = scores.new_full((scores.shape[-1],), -math.inf)
    ban[list(ids)] = 0
    scores += ban


def ban_words(scores: Scores, words: Sequence[tuple[int, ...]], history: History | None) -> None:
    """-inf for the last token of each word whose other tokens end the row's history."""
    for index, row in enumerate(scores):
        said = () if history is None else history[index]
        row[[word[-1] for word in words if _ends_with(said, word[:-1])]] += -math.inf


def _ends_with(tokens: Sequence[int], ending: tuple[int, ...]) -> bool:
    return not ending or tuple(tokens[-len(ending) :]) == ending


def check_history(history: History | None, rows: int, vocab: int, prompt_length: int) -> History:
    """The history. ValueError unless it has a row for each row of logits, with ids of the vocabulary."""
    if history is None or len(history) != rows:
        given = "none" if history is None else str(len(history))
        raise ValueError(
            f"history has {given} rows for {rows} rows of logits; penalties and bad words need the tokens before each"
        )
    for row, tokens in enumerate(history):
        outside = [token for token in tokens if not 0 <= token < vocab]
        if outside:
            raise ValueError(f"history[{row}] holds token {outside[0]}; the vocabulary has ids 0..{vocab - 1}")
    if prompt_length < 0:
        raise ValueError(f"prompt_length is {prompt_length}; expected at least 0")
    return history


def check_ids(name: str, ids: Collection[int], vocab: int) -> None:
    """ValueError that names the first id outside the vocabulary."""
    for token in ids:
        if not 0 <= token < vocab:
            raise ValueError(f"{name} names token {token}; the vocabulary has ids 0..{vocab - 1}")
