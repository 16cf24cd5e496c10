"""Tasks of set E02: what bounds the time of a pass, and how many tokens a pass can take before that changes."""

from collections.abc import Sequence
from fractions import Fraction
import random
from typing import Any

from specdec_labs.grade.exact import number_text, read_number
from specdec_labs.grade.task import Ask, Property, Seen, Task, value
from specdec_labs.grade.tasks.formula import Call, call, is_number, tagged

PASS = "pass_seconds"
RIDGE = "ridge_tokens"
WILLIAMS = "Williams et al., Roofline, CACM 52(4), 2009"


def a_pass(flops: float, moved: float, peak: float, bandwidth: float) -> Call:
    """One pass on one machine."""
    compute, memory = flops / peak, moved / bandwidth
    side = "ridge" if compute == memory else "memory" if memory > compute else "compute"
    return call(flops, moved, peak, bandwidth, wanted=max(compute, memory), tags=[side])


def passes() -> Sequence[Call]:
    """Small numbers, and the seeds' example: 70 billion weights of 2 bytes on an H100 of 3.35 TB/s."""
    return (
        a_pass(1.0, 4.0, 1.0, 1.0),
        a_pass(4.0, 1.0, 1.0, 1.0),
        a_pass(2.0, 2.0, 1.0, 1.0),
        a_pass(2.0, 6.0, 4.0, 3.0),
        a_pass(140e9, 140e9, 989e12, 3.35e12),
        a_pass(140e9 * 1024, 140e9, 989e12, 3.35e12),
    )


def fresh_passes(seed: int) -> Sequence[Call]:
    """Random machines and passes of each kind."""
    rng = random.Random(seed)
    cases = []
    for factor in (0.1, 0.5, 2.0, 10.0, 1.0):
        peak, bandwidth, moved = (rng.choice((1, 2, 4, 8)) * 10.0**power for power in (14, 12, 10))
        cases.append(a_pass(moved / bandwidth * peak * factor, moved, peak, bandwidth))
    # exact powers of two: equal to the last bit
    return (*cases, a_pass(8.0, 4.0, 4.0, 2.0), a_pass(16.0, 1.0, 2.0, 4.0))


