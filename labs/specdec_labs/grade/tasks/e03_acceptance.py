"""Tasks E03.acceptance (how often a draft is kept) and E03.valid_law (why the residual is a law)."""

from collections.abc import Sequence
from fractions import Fraction
import random
from typing import Any

from specdec_labs.grade.exact import Malformed, Number
from specdec_labs.grade.task import Ask, Property, Seen, Task, value
from specdec_labs.grade.tasks.formula import Call, call, is_exact, is_number, tagged
from specdec_labs.grade.tasks.slots import random_exact_law

KEEP, MEAN = "keep_probability", "mean_acceptance"
LEVIATHAN = "Leviathan et al. 2211.17192, section 3.2"


def a_draft(p: Sequence[Number], q: Sequence[Number], token: int) -> Call:
    """Two laws and the drafted token."""
    mine, theirs = p[token], q[token]
    wanted = (mine and 1) if theirs == 0 else min(1, mine / theirs)
    if mine == 0:
        tags = ["forbidden"]
    elif theirs == 0:
        tags = ["no q"]
    else:
        tags = ["capped" if mine >= theirs else "ratio"]
    exact = isinstance(mine, Fraction)
    return call(list(p), list(q), token, wanted=wanted, tags=[*tags, "exact" if exact else "float"])


def law(text: str) -> list[Fraction]:
    """A law from a text of fractions."""
    return [Fraction(mass) for mass in text.split()]


def drafts() -> Sequence[Call]:
    """Small ones, a forbidden token, a token that q leaves out, and floats."""
    half, mixed = law("1/2 1/2"), law("1/4 3/4")
    return (
        a_draft(mixed, half, 0),
        a_draft(mixed, half, 1),
        a_draft(half, half, 0),
        a_draft(law("3/5 2/5 0"), law("1/5 3/10 1/2"), 2),
        a_draft(half, law("0 1"), 0),
        a_draft(law("0 1"), law("0 1"), 0),
        a_draft([0.1, 0.9], [0.4, 0.6], 0),
        a_draft([0.0, 1.0], [0.5, 0.5], 0),
    )


def fresh_drafts(seed: int) -> Sequence[Call]:
    """Random laws of every kind."""
    rng = random.Random(seed)
    cases = []
    for size in (2, 3, 4, 5):
        p, q = random_exact_law(rng, size, zeros=False), random_exact_law(rng, size, zeros=False)
        cases += [a_draft(p, q, token) for token in range(size)]
    floats = a_draft([0.25, 0.75], [0.5 + rng.random() / 4, 0.25], 0)
    ends = [a_draft(law(p), law(q), 0) for p, q in (("0 1", "1/3 2/3"), ("1/3 2/3", "0 1"), ("0 1", "0 1"))]
    return (*cases, floats, *ends)


def read_draft(*, p: list[Fraction], q: list[Fraction], token: int) -> Call:
    """A case of an instructor's file."""
    if len(p) != len(q) or not 0 <= int(token) < len(p):
        raise ValueError("expected two laws of one length and a token of theirs")
    return a_draft([Fraction(mass) for mass in p], [Fraction(mass) for mass in q], int(token))


def a_pair(p: Sequence[Number], q: Sequence[Number]) -> Call:
    """Two laws."""
    tags = ["equal" if list(p) == list(q) else "different", "exact" if isinstance(p[0], Fraction) else "float"]
    return call(list(p), list(q), wanted=sum(map(min, p, q)), tags=tags)


def pairs() -> Sequence[Call]:
    """Different laws, disjoint ones, equal ones, floats."""
    return (
        a_pair(law("1/4 3/4"), law("1/2 1/2")),
        a_pair(law("1 0"), law("0 1")),
        a_pair(law("1/2 1/2"), law("1/2 1/2")),
        a_pair(law("1/5 3/10 1/2"), law("1/5 3/10 1/2")),
        a_pair(law("3/5 2/5 0"), law("1/5 3/10 1/2")),
        a_pair([0.6, 0.4, 0.0], [0.2, 0.3, 0.5]),
    )


