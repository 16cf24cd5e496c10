"""Tasks E04.enumerate (the output law of one draft) and E04.power (how many samples a certificate needs)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
import random
from typing import Any

from specdec_core.residual import residual
from specdec_labs.grade.exact import number_text, read_law, read_whole, token_table
from specdec_labs.grade.plain import Shared
from specdec_labs.grade.rounds import WORDS
from specdec_labs.grade.task import Ask, Property, Seen, Task
from specdec_labs.grade.tasks.formula import Call, call, tagged
from specdec_labs.grade.tasks.slots import ExactLaw, random_exact_law

LAW, SAMPLES = "law_of_one_draft", "samples_for_power"

Keep = Callable[[Any, Any, int], Fraction]
Redraw = Callable[[Any, Any, int], Sequence[Fraction]]


@dataclass(frozen=True, slots=True)
class OneDraft:
    """Laws, a way to keep a draft, and a law to redraw from; `kind` is what the case is for."""

    p: ExactLaw
    q: ExactLaw
    keep: Keep
    redraw: Redraw
    kind: str

    def arguments(self) -> list[Any]:
        """p, q and the two functions, which the learner's code may call."""
        return [list(self.p), list(self.q), Shared(self.keep), Shared(self.redraw)]

    @property
    def wanted(self) -> list[Fraction]:
        """The law of the token that comes out, token by token."""
        law = [q * self.keep(self.p, self.q, x) for x, q in enumerate(self.q)]
        for x, q in enumerate(self.q):
            refused = q * (1 - self.keep(self.p, self.q, x)) if q else Fraction(0)
            if refused:
                law = [mass + refused * more for mass, more in zip(law, self.redraw(self.p, self.q, x), strict=True)]
        return law


def by_ratio(p: Any, q: Any, token: int) -> Fraction:
    """min(1, p/q)."""
    return min(Fraction(1), Fraction(p[token]) / q[token]) if q[token] else Fraction(p[token] > 0)


def never(p: Any, q: Any, token: int) -> Fraction:
    """No draft is kept."""
    return Fraction(0)


def if_likelier(p: Any, q: Any, token: int) -> Fraction:
    """Kept for sure where p >= q, else never."""
    return Fraction(p[token] >= q[token])


def from_residual(p: Any, q: Any, token: int) -> Sequence[Fraction]:
    """max(p - q, 0), normalised."""
    return residual(list(map(Fraction, p)), list(map(Fraction, q)))


def from_p(p: Any, q: Any, token: int) -> Sequence[Fraction]:
    """p itself."""
    return list(p)


def from_p_without(p: Any, q: Any, token: int) -> Sequence[Fraction]:
    """p without the refused token, normalised; p when nothing is left."""
    rest = [Fraction(0) if x == token else Fraction(mass) for x, mass in enumerate(p)]
    total = sum(rest)
    return [mass / total for mass in rest] if total else list(p)


WAYS: tuple[tuple[Keep, Redraw, str], ...] = (
    (by_ratio, from_residual, "right"),
    (by_ratio, from_p, "wrong"),
    (never, from_p, "never"),
    (if_likelier, from_residual, "wrong"),
    (if_likelier, from_p_without, "by token"),
)


def one_drafts() -> Sequence[OneDraft]:
    """Each way on a small pair of laws, then on three tokens."""
    texts = (("1/4 3/4", "1/2 1/2"), ("3/5 2/5 0", "1/5 3/10 1/2"), ("1/10 2/5 1/2", "3/5 1/5 1/5"))
    return [
        OneDraft(tuple(map(Fraction, p.split())), tuple(map(Fraction, q.split())), *way)
        for p, q in texts
        for way in WAYS
    ]


def fresh_one_drafts(seed: int) -> Sequence[OneDraft]:
    """Each way on random laws."""
    rng = random.Random(seed)
    cases = []
    for size in (2, 3, 4):
        p, q = random_exact_law(rng, size, zeros=False), random_exact_law(rng, size, zeros=False)
        while p == q:
            q = random_exact_law(rng, size, zeros=False)
        cases += [OneDraft(p, q, *way) for way in WAYS]
    return cases


