"""Museum tasks of set E04: a window cut after looking at the draft, and a residual that is not scaled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
import random
from typing import Any

from specdec_core.exact_drafts import Prefix
from specdec_core.rules import verify_block
from specdec_labs.grade.exact import Malformed, number_text, read_list, read_number
from specdec_labs.grade.plain import Proxy
from specdec_labs.grade.rounds import enumerate_rounds, no_question_twice
from specdec_labs.grade.task import Ask, Property, Seen, Task, value
from specdec_labs.grade.tasks.e03_chain import Chain, judge_text
from specdec_labs.grade.tasks.e03_museum import SIZES, Masses, one_draft, read_pair
from specdec_labs.grade.tasks.museum import Exhibit, asks_once, museum_task
from specdec_labs.grade.tasks.slots import Slot, random_exact_law, random_slots, read_exact_law, rounds_of, slot
from specdec_labs.museum.block import residual_not_scaled

HALF = Fraction(1, 2)


def cut_after_looking(p: Masses, q: Masses, least: Fraction, coins: Any) -> tuple[bool, int]:
    """Broken: draws the draft, and verifies it only when this token is promising."""
    token = coins.draw(q, node=0, purpose="draft")
    if min(Fraction(1), p[token] / q[token]) < least:
        return False, coins.draw(p, node=0, purpose="sample")
    return one_draft(p, q, token, coins)


def cut_before_drawing(p: Masses, q: Masses, least: Fraction, coins: Any) -> tuple[bool, int]:
    """Right: decides by the laws, before there is a token."""
    if sum(map(min, p, q)) < least:
        return False, coins.draw(p, node=0, purpose="sample")
    return one_draft(p, q, coins.draw(q, node=0, purpose="draft"), coins)


def read_length(value: Any) -> Slot:
    """p, q and least."""
    entries = read_list(value, "p, q and least")
    if len(entries) != 3:
        raise Malformed(f"the input has {len(entries)} entries, expected p, q and least")
    if isinstance(entries[2], float):
        raise Malformed("least is a float; write a Fraction")
    least = read_number(entries[2], "least")
    if not 0 <= least <= 1:
        raise Malformed(f"least is {least}; expected a probability")
    return Slot(*read_pair(entries[:2]), drawn="none", least=least)


def read_length_case(*, p: list[Fraction], q: list[Fraction], least: Fraction) -> Slot:
    """A case of an instructor's file."""
    try:
        return read_length([list(p), list(q), least])
    except Malformed as error:
        raise ValueError(str(error)) from error


def length_slots() -> Sequence[Slot]:
    """Slots above and below the threshold; the last is the counter-example of DSpark, appendix A."""
    return (
        slot("1/2 1/2", "1 0", drawn="none", least=Fraction(1)),
        slot("1/2 1/2", "3/4 1/4", drawn="none", least=Fraction(3, 4)),
        slot("1/4 3/4", "1/2 1/2", drawn="none", least=Fraction(4, 5)),
        slot("1/2 3/8 1/8", "1/4 1/4 1/2", drawn="none", least=HALF),
        slot("7/10 3/10", "1/2 1/2", drawn="none", least=Fraction(13, 20)),
    )


def fresh_length_slots(seed: int) -> Sequence[Slot]:
    """Fresh slots with thresholds on either side of their acceptance."""
    like = slot("1", "1", drawn="none", least=HALF)
    cases = [*random_slots(seed, like, (2, 3, 3, 4, 4)), *random_slots(seed + 1, like, (2, 3, 4))]
    rng = random.Random(seed)
    return [
        Slot(
            case.p,
            case.q,
            drawn="none",
            least=min(max(sum(map(min, case.p, case.q)) + shift, Fraction(0)), Fraction(1)),
        )
        for case in cases
        for shift in [Fraction(rng.choice((-1, 0, 1)), 10)]
    ] + [slot("7/10 3/10", "1/2 1/2", drawn="none", least=Fraction(13, 20))]