def read_pass(*, flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> Call:
    """A case of an instructor's file."""
    if min(flops, bytes_moved) < 0 or min(peak_flops, bandwidth) <= 0:
        raise ValueError("expected flops and bytes of at least 0, rates above 0")
    return a_pass(flops, bytes_moved, peak_flops, bandwidth)


def judge_regime(seen: Seen, case: Any) -> str | None:
    """Memory-bound."""
    if seen.value == "memory-bound":
        return None
    shown = repr(seen.value) if isinstance(seen.value, str) else "no text"
    return (
        f"GAINS_MORE is {shown}. With K drafts a pass does (K + 1) times the arithmetic of one token, and reads the "
        "weights once. Where is that extra arithmetic free: 'memory-bound' or 'compute-bound'?"
    )


MEMORY_BOUND = Task(
    id="E02.memory_bound",
    title="what a pass waits for",
    minutes=10,
    difficulty=1,
    asks=(Ask(name=PASS, public=passes, hidden=fresh_passes, read_case=read_pass), value("GAINS_MORE")),
    properties=(
        Property(
            name="waits_for_memory",
            about=PASS,
            what="when the bytes take longer than the arithmetic, the pass takes as long as the bytes",
            why="one token of a 70B model moves 140 GB for 0.14 TFLOP: 41.8 ms of reading, 0.14 ms of arithmetic",
            pointer=f"notebook 01, section 1; {WILLIAMS}",
            judge=is_number(PASS),
            applies=tagged("memory"),
        ),
        Property(
            name="waits_for_arithmetic",
            about=PASS,
            what="when the arithmetic takes longer, the pass takes as long as the arithmetic",
            why="this is what ends the gain at large batch: every draft then costs its full share",
            pointer="notebook 01, section 2",
            judge=is_number(PASS),
            applies=tagged("compute"),
        ),
        Property(
            name="overlaps_at_the_ridge",
            about=PASS,
            what="reading and arithmetic run at the same time: at the ridge the time is one of them, not both",
            why="a roofline is the larger of two times; their sum would be twice as pessimistic just where it matters",
            pointer=WILLIAMS,
            judge=is_number(PASS),
            applies=tagged("ridge"),
        ),
        Property(
            name="names_the_regime",
            about="GAINS_MORE",
            what="GAINS_MORE names the kind of pass in which verifying several tokens gains most",
            why="it is the reason why speculation works at all, and why it stops at large batches",
            pointer="notebook 01, section 2: one row and gamma + 1 rows, on both sides of the ridge",
            judge=judge_regime,
        ),
    ),
)


def a_ridge(peak: float | Fraction, bandwidth: float | Fraction, width: float | Fraction) -> Call:
    """One machine and one width of weights."""
    ridge = peak * width / (2 * bandwidth)
    tags = ["two bytes" if width == 2 else "other width"] + (["broken"] if ridge != int(ridge) else [])
    return call(peak, bandwidth, width, wanted=ridge, tags=tags)


def ridges() -> Sequence[Call]:
    """Small numbers, then an H100 and an A100 with weights of 16, 8 and 4 bits."""
    return (
        a_ridge(8.0, 1.0, 2),
        a_ridge(8.0, 1.0, 1),
        a_ridge(5.0, 2.0, 2),
        a_ridge(989e12, 3.35e12, 2),
        a_ridge(312e12, 2.039e12, 2),
        a_ridge(989e12, 3.35e12, 1),
        a_ridge(989e12, 3.35e12, 0.5),
    )


def fresh_ridges(seed: int) -> Sequence[Call]:
    """Random machines, every width."""
    rng = random.Random(seed)
    widths = (2, 2, 1, 0.5, 4)
    return [a_ridge(rng.uniform(50, 2000) * 1e12, rng.uniform(0.2, 8) * 1e12, width) for width in widths]


def read_ridge(*, peak_flops: float, bandwidth: float, bytes_per_weight: float) -> Call:
    """A case of an instructor's file."""
    if min(peak_flops, bandwidth, bytes_per_weight) <= 0:
        raise ValueError("expected numbers above 0")
    return a_ridge(peak_flops, bandwidth, bytes_per_weight)


def judge_balance(seen: Seen, case: Call) -> str | None:
    """At the ridge both times are equal, for one weight: 2 T flops and its bytes."""
    peak, bandwidth, width = case.args
    tokens = read_number(seen.value, "the returned number", largest=10**15)
    arithmetic, reading = float(2 * tokens) / peak, width / bandwidth
    if abs(arithmetic - reading) <= 1e-9 * reading:
        return None
    return (
        f"ridge_tokens({case.shown()}) returns {number_text(tokens)}: a weight then takes {arithmetic:.4g} s of "
        f"arithmetic and {reading:.4g} s of reading; at the ridge the two are equal, at {case.wanted:.6g} tokens"
    )


RIDGE_TASK = Task(
    id="E02.ridge",
    title="how many tokens a pass takes for free",
    minutes=10,
    difficulty=2,
    asks=(Ask(name=RIDGE, public=ridges, hidden=fresh_ridges, read_case=read_ridge),),
    properties=(
        Property(
            name="balances_16_bit_weights",
            about=RIDGE,
            what="with weights of 2 bytes, reading and arithmetic take equally long at the returned number of tokens",
            why="below the ridge more tokens a pass are nearly free; that is the room that drafts live in",
            pointer=f"notebook 01, section 2; {WILLIAMS}",
            judge=judge_balance,
            applies=tagged("two bytes"),
        ),
        Property(
            name="balances_other_widths",
            about=RIDGE,
            what="the same for weights of 1, 1/2 and 4 bytes",
            why="quantised weights are read sooner, so the room for drafts shrinks with the bytes",
            pointer="notebook 01, section 2: the ridge is F b / (2 B)",
            judge=judge_balance,
            applies=tagged("other width"),
        ),
        Property(
            name="is_not_rounded",
            about=RIDGE,
            what="the number is the crossing itself, not the next whole token",
            why="other formulas go on with it; rounding belongs to the last step",
            pointer="notebook 01, section 3: the ridge of every preset",
            judge=judge_balance,
            applies=tagged("broken"),
        ),
    ),
)
