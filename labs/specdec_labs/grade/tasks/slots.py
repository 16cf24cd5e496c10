"""One slot of a text under enumeration: drafts for it, a learner's judgement, and the token that comes out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
import random
from typing import Any, Literal

from specdec_core.coins import Coins
from specdec_core.residual import without
from specdec_labs.grade.access import Here
from specdec_labs.grade.exact import Malformed, number_text, read_law, read_list, type_name
from specdec_labs.grade.plain import Shared
from specdec_labs.grade.rounds import WORDS, Rounds, enumerate_rounds, gap, read_token, rows_table, unasked
from specdec_labs.grade.task import Seen

Drawn = Literal["one", "none", "iid", "without", "given"]
ExactLaw = tuple[Fraction, ...]
SlotFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """Laws of one slot and how its drafts are made.

    Attributes:
        p, q: the target's law and the draft's (empty where the drafts are given).
        drawn: "one" token of q, "none" (the function drafts by itself), "iid" or "without" replacement, or "given".
        count: drafts that are drawn.
        children: the drafts that are given.
        least: a threshold, where the function takes one.
    """

    p: ExactLaw
    q: ExactLaw = ()
    drawn: Drawn = "one"
    count: int = 1
    children: tuple[int, ...] = ()
    least: Fraction | None = None

    def draw(self, coins: Coins) -> tuple[int, ...]:
        """The drafts."""
        if self.drawn in ("none", "given"):
            return self.children
        drafts: tuple[int, ...] = ()
        law: Sequence[Fraction] | None = self.q
        for node in range(self.count):
            if law is None:
                break
            drafts += (coins.draw(law, node=node, purpose="draft"),)
            law = without(law, drafts[-1]) if self.drawn == "without" else law
        return drafts

    def arguments_for(self, drafted: tuple[int, ...], coins: Shared) -> list[Any]:
        """p, q (unless the drafts are given), the drafts or the threshold, coins."""
        own: list[Any] = [list(self.p)]
        own += [list(self.q)] if self.q else []
        own += [drafted[0]] if self.drawn == "one" else [] if self.drawn == "none" else [list(drafted)]
        own += [self.least] if self.least is not None else []
        return [*own, coins]

    def read(self, drafted: tuple[int, ...], answer: Any) -> tuple[int | None, int]:
        """(which draft was accepted or None, the token)."""
        many = self.drawn in ("iid", "without", "given")
        form = "(index of the accepted child or None, token)" if many else "(accepted, token)"
        entries = read_list(answer, f"two entries: {form}")
        if len(entries) != 2:
            raise Malformed(f"your answer has {len(entries)} entries; expected {form}")
        token = read_token(entries[1], len(self.p), "the token")
        if many:
            return self._accepted_child(entries[0], drafted, token), token
        if type(entries[0]) is not bool:
            raise Malformed(f"the first entry is {type_name(entries[0])}; expected True when the draft was accepted")
        if entries[0] and drafted and drafted[0] != token:
            raise Malformed(f"the draft {WORDS[drafted[0]]!r} counts as accepted, but {WORDS[token]!r} came out")
        return 0 if entries[0] else None, token

    def _accepted_child(self, entry: Any, drafted: tuple[int, ...], token: int) -> int | None:
        if entry is None:
            return None
        if type(entry) is not int or not 0 <= entry < len(drafted):
            raise Malformed(
                f"the first entry is {entry!r}; expected None or the index of one of {len(drafted)} children"
            )
        if drafted[entry] != token:
            raise Malformed(
                f"child {entry} ({WORDS[drafted[entry]]!r}) counts as accepted, but {WORDS[token]!r} came out"
            )
        return entry

    def law(self) -> dict[tuple[int, ...], Fraction]:
        """The target's law of the token."""
        return {(token,): mass for token, mass in enumerate(self.p) if mass}

    def size(self) -> tuple[int, int, int]:
        """Tokens, largest denominator, children: what 'smallest' goes by."""
        masses = [*self.p, *self.q] + ([self.least] if self.least is not None else [])
        return len(self.p), max(mass.denominator for mass in masses), len(self.children)

    def table(self) -> str:
        """The laws, and what else the function is given."""
        rows = [("p", self.p)] + ([("q", self.q)] if self.q else [])
        text = rows_table(rows)
        if self.children:
            text += f"\nchildren: {', '.join(WORDS[child] for child in self.children)}"
        return text if self.least is None else f"{text}\nleast: {self.least}"