def read_one_draft(*, p: list[Fraction], q: list[Fraction], way: int) -> OneDraft:
    """A case of an instructor's file: two laws, and which of the five ways to keep and redraw."""
    if len(p) != len(q) or not 0 <= int(way) < len(WAYS):
        raise ValueError(f"expected two laws of one length and a way of 0..{len(WAYS) - 1}")
    return OneDraft(tuple(map(Fraction, p)), tuple(map(Fraction, q)), *WAYS[int(way)])


def judge_law(seen: Seen, case: OneDraft) -> str | None:
    """The returned law is the output law."""
    tokens = WORDS[: len(case.p)]
    law = read_law(seen.value, tokens)
    if all(law.same(value, mass) for value, mass in zip(law.values, case.wanted, strict=True)):
        return None
    keep = [case.keep(case.p, case.q, token) for token in range(len(case.p))]
    table = token_table(tokens, {"p": case.p, "q": case.q, "keep": keep, "yours": law.values, "must be": case.wanted})
    first = case.redraw(case.p, case.q, 0)
    return f"the law is another one\n{table}\nredraw after {tokens[0]!r}: {', '.join(map(number_text, first))}"


def judge_total(seen: Seen, case: OneDraft) -> str | None:
    """It sums to 1."""
    law = read_law(seen.value, WORDS[: len(case.p)])
    total = sum(law.values, Fraction(0))
    return (
        None
        if law.same(total, Fraction(1))
        else f"your law sums to {number_text(total)}: a way out is missing or double"
    )


def judge_exact_law(seen: Seen, case: OneDraft) -> str | None:
    """Fractions come out."""
    law = read_law(seen.value, WORDS[: len(case.p)])
    return "p, q and both functions are exact, but you return floats" if law.has_floats else None


def of_kind(*kinds: str) -> Callable[[OneDraft], bool]:
    """Picks the cases of these kinds."""
    return lambda case: case.kind in kinds


ENUMERATE = Task(
    id="E04.enumerate",
    title="enumerate the output law of one draft",
    minutes=20,
    difficulty=2,
    asks=(Ask(name=LAW, public=one_drafts, hidden=fresh_one_drafts, read_case=read_one_draft),),
    properties=(
        Property(
            name="is_a_law",
            about=LAW,
            what="every way a round can go is counted once: the law sums to 1",
            why="a branch that is lost or counted twice makes a proof of nothing",
            pointer="notebook 03, section 1",
            judge=judge_total,
        ),
        Property(
            name="the_right_rule_gives_p",
            about=LAW,
            what="with min(1, p/q) and the residual the law that comes out is p, by ==",
            why="this is the theorem, as a computation",
            pointer="notebook 03, section 3; docs/rules.md",
            judge=judge_law,
            applies=of_kind("right"),
        ),
        Property(
            name="wrong_rules_are_seen",
            about=LAW,
            what="with other ways to keep or redraw the law is the one they give, not p",
            why="an enumerator that says p to everything proves everything",
            pointer="notebook 03, section 5",
            judge=judge_law,
            applies=of_kind("wrong", "never"),
        ),
        Property(
            name="redraws_by_the_refused_token",
            about=LAW,
            what="where the redraw depends on which token was refused, each gets its own",
            why="deterministic drafts and trees redraw so; an average over refusals hides it",
            pointer="specdec museum duplicate_siblings",
            judge=judge_law,
            applies=of_kind("by token"),
        ),
        Property(
            name="stays_exact",
            about=LAW,
            what="Fractions in, Fractions out",
            why="lossless is ==; with floats it is 'nearly'",
            pointer="notebook 03, section 3",
            judge=judge_exact_law,
        ),
    ),
)