def fresh_pairs(seed: int) -> Sequence[Call]:
    """Random laws, and equal ones."""
    rng = random.Random(seed)
    exact = [(random_exact_law(rng, size), random_exact_law(rng, size)) for size in (2, 3, 3, 4, 5)]
    different = [a_pair(p, q) for p, q in exact if p != q] + [a_pair(law("1/4 3/4"), law("1/2 1/2"))]
    same = random_exact_law(rng, 4)
    return (*different, a_pair(same, same), a_pair([0.25, 0.75], [0.5, 0.5]))


def read_pair(*, p: list[Fraction], q: list[Fraction]) -> Call:
    """A case of an instructor's file."""
    if len(p) != len(q):
        raise ValueError("expected two laws of one length")
    return a_pair([Fraction(mass) for mass in p], [Fraction(mass) for mass in q])


ACCEPTANCE = Task(
    id="E03.acceptance",
    title="how often a draft is kept",
    minutes=10,
    difficulty=1,
    asks=(
        Ask(name=KEEP, public=drafts, hidden=fresh_drafts, read_case=read_draft),
        Ask(name=MEAN, public=pairs, hidden=fresh_pairs, read_case=read_pair),
    ),
    properties=(
        Property(
            name="keeps_by_the_ratio",
            about=KEEP,
            what="a token that q likes more than p is kept with probability p/q",
            why="q(x) * p(x)/q(x) = p(x): so much of x is wanted and no more",
            pointer=f"notebook 02, section 3; {LEVIATHAN}",
            judge=is_number(KEEP),
            applies=tagged("ratio"),
        ),
        Property(
            name="is_capped_at_one",
            about=KEEP,
            what="a token that p likes at least as much as q is always kept",
            why="a probability above 1 breaks every sum it enters",
            pointer="notebook 02, section 3",
            judge=is_number(KEEP),
            applies=tagged("capped"),
        ),
        Property(
            name="forbidden_tokens_never",
            about=KEEP,
            what="a token with p = 0 is never kept, whatever q says",
            why="top-k or a grammar removed it; once is too often",
            pointer="specdec museum accept_at_equality",
            judge=is_number(KEEP),
            applies=tagged("forbidden"),
        ),
        Property(
            name="no_division_by_zero",
            about=KEEP,
            what="where q = 0 < p the answer is 1",
            why="such a token is not drawn from q, but a batch computes its ratio all the same; u * q < p says yes",
            pointer="notebook 02, section 3",
            judge=is_number(KEEP),
            applies=tagged("no q"),
        ),
        Property(
            name="keep_stays_exact",
            about=KEEP,
            what="Fractions in, a Fraction (or 0, 1) out",
            why="the proof compares with ==; one float and that is over",
            pointer="notebook 03, section 1",
            judge=is_exact(KEEP),
            applies=tagged("exact"),
        ),
        Property(
            name="mean_is_the_overlap",
            about=MEAN,
            what="averaged over x ~ q, a draft is kept with probability sum of min(p, q)",
            why="this is alpha, the number that decides whether speculation pays; it is 1 - TV(p, q)",
            pointer=f"notebook 02, section 3; {LEVIATHAN}",
            judge=is_number(MEAN),
            applies=tagged("different"),
        ),
        Property(
            name="equal_laws_keep_everything",
            about=MEAN,
            what="with p = q it is 1",
            why="a draft that equals the target is never refused; less than 1 here means a wrong average",
            pointer="specdec museum argmax_verify",
            judge=is_number(MEAN),
            applies=tagged("equal"),
        ),
        Property(
            name="mean_stays_exact",
            about=MEAN,
            what="Fractions in, a Fraction (or 0, 1) out",
            why="the proof compares with ==; one float and that is over",
            pointer="notebook 03, section 1",
            judge=is_exact(MEAN),
            applies=tagged("exact"),
        ),
    ),
)

