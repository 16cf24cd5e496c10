"""Tasks E05.best_gamma and E05.break_even: the window that gains most, and the alpha below which none gains."""

from collections.abc import Sequence
from fractions import Fraction
import random
from typing import Any

from specdec_core.speed_formulas import best_gamma, expected_tokens, speedup
from specdec_labs.grade.exact import Number, number_text, read_whole
from specdec_labs.grade.task import Ask, Property, Seen, Task, value
from specdec_labs.grade.tasks.formula import Call, call, is_number, tagged

BEST = "best_window"
EVEN = "break_even_alpha"
LEVIATHAN = "Leviathan et al. 2211.17192, theorem 3.8"


def a_window(alpha: Number, cost: Number, largest: int) -> Call:
    """alpha, c and the largest window to look at."""
    wanted = best_gamma(alpha, cost, largest=largest)
    free = best_gamma(float(alpha), float(cost), largest=200)
    kind = "plain" if wanted == 0 else "bound" if wanted == largest < free else "inner"
    return call(alpha, cost, largest, wanted=wanted, tags=[kind])


def windows() -> Sequence[Call]:
    """Small ones, drafts that never pay, windows that are cut, and the seeds' alpha = 0.9, c = 1/20."""
    half = Fraction(1, 2)
    return (
        a_window(half, Fraction(1, 10), 8),
        a_window(half, Fraction(3, 4), 8),
        a_window(Fraction(1, 5), Fraction(1, 5), 8),
        a_window(Fraction(9, 10), Fraction(1, 100), 4),
        a_window(0.8, 0.05, 32),
        a_window(0.9, 0.05, 64),
        a_window(0.7, 0.2, 32),
    )


def fresh_windows(seed: int) -> Sequence[Call]:
    """Random alpha and c of every kind."""
    rng = random.Random(seed)
    cases = [a_window(rng.uniform(0.6, 0.93), rng.uniform(0.01, 0.08), 64) for _ in range(14)]
    plain = [a_window(Fraction(rng.randrange(5, 40), 100), Fraction(rng.randrange(50, 90), 100), 16) for _ in range(2)]
    return (*cases, *plain, a_window(rng.uniform(0.85, 0.99), 0.005, rng.randrange(2, 6)))


def read_window(*, alpha: Number, c: Number, largest: int) -> Call:
    """A case of an instructor's file."""
    return a_window(alpha, c, largest)


def judge_best(seen: Seen, case: Call) -> str | None:
    """No window in 0..largest is faster, and no shorter one as fast."""
    alpha, cost, largest = case.args
    found = read_whole(seen.value, f"best_window({case.shown()})")
    if found == case.wanted:
        return None
    if not 0 <= found <= largest:
        return f"best_window({case.shown()}) returns {found}; expected one of 0..{largest}"
    mine, best = (float(speedup(alpha, gamma, cost)) if gamma else 1.0 for gamma in (found, int(case.wanted or 0)))
    return f"best_window({case.shown()}) returns {found} with speed-up {mine:.4f}; gamma = {case.wanted} has {best:.4f}"


def judge_k(seen: Seen, case: Any) -> str | None:
    """13 for alpha = 0.9, c = 1/20."""
    found = read_whole(seen.value, "BEST_K")
    if found == 13:
        return None
    if not 0 <= found <= 500:
        return f"BEST_K is {found}; that is no window"
    mine = speedup(0.9, found, 0.05) if found else 1.0
    return f"BEST_K is {found}, with speed-up {mine:.4f}; another window has 4.6741 (alpha = 0.9, c = 1/20)"


BEST_GAMMA = Task(
    id="E05.best_gamma",
    title="the window that gains most",
    minutes=15,
    difficulty=2,
    asks=(Ask(name=BEST, public=windows, hidden=fresh_windows, read_case=read_window), value("BEST_K")),
    properties=(
        Property(
            name="finds_the_maximum",
            about=BEST,
            what="no window is faster than the returned one",
            why="a longer window keeps a little more and costs a full draft step more; past the top every step loses",
            pointer=f"notebook 04, section 2; {LEVIATHAN}",
            judge=judge_best,
            applies=tagged("inner"),
        ),
        Property(
            name="says_so_when_plain_wins",
            about=BEST,
            what="where every window is slower than plain decoding the answer is 0",
            why="a poor or dear draft makes decoding slower; the throttle of an engine must be able to say 'off'",
            pointer="notebook 04, section 2: below the break-even speculation is slower",
            judge=judge_best,
            applies=tagged("plain"),
        ),
        Property(
            name="keeps_to_the_largest_window",
            about=BEST,
            what="windows above `largest` are not considered",
            why="the verify pass is measured up to some width only; beyond it the formula promises what no one "
            "measured",
            pointer="notebook 04, section 4: the windows that are timed",
            judge=judge_best,
            applies=tagged("bound"),
        ),
        Property(
            name="knows_the_seeds_example",
            about="BEST_K",
            what="BEST_K is the best window for alpha = 0.9 and a draft 20 times faster than the target",
            why="it is the one number to check a whole derivation against: 4.6741 times, and flat around the top",
            pointer="notebook 04, section 2",
            judge=judge_k,
        ),
    ),
)


