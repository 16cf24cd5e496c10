"""Typical wrong answers to E03.valid_law: proofs that are none."""

from specdec_labs.grade.zoo import WrongAnswer


def _proof(name: str, answer: str, caught_by: str, says: str) -> WrongAnswer:
    return WrongAnswer(name=name, task="E03.valid_law", replaces="PROOF", caught_by=caught_by, says=says, answer=answer)


NO_Z = _proof(
    "divides_unasked",
    "acde",
    "divides_by_something_positive",
    "your proof divides by Z before anyone said that Z is not 0. With p = q it is.",
)
NO_SIGN = _proof(
    "forgets_the_sign",
    "bde",
    "nothing_is_negative",
    "your proof shows the total and forgets the sign: numbers that sum to 1 can still be negative.",
)
NO_TOTAL = _proof(
    "forgets_the_total",
    "abce",
    "total_is_one",
    "your proof shows that nothing is negative and forgets the total: many such lists sum to something else.",
)
SUMS_TO_ONE = _proof(
    "believes_the_difference_sums_to_one",
    "abcfde",
    "every_step_is_true",
    "step f is false: p - q sums to 1 - 1 = 0. It is the cut at zero that leaves something.",
)
Z_IS_ONE = _proof(
    "believes_z_is_one",
    "abgcde",
    "every_step_is_true",
    "step g is false: Z is what p has above q, which is 1 only when the two share no token.",
)
TOO_EARLY = _proof(
    "divides_too_early",
    "acbde",
    "premises_come_first",
    "step c divides by Z; that Z is above 0 (step b) must be known by then.",
)
GOES_ON = _proof(
    "claims_too_early",
    "abced",
    "ends_with_the_claim",
    "the claim comes before the total is shown; it belongs to the end.",
)
STOPS = _proof(
    "stops_before_the_claim",
    "abcd",
    "ends_with_the_claim",
    "everything is shown, and the claim is not drawn.",
)
