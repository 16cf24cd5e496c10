"""Task E01.residual: the refusal probability and the residual law, as properties.

They state laws, they compare with no reference: any function that meets them is right.
"""

from fractions import Fraction

from specdec_labs.grade.exact import FLOAT_SLACK, number_text, read_number
from specdec_labs.grade.task import Ask, Property, Seen, Task
from specdec_labs.grade.tasks.e01_cases import (
    Pair,
    describe,
    different,
    equal,
    exact_different,
    exact_several,
    float_different,
    hidden_cases,
    public_cases,
    read_pair,
)
from specdec_labs.grade.tasks.e01_mistakes import RECOGNISERS

LEVIATHAN = "Leviathan et al. 2211.17192"


def judge_beta(seen: Seen, pair: Pair) -> str | None:
    """beta = 1 - sum min(p, q)."""
    value = seen.value
    beta = read_number(value, "the returned probability")
    # 1 - sum(min(p, q)) is a right answer too; in floats the two forms differ in the last bits.
    loose = not pair.exact or issubclass(type(value), float)
    if abs(beta - pair.beta) <= (FLOAT_SLACK if loose else 0):
        return None
    return describe(
        pair,
        f"you return {number_text(beta)}; the kept mass sum(min(p, q)) is {number_text(sum(pair.kept, Fraction(0)))}",
        **{"min(p, q)": pair.kept, "max(p - q, 0)": pair.excess},
    )


def judge_law(seen: Seen, pair: Pair) -> str | None:
    """No entry below zero, total one."""
    law = pair.law(seen)
    for token, value in zip(pair.tokens, law.values, strict=True):
        if value < 0:
            return describe(pair, f"{token!r} gets the negative mass {number_text(value)}", yours=law.values)
    total = sum(law.values, Fraction(0))
    if law.same(total, Fraction(1)):
        return None
    return describe(pair, f"your masses sum to {number_text(total)}, not to 1", yours=law.values)


def judge_support(seen: Seen, pair: Pair) -> str | None:
    """Positive exactly where p > q."""
    law = pair.law(seen)
    for token, value, excess in zip(pair.tokens, law.values, pair.excess, strict=True):
        has_mass = not law.same(value, Fraction(0))
        if has_mass != (excess > 0):
            got, reason = ("no mass", "p > q") if excess > 0 else (f"mass {number_text(value)}", "p <= q")
            return describe(pair, f"{token!r} gets {got} although {reason} there", yours=law.values)
    return None


def judge_proportions(seen: Seen, pair: Pair) -> str | None:
    """Among the tokens with p > q, masses relate as p - q does."""
    law = pair.law(seen)
    total = sum((value for value, excess in zip(law.values, pair.excess, strict=True) if excess), Fraction(0))
    wanted = tuple(excess / pair.beta for excess in pair.excess)
    for token, value, share in zip(pair.tokens, law.values, wanted, strict=True):
        if share and (total == 0 or not law.same(value / total, share)):
            claim = f"{token!r} has {number_text(share)} of the missing mass, you give it another share"
            return describe(pair, claim, **{"p - q > 0": pair.excess, "yours": law.values, "must be": wanted})
    return None


def judge_recovery(seen: Seen, pair: Pair) -> str | None:
    """min(p, q) + beta * residual = p."""
    law = pair.law(seen)
    redrawn = tuple(pair.beta * value for value in law.values)
    output = tuple(kept + redraw for kept, redraw in zip(pair.kept, redrawn, strict=True))
    for token, got, p in zip(pair.tokens, output, pair.p, strict=True):
        if not law.same(got, Fraction(p)):
            columns = {"kept": pair.kept, "beta * yours": redrawn, "comes out": output, "must be": pair.p}
            return describe(pair, f"{token!r} comes out with {number_text(got)} instead of {number_text(p)}", **columns)
    return None


def judge_fallback(seen: Seen, pair: Pair) -> str | None:
    """p = q gives p."""
    law = pair.law(seen)
    if all(law.same(value, Fraction(p)) for value, p in zip(law.values, pair.p, strict=True)):
        return None
    return describe(pair, "p = q leaves nothing to redraw from; the documented answer is p", yours=law.values)


def judge_inputs(seen: Seen, pair: Pair) -> str | None:
    """The argument lists hold what they held."""
    pair.law(seen)
    name = pair.changed(seen)
    if not name:
        return None
    after = seen.after["pq".index(name)]
    columns = {f"{name} after": after} if len(after) == len(pair.p) else {}
    return describe(pair, f"your function changed its argument {name}", **columns)


