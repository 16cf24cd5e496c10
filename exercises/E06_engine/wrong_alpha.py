"""Typical wrong answers to E06.alpha."""

from collections.abc import Sequence
from fractions import Fraction

from specdec_labs.grade.zoo import wrong

Rounds = Sequence[tuple[int, int]]


@wrong(
    "E06.alpha",
    "alpha_of_rounds",
    "divides_by_the_tested",
    "your function divides by the drafted tokens. Drafts behind a refusal were never judged; they are no failures.",
)
def accepted_over_drafted(rounds: Rounds) -> Fraction | None:
    drafted = sum(drafted for drafted, _ in rounds)
    return Fraction(sum(accepted for _, accepted in rounds), drafted) if drafted else None


@wrong(
    "E06.alpha",
    "alpha_of_rounds",
    "full_acceptance_is_one",
    "your function tests one draft more than there is where everything was accepted: min(accepted + 1, drafted).",
)
def tests_a_draft_too_many(rounds: Rounds) -> Fraction | None:
    tested = sum(accepted + 1 for drafted, accepted in rounds if drafted)
    return Fraction(sum(accepted for _, accepted in rounds), tested) if tested else None


@wrong(
    "E06.alpha",
    "alpha_of_rounds",
    "pools_the_rounds",
    "your function averages the ratios of the rounds. A round that tested one draft then weighs as much as one that "
    "tested eight.",
)
def mean_of_ratios(rounds: Rounds) -> Fraction | None:
    ratios = [Fraction(accepted, min(accepted + 1, drafted)) for drafted, accepted in rounds if drafted]
    return sum(ratios, Fraction(0)) / len(ratios) if ratios else None


@wrong(
    "E06.alpha",
    "alpha_of_rounds",
    "divides_by_the_tested",
    "your function counts the token that follows the drafts as accepted. It was not drafted.",
)
def counts_the_bonus(rounds: Rounds) -> Fraction | None:
    tested = sum(min(accepted + 1, drafted) for drafted, accepted in rounds)
    return Fraction(sum(accepted + 1 for _, accepted in rounds), tested) if tested else None


@wrong(
    "E06.alpha",
    "alpha_of_rounds",
    "nothing_tested_is_none",
    "before the first draft your function divides 0 by 0; the answer is None then.",
)
def divides_by_zero(rounds: Rounds) -> Fraction | None:
    tested = sum(min(accepted + 1, drafted) for drafted, accepted in rounds)
    return Fraction(sum(accepted for _, accepted in rounds), tested)


@wrong(
    "E06.alpha",
    "alpha_of_rounds",
    "stays_exact",
    "the number is right, as a float; the ratio of two counts is a Fraction.",
)
def as_a_float(rounds: Rounds) -> float | None:
    tested = sum(min(accepted + 1, drafted) for drafted, accepted in rounds)
    return sum(accepted for _, accepted in rounds) / tested if tested else None
