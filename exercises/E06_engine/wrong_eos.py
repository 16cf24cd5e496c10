"""Typical wrong answers to E06.eos."""

from collections.abc import Sequence
from typing import Any

from specdec_labs.grade.zoo import WrongAnswer, wrong

Tokens = Sequence[int]


@wrong(
    "E06.eos",
    "mended_cut",
    "texts_have_the_right_law",
    "this is the broken function still: everything is emitted, and only the last token of a round can end the text.",
)
def not_mended(tokens: Tokens, stop: Tokens) -> list[int]:
    return list(tokens)


@wrong(
    "E06.eos",
    "mended_cut",
    "nothing_behind_the_end",
    "your function drops the stop token itself; the caller then never sees that the text has ended.",
)
def drops_the_stop_token(tokens: Tokens, stop: Tokens) -> list[int]:
    ends = [place for place, token in enumerate(tokens) if token in stop]
    return list(tokens[: ends[0]]) if ends else list(tokens)


@wrong(
    "E06.eos",
    "mended_cut",
    "nothing_behind_the_end",
    "your function cuts at the *last* stop token of the round; the text ends at the first.",
)
def cuts_at_the_last(tokens: Tokens, stop: Tokens) -> list[int]:
    ends = [place for place, token in enumerate(tokens) if token in stop]
    return list(tokens[: ends[-1] + 1]) if ends else list(tokens)


@wrong(
    "E06.eos",
    "mended_cut",
    "nothing_behind_the_end",
    "your function looks for the first stop token of the list only; any of them ends the text.",
)
def knows_one_stop_token(tokens: Tokens, stop: Tokens) -> list[int]:
    for place, token in enumerate(tokens):
        if stop and token == stop[0]:
            return list(tokens[: place + 1])
    return list(tokens)


@wrong(
    "E06.eos",
    "mended_cut",
    "keeps_what_does_not_end",
    "your function emits one token a round, to be on the safe side. That throws away what speculation has won.",
)
def one_token_a_round(tokens: Tokens, stop: Tokens) -> list[int]:
    return list(tokens[:1])


@wrong(
    "E06.eos",
    "mended_cut",
    "keeps_what_does_not_end",
    "without a stop token in the round your function drops its last token.",
)
def always_cuts(tokens: Tokens, stop: Tokens) -> list[int]:
    for place, token in enumerate(tokens):
        if token in stop:
            return list(tokens[: place + 1])
    return list(tokens[: max(len(tokens) - 1, 1)])


def _input(name: str, caught_by: str, answer: Any, says: str) -> WrongAnswer:
    return WrongAnswer(name=name, task="E06.eos", replaces="EOS_INPUT", caught_by=caught_by, says=says, answer=answer)


EMPTY = _input("empty_round", "input_is_legal", ([], [1]), "a round always emits at least one token.")
AT_THE_END = _input(
    "end_at_the_end",
    "input_tells_them_apart",
    ([0, 1], [1]),
    "here the end is the last token of the round, which is where the broken function looks.",
)
LONG = _input(
    "longer_than_needed",
    "input_is_the_smallest",
    ([0, 1, 0], [1]),
    "right, and the token in front of the end plays no part.",
)
