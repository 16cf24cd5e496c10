"""What no measurement can show: whoever prints a figure asks here first, and prints what is wrong in its place.

A round takes at least one pass of the target, so a speed-up is at most the tokens a round emits; a pass over more rows
is never cheaper than over one, so a round breaks even at one token or more; a rate is between 0 and 1; a point lies in
its own interval; seconds are positive. What breaks one of these is not a surprise but a measurement gone wrong, most
often a plain arm that was not at its fastest.

*Beyond noise* is judged by what the measurement itself says of its noise: the interval over its pairs or prompts, the
spread of a curve's passes. A figure that is impossible within its noise is shown as its limit; one that states no noise
(a single run) is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
import math
import statistics
from typing import Any, Protocol

from specdec_core.cost_curve import CostCurve
from specdec_core.hardware_presets import Hardware
from specdec_core.metrics import speedup, summarize
from specdec_core.roofline import ridge_rows
from specdec_core.trace import Trace

REFUSED = "refused"
"""What stands where the figure would be."""

_ROUNDING = 1e-9
_FALL, _FALL_OF_FEW, _FEW = 0.05, 0.25, 5
"""How much cheaper than one row a pass over more may seem; with fewer than five passes a point, whose spread is not
known, more."""

_REMEDY = "close what else runs here, measure again, and let `specdec bench curve` time one row beside several"
_TOO_SLOW = f"plain decoding was slower than it can be: {_REMEDY}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure that cannot be: where it would have stood, and what is wrong with the measurement."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"

    def to_dict(self) -> dict[str, str]:
        """Plain data."""
        return {"where": self.where, "problem": self.problem}


def findings_of(problems: Mapping[str, str]) -> list[Finding]:
    """The findings among places and their problems; an empty problem is none."""
    return [Finding(where, problem) for where, problem in problems.items() if problem]


class _Printer(Protocol):
    def print(self, *objects: Any, style: str | None = None) -> None: ...


def exit_code(findings: Sequence[Finding], console: _Printer) -> int:
    """0 without findings; else they are printed, and 1 for the command to end with."""
    for finding in findings:
        console.print(f"REFUSED {finding}", style="bold magenta")
    return 1 if findings else 0


@dataclass(frozen=True, slots=True)
class Speedup:
    """A measured speed-up beside the tokens a round emitted and the ends of its interval, if it has one.

    `baseline` says what is known to be wrong with the plain arm: then no speed-up over it is shown.
    """

    value: float | None
    tokens: float
    low: float | None = None
    high: float | None = None
    baseline: str = ""

    @classmethod
    def of_traces(cls, plain: Sequence[Trace], fast: Sequence[Trace], value: float | None = None) -> "Speedup":
        """From traces in pairs, the i-th plain one beside the i-th speculative one; `value` replaces the pooled ratio.

        The interval is the range over the pairs, each in units of its own tokens a round. One pair has none.
        """
        tokens = summarize(fast).mean_acceptance_length or 1.0
        value = speedup(plain, fast) if value is None else value
        shares = []
        for one, other in zip(plain, fast):
            ratio, own = speedup([one], [other]), summarize(other).mean_acceptance_length
            if ratio is not None and own:
                shares.append(ratio / own)
        low = high = None
        if value is not None and len(shares) > 1:
            # the pooled ratio weighs the pairs by their length; it belongs to the range all the same
            low, high = min(value, tokens * min(shares)), max(value, tokens * max(shares))
        return cls(value, tokens, low, high, trace_problem([*plain, *fast]) or pass_problem(plain, fast))

    @classmethod
    def of_row(cls, row: Mapping[str, Any], baseline: str = "") -> "Speedup":
        """From a row of a `specdec bench speedup` file."""
        return cls(row["speedup"], row["tokens_per_round"], row["low"], row["high"], baseline)

    @property
    def problem(self) -> str:
        """What is wrong, in words without the figure; empty when nothing is."""
        if self.baseline or self.value is None:
            return self.baseline
        if not (math.isfinite(self.value) and self.value > 0 and math.isfinite(self.tokens)):
            return (
                f"a speed-up of {self.value} at {self.tokens} tokens a round is none: the clock or the counts are wrong"
            )
        if said := tokens_problem(self.tokens):
            return said
        if self.low is not None and self.high is not None and not _inside(self.low, self.value, self.high):
            return (
                f"the speed-up lies outside its own interval, {self.low:.2f}..{self.high:.2f}: the two were not made "
                "from the same times"
            )
        if self._is_above and (self.low is None or self.low > self.tokens):
            return (
                f"the speed-up came out above the {self.tokens:.2f} tokens a round emits, which cannot be; {_TOO_SLOW}"
            )
        return ""

    @property
    def shown(self) -> str:
        """The figure, its limit where only noise puts it above, or `REFUSED`."""
        if self.problem:
            return REFUSED
        if self.value is None:
            return "-"
        return f"at most {self.tokens:.2f}x" if self._is_above else f"{self.value:.2f}x"

    @property
    def interval(self) -> str:
        """The interval; an upper end that only noise puts above the tokens of a round is not given."""
        if self.problem or self.low is None or self.high is None:
            return "-"
        above = self.high > self.tokens * (1 + _ROUNDING)
        return f"{self.low:.2f}..{f'over {self.tokens:.2f}' if above else f'{self.high:.2f}'}"

    @property
    def possible(self) -> float | None:
        """The number to draw or to judge a prediction by: the figure, its limit, or None where it is refused."""
        return None if self.problem or self.value is None else min(self.value, self.tokens)

    @property
    def _is_above(self) -> bool:
        return self.value is not None and self.value > self.tokens * (1 + _ROUNDING)


def trace_problem(traces: Iterable[Trace]) -> str:
    """What is wrong with the seconds of these traces; empty when nothing is."""
    for trace in traces:
        for entry in trace.rounds:
            for what in ("t_draft_s", "t_verify_s", "t_host_s"):
                if not (math.isfinite(seconds := getattr(entry, what)) and seconds >= 0):
                    return f"round {entry.index} has {what} {seconds}: the clock went wrong"
    return ""


def pass_problem(plain: Sequence[Trace], fast: Sequence[Trace]) -> str:
    """What is wrong when passes over several rows took less than those over one, judged from the traces themselves.

    Beyond noise: half of the longer passes are faster, by 5 %, than three quarters of the plain ones.
    """
    one = [entry.t_verify_s for trace in plain for entry in trace.rounds if not entry.draft_tokens]
    more = [entry.t_verify_s for trace in fast for entry in trace.rounds if entry.draft_tokens]
    if len(one) < _FEW or len(more) < _FEW:
        return ""
    if statistics.median(more) * (1 + _FALL) >= statistics.quantiles(one, n=4)[0]:
        return ""
    return f"passes over several rows took less time than passes over one, so {_TOO_SLOW}"


def curve_noise(curve: CostCurve) -> float:
    """The share by which a pass of this curve may seem cheaper than one over a single row."""
    if curve.kind == "modelled":
        return _ROUNDING
    return _FALL if curve.hardware.get("repeats", 1) >= _FEW else _FALL_OF_FEW


def curve_problem(curve: CostCurve) -> str:
    """What is wrong with a cost curve; empty when nothing is.

    Beyond noise: half of the passes over k rows are faster, by `curve_noise`, than every pass over one.
    """
    times = [seconds for grid in (curve.median_s, curve.min_s) for line in grid for seconds in line]
    if not all(math.isfinite(seconds) and seconds > 0 for seconds in times):
        return f"a pass of {min(times)} to {max(times)} s is none: the clock went wrong"
    if curve.rows[0] != 1:
        return ""
    for held, medians, least in zip(curve.contexts, curve.median_s, curve.min_s):
        cheaper = [rows for rows, middle in zip(curve.rows, medians) if middle * (1 + curve_noise(curve)) < least[0]]
        if cheaper:
            rows = ", ".join(map(str, cheaper))
            return (
                f"with {held} tokens cached, passes over {rows} rows took less time than a pass over one row: one row "
                f"does not go the fastest way here, and every cost in steps of it is too low; {_REMEDY}"
            )
    return ""


def steps(curve: CostCurve, rows: int, context: float) -> str:
    """The cost of a pass in single steps as a cell: the figure, "~1" where only noise puts it below, or `REFUSED`."""
    return REFUSED if curve_problem(curve) else _at_least_one(curve.relative(rows, context), "")


def needed(value: float, curve: CostCurve, problem: str = "") -> str:
    """Tokens a round must emit to break even as a cell; as `steps`. `problem` is what `needed_problem` said."""
    return _at_least_one(value, problem or needed_problem(value, curve))


def needed_problem(value: float, curve: CostCurve) -> str:
    """What is wrong with a break-even point, given the curve it was made from; empty when nothing is."""
    if said := curve_problem(curve):
        return said
    if not math.isfinite(value):
        return f"a break-even of {value} tokens is none: the clock went wrong"
    if value < 1 - curve_noise(curve):
        return f"it would break even below one token a round, and every round emits at least one; {_TOO_SLOW}"
    return ""


def _at_least_one(value: float, problem: str) -> str:
    if problem:
        return REFUSED
    return "~1" if value < 1 else f"{value:.2f}"


def rate_problem(name: str, value: float | None, low: float | None = None, high: float | None = None) -> str:
    """What is wrong with a share of drafts, such as alpha, or with its interval; empty when nothing is."""
    if value is None:
        return ""
    if not 0 <= value <= 1:
        return f"{name} came out as {value:g}, and a share lies between 0 and 1: the counts are wrong"
    return _point_problem(name, value, low, high)


def tokens_problem(mean: float | None, low: float | None = None, high: float | None = None) -> str:
    """What is wrong with the tokens of a round, or with their interval; empty when nothing is."""
    if mean is not None and mean < 1 - _ROUNDING:
        return f"a round emitted {mean:.2f} tokens, and each emits at least one: the counts are wrong"
    return _point_problem("tokens a round", mean, low, high)


def _point_problem(name: str, value: float | None, low: float | None, high: float | None) -> str:
    """What is wrong with a figure and its interval: one that is no number, or that lies outside; empty when nothing."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return f"{name} came out as {value}: nothing was measured"
    if low is not None and high is not None and not _inside(low, value, high):
        return (
            f"{name} lies outside its own interval, {low:.3g}..{high:.3g}: the two were not made from the same counts"
        )
    return ""


