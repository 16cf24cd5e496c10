"""The coin editor's numbers: one decision by the real rule, the exact law of its output, and samples of it.

The settings a page sends are strings and numbers; everything else is computed here, with the functions that the
engine and the museum run. Nothing is re-derived.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from specdec_core.residual import acceptance, residual
from specdec_labs.museum.decoding import Laws, fixed_law
from specdec_labs.widgets.coin.bugs import BUGS, RIGHT, bug_names
from specdec_labs.widgets.coin.decision import decide
from specdec_labs.widgets.coin.samples import MAX_ROUNDS, first_token_law, sampled

Masses = tuple[Fraction, ...]
DEFAULTS: dict[str, Any] = {
    "names": ["cat", "dog", "bee"],
    "p": ["6/10", "4/10", "0"],
    "q": ["2/10", "3/10", "5/10"],
    "bug": RIGHT,
    "drafted": 1,
    "u": 0.5,
    "v": 0.5,
    "rounds": 0,
}


def view_model(settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the editor shows for `settings` (missing ones as in `DEFAULTS`), ready for `json.dumps`.

    Fractions are strings such as "3/10", with a float beside them where something is drawn. `p` and `q` are divided
    by their sums, so whole weights will do. `rows` has one entry a token: p, q, kept = min(p, q), residual, law
    (of the emitted token under the chosen code) and gap = law - p. `tv` is half the sum of the gaps' sizes.

    Raises:
        ValueError: laws that cannot be read or that differ in length, an unknown bug or token, numbers out of range.
    """
    chosen = _checked({**DEFAULTS, **(settings or {})})
    names, p, q, bug = chosen["names"], chosen["p"], chosen["q"], chosen["bug"]
    law = _law_of_output(p, q, bug)
    gaps = [law[token] - p[token] for token in range(len(p))]
    tv = sum((abs(gap) for gap in gaps), Fraction(0)) / 2
    rest = residual(p, q)
    rows = [
        {
            "name": names[token],
            "p": _number(p[token]),
            "q": _number(q[token]),
            "kept": _number(min(p[token], q[token])),
            "residual": _number(rest[token]),
            "law": _number(law[token]),
            "gap": _number(gaps[token]),
        }
        for token in range(len(p))
    ]
    return {
        "version": 1,
        "bug": bug,
        "bugs": bug_names(),
        "about": BUGS[bug].about,
        "drafted": chosen["drafted"],
        "u": chosen["u"],
        "v": chosen["v"],
        "rounds": chosen["rounds"],
        "rows": rows,
        "acceptance": _number(Fraction(acceptance(p, q))),
        "tv": _number(tv),
        "decision": decide(_laws(p, q), BUGS[bug].make, names, chosen["drafted"], chosen["u"], chosen["v"]),
        "sampled": sampled(p, q, bug, chosen["rounds"]),
        "verdict": _verdict(bug, tv),
        "problem": "",
    }


@lru_cache(maxsize=64)
def _laws(p: Masses, q: Masses) -> Laws:
    return Laws(fixed_law(*p), fixed_law(*q))


def _law_of_output(p: Masses, q: Masses, bug: str) -> Masses:
    try:
        return first_token_law(p, q, bug)
    except ZeroDivisionError:
        raise ValueError(
            f"with these laws the code {BUGS[bug].title!r} has nothing to draw from; give q mass on another token"
        ) from None


def _verdict(bug: str, tv: Fraction) -> str:
    if tv == 0:
        return (
            "The output law is p, exactly, whatever q is."
            if bug == RIGHT
            else "With these laws the mistake does not show: the output law is p. Change p or q until it does."
        )
    return f"The output law is not p: total variation distance {tv} = {float(tv):.4f}."


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    names = [str(name)[:20] for name in settings["names"]]
    p, q = (_law(name, settings[name]) for name in ("p", "q"))
    if not len(names) == len(p) == len(q) or not 2 <= len(p) <= 6:
        raise ValueError(
            f"names, p and q have {len(names)}, {len(p)} and {len(q)} entries; expected the same number, 2 to 6"
        )
    if settings["bug"] not in BUGS:
        raise ValueError(f"bug is {settings['bug']!r}; expected one of {', '.join(BUGS)}")
    drafted = settings["drafted"]
    if drafted not in range(len(p)):
        raise ValueError(f"drafted is {drafted!r}; expected a token, 0 to {len(p) - 1}")
    for name in ("u", "v"):
        if not isinstance(settings[name], float | int) or not 0 <= settings[name] < 1:
            raise ValueError(f"{name} is {settings[name]!r}; a uniform lies in [0, 1)")
    rounds = settings["rounds"]
    if not isinstance(rounds, int) or not 0 <= rounds <= MAX_ROUNDS:
        raise ValueError(f"rounds is {rounds!r}; expected a whole number, 0 to {MAX_ROUNDS}")
    return {**settings, "names": names, "p": p, "q": q, "u": float(settings["u"]), "v": float(settings["v"])}


def _law(name: str, entries: Sequence[Any]) -> Masses:
    masses = []
    for place, entry in enumerate(entries):
        text = str(entry).strip()
        try:
            mass = Fraction(text) if len(text) <= 16 else None
        except (ValueError, ZeroDivisionError):
            mass = None
        if mass is None or mass < 0 or mass.denominator > 10**6 or mass > 10**6:
            raise ValueError(f"{name}[{place}] is {text[:20]!r}; expected a fraction, a decimal or a whole weight >= 0")
        masses.append(mass)
    total = sum(masses)
    if total == 0:
        raise ValueError(f"{name} is all zero; give at least one token a weight")
    return tuple(mass / total for mass in masses)


def _number(value: Fraction) -> dict[str, Any]:
    return {"exact": str(value), "value": float(value)}