LENGTH = museum_task(
    id="E04.length",
    title="the window is chosen after looking at the draft",
    minutes=20,
    difficulty=3,
    input_name="LENGTH_INPUT",
    mended_name="mended_length",
    exhibit=Exhibit(
        wrong=cut_after_looking,
        right=cut_before_drawing,
        read_input=read_length,
        form="a triple (p, q, least) of two laws in Fractions and a probability",
        smallest=(2, 3, 0),
        sizes=SIZES,
    ),
    public=length_slots,
    hidden=fresh_length_slots,
    read_case=read_length_case,
    damage="tokens that would have been refused get a second draw from p, so likely tokens come too often",
    price="a slot is to be verified exactly where the laws promise at least `least`; less is lost gain, more lost time",
    story="specdec museum length_after_the_draft; DSpark 2607.05147, appendix A",
    more=(asks_once("mended_length"),),
)


@dataclass(frozen=True, slots=True)
class Block(Chain):
    """Laws by place, for a block of drafts."""

    rows_p: tuple[tuple[Fraction, ...], ...]
    rows_q: tuple[tuple[Fraction, ...], ...]

    def size(self) -> tuple[int, int, int]:
        """Tokens, drafts, largest denominator."""
        return self.vocab, self.drafted, max(mass.denominator for row in self.rows_p + self.rows_q for mass in row)


def block(rows_p: Sequence[Sequence[Fraction]], rows_q: Sequence[Sequence[Fraction]]) -> Block:
    """A block from K + 1 target laws and K draft laws."""
    p, q = (tuple(tuple(row) for row in rows) for rows in (rows_p, rows_q))

    def by_place(rows: tuple[tuple[Fraction, ...], ...]) -> Callable[[Prefix], tuple[Fraction, ...]]:
        return lambda text: rows[min(len(text), len(rows) - 1)]

    return Block(by_place(p), by_place(q), len(q), len(p[0]), p, q)


def emitted(rule: Callable[..., Any]):
    """A rule of ours with the signature that learners write."""

    def run(draft_tokens: list[int], draft_probs: list[Masses], target_probs: list[Masses], coins: Proxy) -> list[int]:
        verdict = rule(tuple(draft_tokens), draft_probs, target_probs, coins)
        return [*draft_tokens[: verdict.num_accepted], verdict.next_token]

    return run


def read_block(value: Any) -> Block:
    """(K + 1 target laws, K draft laws), K at most 3."""
    entries = read_list(value, "the target's rows and the draft's rows")
    if len(entries) != 2:
        raise Malformed(f"the input has {len(entries)} entries, expected two lists of laws")
    rows = [read_list(entry, "laws") for entry in entries]
    if len(rows[0]) != len(rows[1]) + 1 or not 1 <= len(rows[1]) <= 3:
        raise Malformed(
            f"there are {len(rows[0])} target laws and {len(rows[1])} draft laws; expected K + 1 and K <= 3"
        )
    first = read_exact_law(rows[0][0], "the first target law")
    return block(*([read_exact_law(row, "a law", len(first)) for row in side] for side in rows))


def read_block_case(*, target: list[list[Fraction]], draft: list[list[Fraction]]) -> Block:
    """A case of an instructor's file."""
    try:
        return read_block([target, draft])
    except Malformed as error:
        raise ValueError(str(error)) from error


def laws(*rows: str) -> list[tuple[Fraction, ...]]:
    """Laws from texts."""
    return [tuple(map(Fraction, row.split())) for row in rows]


def blocks() -> Sequence[Block]:
    """One draft (the chain rule), the paper's example, p = q, and slots where scaling moves the residual's support."""
    return (
        block(laws("1/4 3/4", "1/2 1/2"), laws("1/2 1/2")),
        block(laws("1/3 2/3", "1/3 2/3", "1/3 2/3"), laws("2/3 1/3", "2/3 1/3")),
        block(laws("1/2 1/2", "1/2 1/2", "1/4 3/4"), laws("1/2 1/2", "1/2 1/2")),
        block(laws("1/2 1/2 0", "1/2 1/2 0", "1/3 1/3 1/3"), laws("1 0 0", "0 1/3 2/3")),
        block(laws("9/20 1/10 9/20", "2/5 11/20 1/20", "1/4 1/4 1/2"), laws("9/10 1/20 1/20", "0 3/10 7/10")),
    )