def _inside(low: float, value: float, high: float) -> bool:
    slack = _ROUNDING * max(abs(low), abs(high), 1.0)
    return low - slack <= value <= high + slack


def machine_problem(machine: Hardware) -> str:
    """What is wrong with a machine's bandwidth and arithmetic; empty when nothing is."""
    figures = {"bytes_per_s": machine.bytes_per_s, **machine.flops_per_s}
    for name, value in figures.items():
        if not (math.isfinite(value) and value > 0):
            return f"{name} came out as {value}: the clock went wrong"
    # in float32, the product's own type: a processor may well have nothing for the others
    if "float32" in machine.flops_per_s and ridge_rows(machine, "float32") < 1:
        return (
            "the square product did less arithmetic a second than the matrix-vector product beside it, which leaves a "
            "ridge below one row: measure again on an idle machine"
        )
    return ""


def unscaled_rows(many: CostCurve, one: CostCurve) -> list[int]:
    """Rows whose pass is no faster with the threads of `many` than with the one thread of `one`, rising.

    No faster: the fastest pass gains less than 5 %. Rows and contexts that only one of them has are left out.
    """
    places = [(level, held) for level, held in enumerate(many.contexts) if held in one.contexts]
    rows = [count for count in many.rows if count in one.rows]
    if not places:
        return []
    level, held = places[0]
    alone = one.min_s[one.contexts.index(held)]
    return [
        count
        for count in rows
        if many.min_s[level][many.rows.index(count)] * (1 + _FALL) >= alone[one.rows.index(count)]
    ]