TRUE_STEPS = {"a": "", "b": "", "c": "ab", "d": "b", "e": "cd", "h": ""}
"""The true steps of the statement, and those each one rests on; h is true and not needed."""
FALSE_STEPS = {"f": "p - q sums to 0 over all tokens, not to 1", "g": "Z is 1 - sum of min(p, q), seldom 1"}
DIVIDES, POSITIVE, TOTAL, CLAIM = "b", "ac", "d", "e"


def read_steps(answer: Any) -> list[str]:
    """The letters, in order. Raises Malformed for anything else."""
    entries = list(answer) if isinstance(answer, str) else answer
    if not isinstance(entries, list | tuple) or not entries:
        raise Malformed("PROOF is no text of letters; expected for example 'acb'")
    letters = [entry for entry in entries if isinstance(entry, str) and entry in {**TRUE_STEPS, **FALSE_STEPS}]
    if len(letters) != len(entries) or len(set(letters)) != len(letters):
        raise Malformed(f"PROOF is {answer!r}; expected letters from a to h, each at most once")
    return letters


def judge_true(seen: Seen, case: Any) -> str | None:
    """No step is false."""
    wrong = [step for step in read_steps(seen.value) if step in FALSE_STEPS]
    return f"step {wrong[0]} is not true: {FALSE_STEPS[wrong[0]]}" if wrong else None


def judge_has(needed: str, missing: str):
    """Judge: the steps are there."""

    def judge(seen: Seen, case: Any) -> str | None:
        steps = read_steps(seen.value)
        return None if set(needed) <= set(steps) else missing

    return judge


def judge_order(seen: Seen, case: Any) -> str | None:
    """Every step comes after those it rests on."""
    steps = read_steps(seen.value)
    for place, step in enumerate(steps):
        early = [before for before in TRUE_STEPS.get(step, "") if before in steps[place:]]
        if early and step != CLAIM:
            return f"step {step} rests on step {early[0]}, which comes after it"
    return None


def judge_claim(seen: Seen, case: Any) -> str | None:
    """The claim is the last step."""
    steps = read_steps(seen.value)
    if steps[-1] == CLAIM:
        return None
    return f"your proof ends with step {steps[-1]}; the claim is step {CLAIM}"


VALID_LAW = Task(
    id="E03.valid_law",
    title="prove that the residual is a law",
    minutes=10,
    difficulty=2,
    asks=(value("PROOF"),),
    properties=(
        Property(
            name="every_step_is_true",
            about="PROOF",
            what="no step says something false",
            why="from a false step anything follows, a wrong sampler included",
            pointer="try it: p = (1/4, 3/4), q = (1/2, 1/2)",
            judge=judge_true,
        ),
        Property(
            name="divides_by_something_positive",
            about="PROOF",
            what="Z is shown to be above 0",
            why="with p = q it is 0, and an engine that divides all the same emits NaN",
            pointer="notebook 02, section 3: beta = 0 means p = q",
            judge=judge_has(DIVIDES, "nothing says why Z is not 0"),
        ),
        Property(
            name="nothing_is_negative",
            about="PROOF",
            what="every entry is shown to be at least 0, before and after the division",
            why="a negative mass cannot be drawn from",
            pointer="notebook 02, section 3",
            judge=judge_has(POSITIVE, "nothing says why no entry of max(p - q, 0) / Z is negative"),
        ),
        Property(
            name="total_is_one",
            about="PROOF",
            what="the entries are shown to sum to 1",
            why="with a sum below 1 a running-sum draw finds no token at times",
            pointer="notebook 02, section 3",
            judge=judge_has(TOTAL, "nothing says why the entries sum to 1"),
        ),
        Property(
            name="premises_come_first",
            about="PROOF",
            what="each step comes after those it rests on",
            why="that is what makes a list of true sentences a proof",
            pointer="which steps speak of Z, and which of them says that one may divide by it?",
            judge=judge_order,
        ),
        Property(
            name="ends_with_the_claim",
            about="PROOF",
            what="the last step is the claim",
            why="a proof that stops early has not shown it, one that goes on has not noticed",
            pointer="the statement's last line",
            judge=judge_claim,
        ),
    ),
)