def a_break_even(gamma: int, cost: float) -> Call:
    """gamma, c and the alpha at which speed-up is 1, by bisection."""
    if cost > 1:
        return call(gamma, cost, wanted=None, tags=["never"])
    if cost == 0:
        return call(gamma, cost, wanted=0.0, tags=["free"])
    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, gamma) < gamma * cost + 1 else (low, middle)
    return call(gamma, cost, wanted=(low + high) / 2, tags=["single" if gamma == 1 else "root"])


def break_evens() -> Sequence[Call]:
    """One draft (alpha = c), several, free ones, and drafts dearer than the target."""
    return tuple(
        a_break_even(*case)
        for case in ((1, 0.25), (1, 0.5), (2, 0.25), (2, 0.0), (5, 0.05), (8, 0.3), (4, 1.0), (1, 1.5), (5, 2.0))
    )


def fresh_break_evens(seed: int) -> Sequence[Call]:
    """Random ones of every kind."""
    rng = random.Random(seed)
    roots = [(rng.randrange(2, 16), round(rng.uniform(0.01, 0.9), 3)) for _ in range(6)]
    other = [(1, 0.4), (rng.randrange(2, 9), 0.0), (rng.randrange(1, 9), 1.25), (3, 1.0)]
    return tuple(a_break_even(*case) for case in (*roots, *other))


def read_break_even(*, gamma: int, c: float) -> Call:
    """A case of an instructor's file."""
    if gamma < 1 or c < 0:
        raise ValueError("expected gamma of at least 1 and c of at least 0")
    return a_break_even(gamma, float(c))


def judge_even(slack: float):
    """Judge: at the returned alpha the speed-up is 1."""
    number = is_number(EVEN, slack)

    def judge(seen: Seen, case: Call) -> str | None:
        problem = number(seen, case)
        if problem is None or case.wanted is None or not isinstance(seen.value, int | float | Fraction):
            return problem
        gamma, cost = case.args
        if not 0 <= seen.value <= 1:
            return f"{problem}; {number_text(seen.value)} is no probability"
        return f"{problem}; at yours the speed-up is {float(speedup(float(seen.value), gamma, cost)):.6f}, not 1"

    return judge


BREAK_EVEN = Task(
    id="E05.break_even",
    title="the acceptance at which speculation pays",
    minutes=15,
    difficulty=3,
    asks=(Ask(name=EVEN, public=break_evens, hidden=fresh_break_evens, read_case=read_break_even),),
    properties=(
        Property(
            name="one_draft_pays_at_c",
            about=EVEN,
            what="with gamma = 1 the answer is c",
            why="1 + alpha tokens for 1 + c steps: the one case that the head can do, and a check on all others",
            pointer=f"notebook 04, section 2; {LEVIATHAN}",
            judge=judge_even(1e-3),
            applies=tagged("single"),
        ),
        Property(
            name="speed_up_is_one",
            about=EVEN,
            what="for longer windows too, the speed-up at the returned alpha is 1",
            why="below this alpha every token costs more time than without drafts; it rises with gamma",
            pointer="notebook 04, section 2",
            judge=judge_even(1e-3),
            applies=tagged("root"),
        ),
        Property(
            name="is_right_to_nine_digits",
            about=EVEN,
            what="the alpha is right to 1e-9",
            why="a coarse grid looks right in a plot and is off where the contour is steep",
            pointer="a root finder or a bisection of 40 steps",
            judge=judge_even(1e-9),
            applies=tagged("root", "single"),
        ),
        Property(
            name="free_drafts_pay_at_once",
            about=EVEN,
            what="with c = 0 the answer is 0",
            why="prompt lookup costs next to nothing; it cannot lose by this formula",
            pointer="notebook 04, section 4: prompt lookup, whose drafts cost nothing",
            judge=judge_even(1e-9),
            applies=tagged("free"),
        ),
        Property(
            name="none_when_nothing_pays",
            about=EVEN,
            what="with c above 1 the answer is None",
            why="even a draft that is always right then loses; an answer of 1 would promise a break-even that is "
            "not there",
            pointer="notebook 04, section 2: a round emits at most gamma + 1 tokens",
            judge=judge_even(1e-9),
            applies=tagged("never"),
        ),
    ),
)
