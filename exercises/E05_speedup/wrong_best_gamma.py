"""Typical wrong answers to E05.best_gamma."""

from fractions import Fraction
from typing import Any

from specdec_labs.grade.zoo import WrongAnswer, wrong

Number = Fraction | float


def tokens(alpha: Number, gamma: int) -> Number:
    """Tokens a round, as in the solution."""
    return sum(alpha**kept for kept in range(gamma + 1))


@wrong(
    "E05.best_gamma",
    "best_window",
    "finds_the_maximum",
    "your function maximises the tokens of a round. They always grow with gamma; what a round costs grows too.",
)
def maximises_tokens(alpha: Number, c: Number, largest: int) -> int:
    return max(range(largest + 1), key=lambda gamma: (tokens(alpha, gamma), -gamma))


@wrong(
    "E05.best_gamma",
    "best_window",
    "finds_the_maximum",
    "your function divides the *accepted* drafts by the cost. Every round emits one token more than it accepts.",
)
def forgets_the_extra_token(alpha: Number, c: Number, largest: int) -> int:
    def gain(gamma: int) -> Number:
        return (tokens(alpha, gamma) - 1) / (gamma * c + 1) if gamma else 1

    return max(range(largest + 1), key=lambda gamma: (gain(gamma), -gamma))


@wrong(
    "E05.best_gamma",
    "best_window",
    "finds_the_maximum",
    "your function counts gamma + 1 draft steps a round. The last accepted draft needs none behind it: gamma steps and "
    "one pass of the target.",
)
def one_draft_step_too_many(alpha: Number, c: Number, largest: int) -> int:
    def gain(gamma: int) -> Number:
        return tokens(alpha, gamma) / ((gamma + 1) * c + 1) if gamma else 1

    return max(range(largest + 1), key=lambda gamma: (gain(gamma), -gamma))


@wrong(
    "E05.best_gamma",
    "best_window",
    "says_so_when_plain_wins",
    "your function never answers 0. Where every window is slower than plain decoding the best one is no window at all.",
)
def always_drafts(alpha: Number, c: Number, largest: int) -> int:
    return max(range(1, largest + 1), key=lambda gamma: (tokens(alpha, gamma) / (gamma * c + 1), -gamma))


@wrong(
    "E05.best_gamma",
    "best_window",
    "keeps_to_the_largest_window",
    "your function ignores `largest` and goes on to longer windows.",
)
def ignores_the_limit(alpha: Number, c: Number, largest: int) -> int:
    alpha, c = float(alpha), float(c)
    return max(range(201), key=lambda gamma: (tokens(alpha, gamma) / (gamma * c + 1), -gamma))


def _k(name: str, answer: Any, says: str) -> WrongAnswer:
    return WrongAnswer(
        name=name,
        task="E05.best_gamma",
        replaces="BEST_K",
        caught_by="knows_the_seeds_example",
        says=says,
        answer=answer,
    )


AS_FAST = _k("as_many_as_it_is_faster", 20, "20 is how much faster the draft is; twenty drafts overshoot the top.")
LIMIT = _k("expected_run", 9, "9 is alpha / (1 - alpha), the mean run of accepted drafts; the best window is longer.")
ONE_SHORT = _k("one_short", 12, "12 gives 4.6613, 13 gives 4.6741: the top is flat, look at one window more.")
