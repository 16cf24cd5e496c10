"""Cases and judges for tasks whose answer is a number."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from specdec_labs.grade.exact import Number, number_text, read_number
from specdec_labs.grade.task import Seen

Judge = Callable[[Seen, Any], str | None]


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments, the number that must come out (None where no number is the answer), and what the case is for."""

    args: tuple[Any, ...]
    wanted: Number | None
    tags: frozenset[str] = frozenset()

    def arguments(self) -> list[Any]:
        """As the learner's function gets them; lists are copied."""
        return [list(value) if isinstance(value, list) else value for value in self.args]

    def shown(self) -> str:
        """The arguments in words."""
        return ", ".join(_shown(value) for value in self.args)


def call(*args: Any, wanted: Number | None, tags: Collection[str] = ()) -> Call:
    """A `Call`."""
    return Call(args, wanted, frozenset(tags))


def tagged(*tags: str) -> Callable[[Call], bool]:
    """Picks the cases that carry one of the tags."""
    return lambda case: bool(case.tags & set(tags))


def is_number(name: str, slack: float = 0.0) -> Judge:
    """Judge: the function returns the wanted number, to a relative slack; exact without one unless a float came."""

    def judge(seen: Seen, case: Call) -> str | None:
        if case.wanted is None:
            if seen.value is None:
                return None
            return f"{name}({case.shown()}) has no answer: return None"
        found = read_number(seen.value, f"{name}({case.shown()})", largest=10**30)
        wanted = Fraction(case.wanted)
        loose = slack or (1e-9 if isinstance(seen.value, float) or isinstance(case.wanted, float) else 0)
        # tiny numbers (seconds) are compared by their own size, all others to the last digits that count
        scale = abs(wanted) if 0 < abs(wanted) < Fraction(1, 1000) else max(abs(wanted), 1)
        if abs(found - wanted) <= Fraction(loose) * scale:
            return None
        return f"{name}({case.shown()}) returns {number_text(found)}, must be {number_text(case.wanted)}"

    return judge


def is_exact(name: str) -> Judge:
    """Judge: Fractions in, a Fraction (or int) out."""

    def judge(seen: Seen, case: Call) -> str | None:
        if type(seen.value) in (int, Fraction) or case.wanted is None:
            return None
        return f"{name}({case.shown()}) returns {seen.value!r}; expected the Fraction {case.wanted}"

    return judge


def is_value(name: str, wanted: Any, says: Callable[[Any], str]) -> Judge:
    """Judge of a value: `wanted`, else `says(value)`."""

    def judge(seen: Seen, case: Any) -> str | None:
        return None if type(seen.value) is type(wanted) and seen.value == wanted else f"{name}: {says(seen.value)}"

    return judge


def _shown(value: Any) -> str:
    if isinstance(value, int | float | Fraction) and not isinstance(value, bool):
        return number_text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)