def slot(p: str, q: str = "", **more: Any) -> Slot:
    """A slot from two texts of fractions."""
    return Slot(tuple(map(Fraction, p.split())), tuple(map(Fraction, q.split())), **more)


def random_slots(seed: int, like: Slot, sizes: Sequence[int], *, same_somewhere: bool = True) -> list[Slot]:
    """Fresh slots made as `like`; one with p = q among them."""
    rng = random.Random(seed)
    found = []
    for size in sizes:
        p, q = random_exact_law(rng, size, zeros=False), random_exact_law(rng, size, zeros=False)
        children = tuple(rng.randrange(size) for _ in like.children)
        found.append(replace(like, p=p, q=q if like.q else (), children=children))
    if same_somewhere and like.q:
        found.append(replace(found[0], q=found[0].p))
    return found


def random_exact_law(rng: random.Random, size: int, *, zeros: bool = True) -> ExactLaw:
    """A law of small whole weights."""
    weights = [rng.randrange(0 if zeros else 1, 7) for _ in range(size)]
    weights[rng.randrange(size)] += 1
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def rounds_of(function: SlotFunction, case: Slot) -> Rounds:
    """What a function of ours does in a slot."""
    return enumerate_rounds(Here({"function": function}), "function", case).value


def token_law(rounds: Rounds) -> dict[tuple[int, ...], Fraction]:
    """The law of the token that comes out."""
    return rounds.law_of(lambda drafted, outcome: (outcome[1],))


def kept(rounds: Rounds) -> Fraction:
    """The probability that a draft is accepted."""
    return rounds.mean(lambda drafted, outcome: int(outcome[0] is not None))


def name_token(key: tuple[int, ...]) -> str:
    """The token in words."""
    return repr(WORDS[key[0]])


def judge_lossless(seen: Seen, case: Slot) -> str | None:
    """The token has the target's law."""
    problem = gap(token_law(seen.value), case.law(), name_token)
    return f"{problem}\n{case.table()}{unasked(seen)}" if problem else None


def judge_kept(right: SlotFunction) -> Callable[[Seen, Slot], str | None]:
    """Judge: drafts are accepted exactly as often as `right` does."""

    def judge(seen: Seen, case: Slot) -> str | None:
        found, wanted = kept(seen.value), kept(rounds_of(right, case))
        if found == wanted:
            return None
        return (
            f"a draft is accepted with probability {number_text(found)}, could be {number_text(wanted)}"
            if found < wanted
            else f"a draft is accepted with probability {number_text(found)}, must be {number_text(wanted)}"
        ) + f"\n{case.table()}"

    return judge


def read_exact_law(value: Any, name: str, size: int | None = None) -> ExactLaw:
    """A law in Fractions or ints. Raises Malformed for floats, negative masses or another sum than 1."""
    entries = read_list(value, f"the masses of {name}")
    if not 1 <= len(entries) <= len(WORDS):
        raise Malformed(f"{name} has {len(entries)} tokens; expected 1 to {len(WORDS)}")
    if size is not None and len(entries) != size:
        raise Malformed(f"{name} has {len(entries)} tokens, the law before it {size}")
    law = read_law(entries, WORDS[: len(entries)])
    if law.has_floats:
        raise Malformed(f"{name} holds floats; write Fractions, so that the law can be enumerated exactly")
    if min(law.values) < 0 or sum(law.values) != 1:
        raise Malformed(f"{name} is no law: smallest mass {min(law.values)}, sum {sum(law.values)}")
    return law.values
