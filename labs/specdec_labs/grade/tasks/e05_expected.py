"""Task E05.expected: the mean number of drafts kept a round, and the first exercise of the seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
import random
from typing import Any

from specdec_core.speed_formulas import expected_accepted
from specdec_labs.grade.exact import Malformed, Number, number_text, read_list, read_number
from specdec_labs.grade.task import Ask, Property, Seen, Task, value

ALPHA, GAMMAS = Fraction(7, 10), (4, 8, 16)
COUNTS = ("accepted", "tokens")
SLACK = 5e-4
"""Four decimals are asked for; three that are rounded pass too."""


@dataclass(frozen=True, slots=True)
class Window:
    """alpha and gamma."""

    alpha: Number
    gamma: int

    def arguments(self) -> list[Any]:
        """As the learner's function gets them."""
        return [self.alpha, self.gamma]

    @property
    def wanted(self) -> Fraction:
        """By the sum of alpha^i, in exact arithmetic."""
        return Fraction(expected_accepted(Fraction(self.alpha), self.gamma))


def public_cases() -> Sequence[Window]:
    """Small ones, both ends of alpha, and long windows."""
    half = Fraction(1, 2)
    return (
        Window(half, 1),
        Window(half, 2),
        Window(Fraction(0), 3),
        Window(half, 0),
        Window(Fraction(1), 3),
        Window(Fraction(7, 10), 4),
        Window(0.8, 5),
        Window(1.0, 5),
        Window(1 - 1e-9, 4),
    )


def hidden_cases(seed: int) -> Sequence[Window]:
    """Fresh exact and float windows, with both ends."""
    rng = random.Random(seed)
    exact = [Window(Fraction(rng.randrange(1, 20), 20), rng.randrange(1, 9)) for _ in range(6)]
    floats = [Window(rng.random(), rng.randrange(1, 20)) for _ in range(4)]
    ends = [Window(Fraction(1), rng.randrange(1, 9)), Window(1.0, 7), Window(Fraction(0), 2), Window(Fraction(1, 3), 0)]
    return (*exact, *floats, *ends, Window(1 - 1e-10, rng.randrange(2, 9)))


def read_case(*, alpha: Number, gamma: int) -> Window:
    """A case of an instructor's file. ValueError unless alpha is a probability and gamma a count."""
    if not 0 <= alpha <= 1 or not isinstance(gamma, int) or not 0 <= gamma <= 1000:
        raise ValueError(f"alpha is {alpha}, gamma {gamma}; expected a probability and a count")
    return Window(alpha, gamma)


def judge_number(seen: Seen, case: Window) -> str | None:
    """The sum of alpha^i for i = 1..gamma."""
    found = read_number(seen.value, "the returned number")
    slack = 1e-9 * (1 + case.gamma) if isinstance(seen.value, float) or isinstance(case.alpha, float) else 0
    if abs(found - case.wanted) <= slack:
        return None
    terms = " + ".join(f"{number_text(case.alpha)}^{i}" for i in range(1, min(case.gamma, 4) + 1)) or "an empty sum"
    more = " + ..." if case.gamma > 4 else ""
    return (
        f"alpha = {number_text(case.alpha)}, gamma = {case.gamma}: you return {number_text(found)}, must be "
        f"{number_text(case.wanted)} = {terms}{more}"
    )


def is_inner(case: Window) -> bool:
    """alpha away from 1, something drafted."""
    return case.gamma > 0 and case.alpha < Fraction(999, 1000)


def judge_exact(seen: Seen, case: Window) -> str | None:
    """Fractions stay Fractions."""
    if type(seen.value) in (int, Fraction):
        return None
    return f"alpha = {case.alpha}: you return {seen.value!r}; expected the Fraction {case.wanted}"


def read_answer(answer: Any) -> tuple[str, list[float]]:
    """What is counted, and three numbers. Raises Malformed for another form."""
    form = "('accepted' or 'tokens', number for K = 4, for K = 8, for K = 16)"
    entries = read_list(answer, form)
    if len(entries) != 1 + len(GAMMAS) or not isinstance(entries[0], str):
        raise Malformed(f"EXPECTED has another form; expected {form}")
    return entries[0], [float(read_number(entry, "an entry of EXPECTED")) for entry in entries[1:]]


