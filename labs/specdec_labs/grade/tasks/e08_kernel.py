"""Task E08.excess: a Triton kernel, launched by the checker in the interpreter and judged by what it wrote."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
import random
from typing import Any

from specdec_labs.grade.access import Names, Reply
from specdec_labs.grade.exact import Malformed, token_table
from specdec_labs.grade.plain import Array
from specdec_labs.grade.rounds import WORDS
from specdec_labs.grade.task import Ask, Property, Seen, Task
from specdec_labs.grade.tasks.slots import random_exact_law

KERNEL = "excess_kernel"
SLACK = 1e-5
"""float32."""
GUARD = -77.0
"""What lies behind the last row of `out`."""

Row = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """Rows of p and q, and the block that a program works on."""

    p: tuple[Row, ...]
    q: tuple[Row, ...]
    block: int

    @property
    def vocab(self) -> int:
        """Tokens of a row."""
        return len(self.p[0])

    def arguments(self) -> list[Any]:
        """p, q, out, vocab, BLOCK; what lies behind the rows belongs to nobody, and is there to be left alone."""
        ends = (1.0,) * self.block, (0.0,) * self.block
        flat = [
            tuple(mass for row in rows for mass in row) + end for rows, end in zip((self.p, self.q), ends, strict=True)
        ]
        out = (GUARD,) * len(flat[0])
        return [*(_array(values) for values in (*flat, out)), self.vocab, self.block]

    @property
    def wanted(self) -> tuple[Row, ...]:
        """The residual of each row, p where nothing is left."""
        rows = []
        for p, q in zip(self.p, self.q, strict=True):
            excess = [max(p_x - q_x, 0.0) for p_x, q_x in zip(p, q, strict=True)]
            rows.append(tuple(mass / sum(excess) for mass in excess) if sum(excess) > 0 else p)
        return tuple(rows)

    def rows_of(self, written: Sequence[float]) -> list[Row]:
        """What was written, row by row."""
        return [tuple(written[start : start + self.vocab]) for start in range(0, len(self.p) * self.vocab, self.vocab)]


def _array(values: Sequence[float]) -> Array:
    return Array("torch", "torch.float32", (len(values),), tuple(values))


def launch(rows: Sequence[tuple[str, str]], block: int) -> Launch:
    """From texts of fractions; each becomes the float32 nearest to it, as far as it matters."""
    laws = [tuple(tuple(float(Fraction(mass)) for mass in row[side].split()) for row in rows) for side in (0, 1)]
    return Launch(laws[0], laws[1], block)


def observe_launch(names: Names, name: str, case: Launch) -> Reply:
    """(p, q, out) after a launch over the rows.

    Raises:
        Malformed: no Triton kernel, or one that needs a GPU.
    """
    kind = names.kind_of(name)
    if "triton" not in kind:
        raise Malformed(f"{name} is of type {kind}; decorate it with @triton.jit")
    if "JITFunction" in kind:
        raise Malformed(
            f"{name} was compiled for a GPU; checks run in the interpreter: set TRITON_INTERPRET=1 before triton is "
            "imported and restart"
        )
    after = names.call(name, case.arguments(), (len(case.p),)).after[:3]
    if not all(isinstance(entry, Array) for entry in after):
        raise Malformed("the launch gave back no tensors")
    return Reply(tuple(entry.data for entry in after))


def judge_written(seen: Seen, case: Launch) -> str | None:
    """Every row is the residual of its row."""
    for number, (found, wanted) in enumerate(zip(case.rows_of(seen.value[2]), case.wanted, strict=True)):
        if all(abs(got - must) <= SLACK for got, must in zip(found, wanted, strict=True)):
            continue
        columns = {"p": case.p[number], "q": case.q[number], "yours": found, "must be": wanted}
        table = token_table(WORDS[: case.vocab], columns)
        return f"row {number} of {len(case.p)}, vocab {case.vocab}, BLOCK {case.block}\n{table}"
    return None


def judge_guards(seen: Seen, case: Launch) -> str | None:
    """Nothing but the rows of `out` was written."""
    p, q, out = seen.value
    before = case.arguments()
    for name, after, array in (("p", p, before[0]), ("q", q, before[1])):
        if any(abs(got - was) > SLACK for got, was in zip(after, array.data, strict=True)):
            return f"the kernel wrote into {name}"
    behind = out[len(case.p) * case.vocab :]
    written = [place for place, value in enumerate(behind) if value != GUARD]
    if not written:
        return None
    return f"vocab {case.vocab}, BLOCK {case.block}: {len(written)} numbers were written behind the last row"


def judge_kernel(seen: Seen, case: Launch) -> str | None:
    """It was launched at all."""
    return None


def launches() -> Sequence[Launch]:
    """One full row, then padding, several rows, equal laws."""
    return (
        launch([("1/4 3/4", "1/2 1/2")], 2),
        launch([("1/2 1/4 1/8 1/8", "1/4 1/4 1/4 1/4")], 4),
        launch([("3/5 2/5 0", "1/5 3/10 1/2")], 4),
        launch([("1/2 1/2", "1/2 1/2")], 2),
        launch([("1/4 3/4", "1/2 1/2"), ("3/4 1/4", "1/8 7/8")], 2),
        launch([("3/5 2/5 0", "1/5 3/10 1/2"), ("1/5 3/10 1/2", "3/5 2/5 0"), ("0 1 0", "0 1 0")], 8),
    )


def fresh_launches(seed: int) -> Sequence[Launch]:
    """Random rows of every kind."""
    rng = random.Random(seed)

    def rows(count: int, vocab: int, block: int, same: bool = False) -> Launch:
        pairs = []
        for _ in range(count):
            p = random_exact_law(rng, vocab, zeros=False)
            q = random_exact_law(rng, vocab, zeros=False)
            while p == q and not same:
                q = random_exact_law(rng, vocab, zeros=False)
            pairs.append((p, p if same else q))
        return launch([tuple(" ".join(map(str, law)) for law in pair) for pair in pairs], block)  # type: ignore[misc]

    return (rows(1, 4, 4), rows(1, 5, 8), rows(3, 4, 4), rows(4, 6, 8), rows(1, 4, 4, same=True), rows(2, 3, 16))


def read_launch(*, p: list[list[Fraction]], q: list[list[Fraction]], block: int) -> Launch:
    """A case of an instructor's file."""
    if len(p) != len(q) or len({len(row) for row in (*p, *q)}) != 1 or block < len(p[0]) or block & (block - 1):
        raise ValueError("expected as many rows of p as of q, all of one length, and a power of two that holds them")
    rows = [tuple(tuple(map(float, row)) for row in side) for side in (p, q)]
    return Launch(rows[0], rows[1], block)