def judge_exactness(seen: Seen, pair: Pair) -> str | None:
    """Fractions in, Fractions (or ints) out."""
    law = pair.law(seen)
    if not law.has_floats:
        return None
    return describe(pair, "p and q are Fractions, but you return floats", yours=tuple(map(float, law.values)))


def judge_floats(seen: Seen, pair: Pair) -> str | None:
    """On floats: the same law within 1e-9."""
    law = pair.law(seen)
    wanted = tuple(excess / pair.beta for excess in pair.excess)
    for token, value, share in zip(pair.tokens, law.values, wanted, strict=True):
        if abs(value - share) > FLOAT_SLACK:
            claim = f"{token!r} gets {number_text(value)}, off by more than 1e-9"
            return describe(pair, claim, yours=law.values, **{"must be": wanted})
    return None


PROPERTIES = (
    Property(
        name="beta_is_the_refused_mass",
        about="rejection_probability",
        what="rejection_probability(p, q) is the mass that min(p, q) leaves out",
        why="a draft x ~ q is kept with probability min(1, p(x)/q(x)), so min(p, q) is kept and the rest is refused",
        pointer=f"{LEVIATHAN}, section 3.2 (beta there is the probability to accept)",
        judge=judge_beta,
    ),
    Property(
        name="is_a_law",
        about="residual",
        what="the residual has no negative entry and sums to exactly 1",
        why="a refused round emits one token; with a sum below 1 a running-sum draw finds none at times",
        pointer=f"{LEVIATHAN}, section 2.3: norm(max(0, p - q))",
        judge=judge_law,
        applies=exact_different,
    ),
    Property(
        name="support_is_where_p_exceeds_q",
        about="residual",
        what="exactly the tokens with p > q have mass",
        why="a token with p <= q already came out often enough as an accepted draft; one with p > q comes out "
        "too rarely",
        pointer="notebook 02, section 3: a token with p < q is never redrawn",
        judge=judge_support,
        applies=exact_different,
    ),
    Property(
        name="proportional_to_excess",
        about="residual",
        what="among the tokens with p > q the masses relate as p - q does",
        why="each token must be topped up by what it misses, no more and no less",
        pointer="try it: p = [1/2, 3/10, 1/5], q one-hot on the first gives [0, 3/5, 2/5]",
        judge=judge_proportions,
        applies=exact_several,
    ),
    Property(
        name="recovers_the_target",
        about="residual",
        what="min(p, q) + beta * residual equals p, token by token",
        why="this is the theorem: what is kept plus what is redrawn is p, so speculation changes no probability",
        pointer=f"notebook 02, section 3; {LEVIATHAN}, appendix A.1",
        judge=judge_recovery,
        applies=exact_different,
    ),
    Property(
        name="equal_laws_fall_back_to_p",
        about="residual",
        what="residual(p, p) is p, never 0/0",
        why="with p = q no draft is refused, yet a batch computes the row anyway; one NaN in it spoils the whole batch",
        pointer="notebook 02, section 3: it is a law, and what happens when beta = 0",
        judge=judge_fallback,
        applies=equal,
    ),
    Property(
        name="leaves_inputs_alone",
        about="residual",
        what="p and q are unchanged after the call",
        why="the same p row is read again for the bonus token and the trace; changed in place it is another law",
        pointer="specdec museum q_in_another_dtype: the q that judges must be the q that was drawn from",
        judge=judge_inputs,
        applies=different,
    ),
    Property(
        name="fractions_stay_exact",
        about="residual",
        what="Fractions in, Fractions out",
        why="the proof of losslessness enumerates your function in exact arithmetic; one float and `==` means nothing",
        pointer="the output law of the course's verifier is compared with ==, not with a tolerance",
        judge=judge_exactness,
        applies=exact_different,
    ),
    Property(
        name="works_on_floats_too",
        about="residual",
        what="the same function is right on floats, nearly equal laws included",
        why="engines run on floats, and a good draft makes p and q nearly equal: beta is tiny and cancellation eats it",
        pointer="docs/numerics.md",
        judge=judge_floats,
        applies=float_different,
    ),
)

TASK = Task(
    id="E01.residual",
    title="how often a draft is refused, and what is drawn then",
    minutes=20,
    difficulty=1,
    asks=tuple(
        Ask(name=name, public=public_cases, hidden=hidden_cases, read_case=read_pair)
        for name in ("rejection_probability", "residual")
    ),
    properties=PROPERTIES,
    recognisers=RECOGNISERS,
)
