"""Museum tasks of set E03: a lossy threshold, and a softmax q beside an argmax draft."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from specdec_core.residual import residual
from specdec_labs.grade.exact import Malformed, read_list
from specdec_labs.grade.rounds import WORDS
from specdec_labs.grade.task import Property, Seen
from specdec_labs.grade.tasks.museum import Exhibit, museum_task
from specdec_labs.grade.tasks.slots import Slot, random_slots, read_exact_law, slot

Masses = Sequence[Fraction]
SIZES = ("tokens", "largest denominator")


def read_pair(value: Any) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Two laws over the same tokens. Raises Malformed otherwise."""
    entries = read_list(value, "two laws, p and q")
    if len(entries) != 2:
        raise Malformed(f"the input has {len(entries)} entries, expected the two laws p and q")
    p = read_exact_law(entries[0], "p")
    return p, read_exact_law(entries[1], "q", len(p))


def case_of_laws(drawn: Any, count: int = 1):
    """Reads a case of an instructor's file: two laws."""

    def read(*, p: list[Fraction], q: list[Fraction]) -> Slot:
        try:
            return Slot(*read_pair([list(p), list(q)]), drawn=drawn, count=count)
        except Malformed as error:
            raise ValueError(str(error)) from error

    return read


def threshold_verify(p: Masses, q: Masses, token: int, coins: Any) -> tuple[bool, int]:
    """Broken: the ratio is compared with u times one half."""
    if coins.accept(p[token], q[token] / 2, node=0):
        return True, token
    return False, coins.draw(residual(p, q), node=0, purpose="recover")


def one_draft(p: Masses, q: Masses, token: int, coins: Any) -> tuple[bool, int]:
    """Right: min(1, p/q), then the residual."""
    if coins.accept(p[token], q[token], node=0):
        return True, token
    return False, coins.draw(residual(p, q), node=0, purpose="recover")


def one_slots() -> Sequence[Slot]:
    """Public slots with one draft from q."""
    return (
        slot("1/2 1/2", "1/2 1/2"),
        slot("1/4 3/4", "1/2 1/2"),
        slot("3/5 2/5 0", "1/5 3/10 1/2"),
        slot("1/2 3/8 1/8", "1/4 1/4 1/2"),
        slot("1/10 2/5 1/2", "3/5 1/5 1/5"),
    )


def fresh_one_slots(seed: int) -> Sequence[Slot]:
    """Fresh slots with one draft."""
    return [*random_slots(seed, slot("1", "1"), (2, 3, 3, 4, 4, 5)), slot("3/5 2/5 0", "1/5 3/10 1/2")]


THRESHOLD = museum_task(
    id="E03.threshold",
    title="a threshold called lossless",
    minutes=15,
    difficulty=2,
    input_name="THRESHOLD_INPUT",
    mended_name="mended_threshold",
    exhibit=Exhibit(
        wrong=threshold_verify,
        right=one_draft,
        read_input=lambda value: Slot(*read_pair(value)),
        form="a pair (p, q) of laws in Fractions over the same tokens",
        smallest=(2, 2, 0),
        sizes=SIZES,
    ),
    public=one_slots,
    hidden=fresh_one_slots,
    read_case=case_of_laws("one"),
    damage="drafts that the target would refuse come out: the text leans towards the draft, and the page says lossless",
    price="refusing more than min(1, p/q) asks is lossless with the right redraw, and slower",
    story="specdec museum lossy_threshold",
)


def softmax_q_round(p: Masses, q: Masses, coins: Any) -> tuple[bool, int]:
    """Broken: the draft is the argmax, and is judged as if it had been drawn from q."""
    token = max(range(len(q)), key=lambda x: q[x])
    return one_draft(p, q, token, coins)


def one_hot_round(p: Masses, q: Masses, coins: Any) -> tuple[bool, int]:
    """Right: the draft is certain, so q is one-hot."""
    token = max(range(len(q)), key=lambda x: q[x])
    return one_draft(p, [Fraction(x == token) for x in range(len(q))], token, coins)


def judge_favourite(seen: Seen, case: Slot) -> str | None:
    """What is accepted is the draft model's favourite."""
    favourite = max(range(len(case.q)), key=lambda token: case.q[token])
    for (_, (accepted, token)), weight in seen.value.law.items():
        if accepted is not None and token != favourite and weight:
            return (
                f"{WORDS[token]!r} is accepted as the draft; the draft is the token with the largest q, "
                f"{WORDS[favourite]!r}\n{case.table()}"
            )
    return None


def softmax_slots() -> Sequence[Slot]:
    """Public slots; the function drafts by itself."""
    return (
        slot("1/4 3/4", "1/3 2/3", drawn="none"),
        slot("1/2 1/2", "1 0", drawn="none"),
        slot("1/4 3/4", "2/3 1/3", drawn="none"),
        slot("1/2 3/8 1/8", "1/4 1/4 1/2", drawn="none"),
        slot("2/5 1/5 2/5", "1/10 1/5 7/10", drawn="none"),
    )


def fresh_softmax_slots(seed: int) -> Sequence[Slot]:
    """Fresh slots of that kind."""
    return random_slots(seed, slot("1", "1", drawn="none"), (2, 2, 3, 3, 4, 4, 5))


SOFTMAX_Q = museum_task(
    id="E03.softmax_q",
    title="softmax q beside an argmax draft",
    minutes=15,
    difficulty=2,
    input_name="SOFTMAX_INPUT",
    mended_name="mended_softmax_q",
    exhibit=Exhibit(
        wrong=softmax_q_round,
        right=one_hot_round,
        read_input=lambda value: Slot(*read_pair(value), drawn="none"),
        form="a pair (p, q) of laws in Fractions over the same tokens",
        smallest=(2, 2, 0),
        sizes=SIZES,
    ),
    public=softmax_slots,
    hidden=fresh_softmax_slots,
    read_case=case_of_laws("none"),
    damage="the draft model's favourite comes out too often, and acceptance looks better than it is",
    price="a certain draft is kept with probability p at its token; that is all it can give",
    story="specdec museum softmax_q; huggingface/transformers #47961",
    more=(
        Property(
            name="still_drafts_the_favourite",
            about="mended_softmax_q",
            what="the draft is still the token with the largest q, the first of equals",
            why="drawing the draft from q is another drafter; here the cheap certain one is to be judged rightly",
            pointer="deterministic proposals: docs/rules.md",
            judge=judge_favourite,
        ),
    ),
)