def judge_counted(seen: Seen, case: Any) -> str | None:
    """One of two words."""
    counted, _ = read_answer(seen.value)
    if counted in COUNTS:
        return None
    return f"EXPECTED begins with {counted!r}; say 'accepted' (drafts that were kept) or 'tokens' (what comes out)"


def off(numbers: list[float], extra: int) -> list[int]:
    """The gammas whose number is not the accepted count plus `extra`."""
    return [
        gamma
        for gamma, number in zip(GAMMAS, numbers, strict=True)
        if abs(number - extra - float(expected_accepted(ALPHA, gamma))) > SLACK
    ]


def judge_values(seen: Seen, case: Any) -> str | None:
    """1.7731, 2.1988, 2.3256 accepted, or one more of tokens: one of the two counts for each K."""
    _, numbers = read_answer(seen.value)
    neither = [gamma for gamma in off(numbers, 0) if gamma in off(numbers, 1)]
    if not neither:
        return None
    return f"K = {neither[0]}: you have {numbers[GAMMAS.index(neither[0])]:.4f}, which is neither count at alpha = 0.7"


def judge_agrees(seen: Seen, case: Any) -> str | None:
    """All three numbers are of the kind that is named."""
    counted, numbers = read_answer(seen.value)
    extra = int(counted == "tokens")
    wrong = off(numbers, extra)
    if not wrong:
        return None
    at = numbers[GAMMAS.index(wrong[0])]
    return (
        f"you say {counted!r}, but {at:.4f} for K = {wrong[0]} does not count that; every round emits its accepted "
        "drafts and one token more, recovered or bonus"
    )


ABOUT = "expected_accepted_drafts"
LEVIATHAN = "Leviathan et al. 2211.17192, section 3.1"

TASK = Task(
    id="E05.expected",
    title="how many drafts a round keeps",
    minutes=15,
    difficulty=1,
    asks=(Ask(name=ABOUT, public=public_cases, hidden=hidden_cases, read_case=read_case), value("EXPECTED")),
    properties=(
        Property(
            name="sums_the_survival",
            about=ABOUT,
            what="the mean is alpha + alpha^2 + ... + alpha^gamma",
            why="draft i counts only when all before it were kept, which happens with alpha^i",
            pointer=f"notebook 04, section 2; {LEVIATHAN}",
            judge=judge_number,
            applies=is_inner,
        ),
        Property(
            name="nothing_drafted_nothing_kept",
            about=ABOUT,
            what="gamma = 0 gives 0",
            why="plain decoding is the round without drafts; the formula must meet it there",
            pointer="notebook 04, section 2",
            judge=judge_number,
            applies=lambda case: case.gamma == 0,
        ),
        Property(
            name="right_at_alpha_one",
            about=ABOUT,
            what="alpha = 1 gives gamma, and close to 1 nothing blows up",
            why="alpha (1 - alpha^gamma) / (1 - alpha) is 0/0 there; a draft that equals the target is the first "
            "thing one tries",
            pointer="notebook 04, section 2: the sum and its closed form, which divides by 1 - alpha",
            judge=judge_number,
            applies=lambda case: case.gamma > 0 and case.alpha >= Fraction(999, 1000),
        ),
        Property(
            name="fractions_stay_exact",
            about=ABOUT,
            what="a Fraction alpha gives a Fraction",
            why="exact numbers are compared with ==; one float in a sum and that is over",
            pointer="notebook 03, section 1",
            judge=judge_exact,
            applies=lambda case: isinstance(case.alpha, Fraction),
        ),
        Property(
            name="says_what_it_counts",
            about="EXPECTED",
            what="EXPECTED says whether it counts accepted drafts or tokens",
            why="papers and engines mean either by 'acceptance length'; the two differ by one",
            pointer="docs/counting.md",
            judge=judge_counted,
        ),
        Property(
            name="has_the_values",
            about="EXPECTED",
            what="the numbers for alpha = 0.7 and K = 4, 8, 16 are right to four decimals",
            why="they show how soon longer windows stop paying: 16 drafts keep hardly more than 8",
            pointer="notebook 04, section 2",
            judge=judge_values,
        ),
        Property(
            name="counts_what_it_says",
            about="EXPECTED",
            what="all numbers are of the kind that is named",
            why="counting the bonus as accepted makes predicted speed-ups that never arrive (museum, "
            "bonus_counted_twice)",
            pointer="specdec museum bonus_counted_twice; SafeAILab/EAGLE #146",
            judge=judge_agrees,
        ),
    ),
)