def is_like(*, rows: Callable[[int], bool], padded: bool, same: bool = False) -> Callable[[Launch], bool]:
    """Picks the cases by rows, padding and whether a row has p = q."""
    return lambda case: (
        rows(len(case.p)) and (case.vocab < case.block) == padded and any(map(_equal, case.p, case.q)) == same
    )


def _equal(p: Row, q: Row) -> bool:
    return p == q


EXCESS = Task(
    id="E08.excess",
    title="the residual of many rows in one launch",
    minutes=30,
    difficulty=4,
    asks=(
        Ask(
            name=KERNEL,
            kind="kernel",
            public=launches,
            hidden=fresh_launches,
            observe=observe_launch,
            read_case=read_launch,
        ),
    ),
    properties=(
        Property(
            name="is_a_kernel",
            about=KERNEL,
            what="excess_kernel is a Triton kernel",
            why="a function of tensors does the sums on the host, a launch and a round trip for each",
            pointer="notebook 12, section 4",
            judge=judge_kernel,
        ),
        Property(
            name="row_is_the_residual",
            about=KERNEL,
            what="one row that fills its block becomes max(p - q, 0), divided by its sum",
            why="the draw that follows takes it for a law",
            pointer="E01.residual; notebook 12, section 4",
            judge=judge_written,
            applies=is_like(rows=lambda count: count == 1, padded=False),
        ),
        Property(
            name="padding_lanes_stay_out",
            about=KERNEL,
            what="with vocab below BLOCK the lanes beyond it add nothing",
            why="vocabularies are no powers of two; what lies behind the row is the next one, or another tensor",
            pointer="notebook 12, section 2: masked lanes",
            judge=judge_written,
            applies=is_like(rows=lambda count: count == 1, padded=True),
        ),
        Property(
            name="rows_are_their_own",
            about=KERNEL,
            what="each program works on its own row",
            why="a missing offset computes the first row again and again, and a test with one row is green",
            pointer="notebook 12, section 1: a program knows its place in the grid",
            judge=judge_written,
            applies=lambda case: len(case.p) > 1,
        ),
        Property(
            name="equal_laws_fall_back_to_p",
            about=KERNEL,
            what="where p = q the row is p, never NaN",
            why="a batch computes rows that nobody will draw from; one NaN reaches every reduction behind it",
            pointer="E01.residual: with p = q nothing is left",
            judge=judge_written,
            applies=lambda case: any(map(_equal, case.p, case.q)),
        ),
        Property(
            name="writes_nothing_else",
            about=KERNEL,
            what="p, q and what lies behind the last row stay as they were",
            why="on a GPU it is somebody else's memory, and nothing complains",
            pointer="notebook 12, section 2: masked lanes",
            judge=judge_guards,
        ),
    ),
)