def reached(n: int, degrees: int, bias: float, level: float) -> float:
    """`specdec_core.goodness.power`, by scipy.special: scipy.stats takes seconds to import."""
    from scipy import special

    return float(1 - special.chndtr(special.chdtri(degrees, level), degrees, 4 * n * bias**2))


def a_plan(degrees: int, bias: float, level: float, wanted: float) -> Call:
    """One certificate: degrees of freedom, distance to be caught, false-alarm level, power."""
    return call(degrees, bias, level, wanted, wanted=None, tags=["plan"])


def plans() -> Sequence[Call]:
    """Few and many cells, coarse and fine bias, several levels and powers."""
    return (
        a_plan(1, 0.2, 0.05, 0.8),
        a_plan(3, 0.1, 0.01, 0.9),
        a_plan(10, 0.1, 0.001, 0.99),
        a_plan(39, 0.06, 0.001, 0.99),
    )


def fresh_plans(seed: int) -> Sequence[Call]:
    """Random ones."""
    rng = random.Random(seed)
    return [
        a_plan(rng.randrange(1, 40), rng.uniform(0.04, 0.25), rng.choice((0.05, 0.01, 1e-3)), rng.uniform(0.75, 0.99))
        for _ in range(5)
    ]


def read_plan(*, degrees: int, bias: float, level: float, power: float) -> Call:
    """A case of an instructor's file."""
    if degrees < 1 or not all(0 < number < 1 for number in (bias, level, power)):
        raise ValueError("expected degrees of at least 1, and bias, level and power between 0 and 1")
    return a_plan(degrees, bias, level, power)


def judge_whole(seen: Seen, case: Call) -> str | None:
    """A count."""
    n = read_whole(seen.value, f"{SAMPLES}({case.shown()})")
    return (
        None
        if n >= 1 and not isinstance(seen.value, float)
        else f"{SAMPLES}({case.shown()}) returns {seen.value!r}; expected an int"
    )


def judge_power(seen: Seen, case: Call) -> str | None:
    """The power is reached."""
    n = read_whole(seen.value, f"{SAMPLES}({case.shown()})")
    if n < 1:
        return f"{SAMPLES}({case.shown()}) returns {n}"
    found = reached(n, *case.args[:3])
    if found >= case.args[3] - 1e-6:
        return None
    return f"{SAMPLES}({case.shown()}) returns {n}: the power is then {found:.4f}, asked for is {case.args[3]:.4g}"


def judge_thrift(seen: Seen, case: Call) -> str | None:
    """No more than needed, to 2 %."""
    n = read_whole(seen.value, f"{SAMPLES}({case.shown()})")
    fewer = int(n / 1.02) - 1
    if fewer < 1 or reached(fewer, *case.args[:3]) < case.args[3]:
        return None
    have = reached(fewer, *case.args[:3])
    return f"{SAMPLES}({case.shown()}) returns {n}; {fewer} samples have the power {have:.4f} already"


POWER = Task(
    id="E04.power",
    title="how many samples a certificate needs",
    minutes=20,
    difficulty=3,
    asks=(Ask(name=SAMPLES, public=plans, hidden=fresh_plans, read_case=read_plan),),
    properties=(
        Property(
            name="is_a_count",
            about=SAMPLES,
            what="the answer is an int of at least 1",
            why="half a sample cannot be drawn",
            pointer="round up at the end, not before",
            judge=judge_whole,
            applies=tagged("plan"),
        ),
        Property(
            name="reaches_the_power",
            about=SAMPLES,
            what="with n samples a law at distance `bias` is caught with probability of at least `power`",
            why="a certificate without power says 'nothing found' about anything",
            pointer="notebook 03, section 4; docs/certificate.md",
            judge=judge_power,
            applies=tagged("plan"),
        ),
        Property(
            name="asks_for_no_more",
            about=SAMPLES,
            what="2 % fewer samples would not do",
            why="every sample is a text of the real engine; ten times too many is an afternoon",
            pointer="n grows with 1 / bias^2",
            judge=judge_thrift,
            applies=tagged("plan"),
        ),
    ),
)
