"""Typical wrong answers to E05.break_even."""

from specdec_labs.grade.zoo import wrong


def root(gamma: int, wanted: float, first: int = 0) -> float:
    """The alpha at which alpha^first + ... + alpha^gamma = wanted, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        enough = sum(middle**kept for kept in range(first, gamma + 1)) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return high


@wrong(
    "E05.break_even",
    "break_even_alpha",
    "speed_up_is_one",
    "your function returns c. That is right for one draft; with more, a refusal drops the drafts behind it, which were "
    "paid for all the same, so alpha must be higher.",
)
def returns_c(gamma: int, c: float) -> float | None:
    return c if c <= 1 else None


@wrong(
    "E05.break_even",
    "break_even_alpha",
    "one_draft_pays_at_c",
    "your equation leaves out the token that every round adds: 1 + alpha + ..., not alpha + ....",
)
def forgets_the_extra_token(gamma: int, c: float) -> float | None:
    return (root(gamma, gamma * c + 1, 1) if c else 0.0) if c <= 1 else None


@wrong(
    "E05.break_even",
    "break_even_alpha",
    "is_right_to_nine_digits",
    "your answer comes from a grid of alphas or stops early: it is right to three digits only.",
)
def coarse_grid(gamma: int, c: float) -> float | None:
    return round(root(gamma, gamma * c + 1), 4) if c <= 1 else None


@wrong(
    "E05.break_even",
    "break_even_alpha",
    "none_when_nothing_pays",
    "with c above 1 your function returns 1. Not even a draft that is always right breaks even then: there is no such "
    "alpha.",
)
def promises_too_much(gamma: int, c: float) -> float | None:
    return root(gamma, gamma * c + 1) if c else 0.0


@wrong(
    "E05.break_even",
    "break_even_alpha",
    "free_drafts_pay_at_once",
    "with c = 0 your function returns no alpha, or one above 0. Free drafts never lose.",
)
def wants_something_for_free_drafts(gamma: int, c: float) -> float | None:
    return root(gamma, gamma * c + 1) if 0 < c <= 1 else None


@wrong(
    "E05.break_even",
    "break_even_alpha",
    "speed_up_is_one",
    "your function takes the odds gamma c : 1 for the answer, which is the limit of endless drafting. A window "
    "of gamma "
    "drafts ends sooner; solve 1 + alpha + ... + alpha^gamma = gamma c + 1.",
)
def drafts_without_end(gamma: int, c: float) -> float | None:
    return gamma * c / (gamma * c + 1) if c <= 1 and gamma > 1 else c if c <= 1 else None