def fresh_blocks(seed: int) -> Sequence[Block]:
    """Fresh laws by place, and one where scaling moves the support."""
    rng = random.Random(seed)
    cases = []
    for vocab, drafted in ((2, 1), (2, 2), (3, 2), (3, 2), (2, 3)):
        rows = [random_exact_law(rng, vocab, zeros=False) for _ in range(2 * drafted + 1)]
        cases.append(block(rows[: drafted + 1], rows[drafted + 1 :]))
    cases.append(block(laws("9/20 1/10 9/20", "2/5 11/20 1/20", "1/4 1/4 1/2"), laws("9/10 1/20 1/20", "0 3/10 7/10")))
    return cases


def judge_block_tells(seen: Seen, case: Any) -> str | None:
    """On the input the broken rule's law of the next K + 1 tokens is another one."""
    found = read_block(seen.value)
    if judge_text(Seen(rounds_of(emitted(residual_not_scaled), found)), found) is not None:  # type: ignore[arg-type]
        return None
    return "on your input the broken rule gives every text of K + 1 tokens its probability, exactly"


def judge_block_legal(seen: Seen, case: Any) -> str | None:
    """It can be read."""
    read_block(seen.value)
    return None


SMALLEST_BLOCK = (3, 2, 3)


def judge_block_smallest(seen: Seen, case: Any) -> str | None:
    """No smaller one tells the two apart."""
    size = read_block(seen.value).size()
    if size <= SMALLEST_BLOCK:
        return None
    return (
        f"yours has {size[0]} tokens, {size[1]} drafts and denominators up to {size[2]}; enough are "
        f"{SMALLEST_BLOCK[0]} tokens, {SMALLEST_BLOCK[1]} drafts and denominators up to {SMALLEST_BLOCK[2]}"
    )


def judge_block_mean(seen: Seen, case: Block) -> str | None:
    """As many drafts are kept as block verification keeps."""
    mean = [
        rounds.mean(lambda drafted, outcome: len(outcome) - 1)
        for rounds in (seen.value, rounds_of(emitted(verify_block), case))  # type: ignore[arg-type]
    ]
    if mean[0] == mean[1]:
        return None
    return f"{number_text(mean[0])} drafts are kept on average, block verification keeps {number_text(mean[1])}"


INPUT, MENDED = "BLOCK_INPUT", "mended_block"
SUN = "Sun et al. 2403.10444, algorithm 2; docs/rules.md"

BLOCK_RESIDUAL = Task(
    id="E04.block_residual",
    title="block verification with the chain's residual",
    minutes=30,
    difficulty=5,
    asks=(
        value(INPUT),
        Ask(name=MENDED, public=blocks, hidden=fresh_blocks, observe=enumerate_rounds, read_case=read_block_case),
    ),
    properties=(
        Property(
            name="input_is_legal",
            about=INPUT,
            what=f"{INPUT} is (K + 1 target laws, K draft laws) in Fractions",
            why="a counter-example must be one that could happen",
            pointer="the statement's form of the input",
            judge=judge_block_legal,
        ),
        Property(
            name="input_tells_them_apart",
            about=INPUT,
            what="on it the broken rule's law of the next K + 1 tokens, enumerated exactly, is not the target's",
            why="with two tokens, or with one draft, no input shows this bug: tests that use them pass for ever",
            pointer="specdec museum residual_not_scaled",
            judge=judge_block_tells,
        ),
        Property(
            name="input_is_the_smallest",
            about=INPUT,
            what="no smaller input does (tokens, then drafts, then denominators)",
            why="the smallest one can be computed by hand, and shows the cause with nothing else in sight",
            pointer="docs/museum.md",
            judge=judge_block_smallest,
        ),
        Property(
            name="mended_is_lossless",
            about=MENDED,
            what="the next K + 1 tokens have exactly the target's joint law",
            why="acceptance is as it should be with this bug; only the token after a kept prefix is drawn wrongly",
            pointer=SUN,
            judge=judge_text,
        ),
        Property(
            name="mended_keeps_its_drafts",
            about=MENDED,
            what="as many drafts are kept as block verification keeps",
            why="going back to the token-wise rule is lossless too, and keeps fewer",
            pointer=SUN,
            judge=judge_block_mean,
        ),
        Property(
            name="asks_each_question_once",
            about=MENDED,
            what="no two questions of a round share purpose and node",
            why="the production coins answer the same key with the same noise",
            pointer="specdec museum reused_noise",
            judge=no_question_twice,
        ),
    ),
    museum=True,
)
