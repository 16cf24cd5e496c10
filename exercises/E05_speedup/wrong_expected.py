"""Typical wrong answers to E05.expected."""

from fractions import Fraction
from typing import Any

from specdec_labs.grade.zoo import WrongAnswer, wrong

Number = Fraction | float


@wrong(
    "E05.expected",
    "expected_accepted_drafts",
    "sums_the_survival",
    "your function counts the token every round adds (recovered or bonus) as an accepted draft: the sum starts at "
    "alpha^1, not at alpha^0.",
)
def counts_the_extra_token(alpha: Number, gamma: int) -> Number:
    return sum((alpha**kept for kept in range(gamma + 1)), 0 * alpha)


@wrong(
    "E05.expected",
    "expected_accepted_drafts",
    "sums_the_survival",
    "your function returns alpha * gamma. That would be the mean if every draft were judged; a refusal drops the rest, "
    "so draft i is kept with alpha^i only.",
)
def judges_every_draft(alpha: Number, gamma: int) -> Number:
    return alpha * gamma


@wrong(
    "E05.expected",
    "expected_accepted_drafts",
    "sums_the_survival",
    "your function returns alpha / (1 - alpha), the limit of endless drafting, whatever gamma is.",
)
def never_stops_drafting(alpha: Number, gamma: int) -> Number:
    return alpha / (1 - alpha) if gamma and alpha < 1 else 0 * alpha + gamma


@wrong(
    "E05.expected",
    "expected_accepted_drafts",
    "sums_the_survival",
    "your function returns gamma * alpha^gamma: it counts a round only when every draft is kept.",
)
def all_or_nothing(alpha: Number, gamma: int) -> Number:
    return gamma * alpha**gamma


@wrong(
    "E05.expected",
    "expected_accepted_drafts",
    "right_at_alpha_one",
    "the closed form divides by 1 - alpha. At alpha = 1 that is 0/0 (every draft is kept: gamma), and just below it "
    "only rounding is left; the plain sum has neither trouble.",
)
def divides_by_zero_at_one(alpha: Number, gamma: int) -> Number:
    return alpha * (1 - alpha**gamma) / (1 - alpha)


@wrong(
    "E05.expected",
    "expected_accepted_drafts",
    "nothing_drafted_nothing_kept",
    "with gamma = 0 your function returns alpha, as if one draft were always made.",
)
def drafts_at_least_one(alpha: Number, gamma: int) -> Number:
    return sum((alpha**kept for kept in range(1, max(gamma, 1) + 1)), 0 * alpha)


@wrong(
    "E05.expected",
    "expected_accepted_drafts",
    "fractions_stay_exact",
    "the number is right, but a Fraction went in and a float came out: look for 0.0, 1.0 or float(...).",
)
def rounds_to_floats(alpha: Number, gamma: int) -> Number:
    return sum((float(alpha) ** kept for kept in range(1, gamma + 1)), 0.0)


def _value(name: str, caught_by: str, answer: Any, says: str) -> WrongAnswer:
    return WrongAnswer(
        name=name, task="E05.expected", replaces="EXPECTED", caught_by=caught_by, says=says, answer=answer
    )


BONUS_AS_ACCEPTED = _value(
    "calls_tokens_accepted",
    "counts_what_it_says",
    ("accepted", 2.7731, 3.1988, 3.3256),
    "these are tokens a round, the recovered or bonus token included. Accepted drafts are one fewer.",
)
ACCEPTED_AS_TOKENS = _value(
    "calls_accepted_tokens",
    "counts_what_it_says",
    ("tokens", 1.7731, 2.1988, 2.3256),
    "these are accepted drafts. A round emits one token more, recovered or bonus.",
)
EVERY_DRAFT = _value(
    "judges_every_draft_in_numbers",
    "has_the_values",
    ("accepted", 2.8, 5.6, 11.2),
    "that is 0.7 * K, as if every draft were judged; a refusal drops all drafts behind it.",
)
ALL_KEPT = _value(
    "all_kept_in_numbers",
    "has_the_values",
    ("accepted", 0.2401, 0.0576, 0.0033),
    "that is 0.7^K, the chance that all drafts are kept, not the mean number of them.",
)
NO_WORD = _value(
    "block_efficiency",
    "says_what_it_counts",
    ("length", 2.7731, 3.1988, 3.3256),
    "'length' can mean either count. Say 'accepted' for drafts kept, 'tokens' for what comes out.",
)
