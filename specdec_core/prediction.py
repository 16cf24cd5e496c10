"""Predicts a speed-up from survival per position, a cost curve and the measured prices of drafting and host work.

S = E[tokens] * (T(1) + plain host) / (drafting + T(rows) + host), with every term a mean over the rounds' own numbers
of rows and contexts: rounds in which nothing was drafted and the short last rounds of a budget are in it. The
statistics may come from other prompts than those the prediction is for; that is the point.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
import statistics
from typing import Any

from specdec_core.cost_curve import CostCurve
from specdec_core.metrics import summarize
from specdec_core.trace import Round, Trace


@dataclass(frozen=True, slots=True)
class RowShare:
    """Rounds that sent the same number of drafts: their share of all, and their mean number of cached tokens."""

    drafted: int
    share: float
    context: float


@dataclass(frozen=True, slots=True)
class TraceStats:
    """What rounds of one drafter at one gamma say about the next ones.

    Attributes:
        rounds: how many.
        shares: how many drafts they sent.
        reach: share of rounds that drafted at depth 1, 2, ...
        survival: of those, the share that accepted at this depth.
        stopped: share of rounds that a stop token cut before their last token.
        plain_context: mean number of cached tokens over the plain steps that would have emitted the same tokens. It
            is not the rounds' mean: where much is accepted there are few rounds.
        alpha: accepted / tested; None when nothing was tested.
    """

    rounds: int
    shares: tuple[RowShare, ...]
    reach: tuple[float, ...]
    survival: tuple[float, ...]
    stopped: float
    plain_context: float
    alpha: float | None

    @property
    def tokens_per_round(self) -> float:
        """1 + sum over depths of reach * survival, less the last tokens that a stop cut off."""
        return 1 + sum(reached * kept for reached, kept in zip(self.reach, self.survival)) - self.stopped

    @classmethod
    def from_traces(cls, traces: Iterable[Trace]) -> "TraceStats":
        """The statistics of all rounds of the traces.

        Raises:
            ValueError: no round at all.
        """
        traces = list(traces)
        rounds = [entry for trace in traces for entry in trace.rounds]
        if not rounds:
            raise ValueError("the traces have no rounds; generate at least two tokens")
        found = summarize(traces)
        depths = [_depth(entry) for entry in rounds]
        reach = [sum(depth >= place for depth in depths) / len(rounds) for place in range(1, max(depths) + 1)]
        return cls(
            rounds=len(rounds),
            shares=_shares(rounds),
            reach=tuple(reach),
            survival=tuple(kept or 0.0 for kept in found.acceptance_per_position),
            stopped=sum(entry.kind == "stopped" for entry in rounds) / len(rounds),
            plain_context=_plain_context(rounds),
            alpha=found.alpha,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "tokens_per_round": self.tokens_per_round}


@dataclass(frozen=True, slots=True)
class RoundPrices:
    """Mean seconds of drafting and of host work (all but the forwards and drafting) by number of drafts sent."""

    draft_s: Mapping[int, float]
    host_s: Mapping[int, float]

    @classmethod
    def from_rounds(cls, rounds: Iterable[Round]) -> "RoundPrices":
        """The means of these rounds; leave out rounds during which the machine did something else.

        Raises:
            ValueError: no round.
        """
        by_drafted: dict[int, list[Round]] = {}
        for entry in rounds:
            by_drafted.setdefault(len(entry.draft_tokens), []).append(entry)
        if not by_drafted:
            raise ValueError("there is no round to take prices from")
        return cls(
            {count: statistics.mean(entry.t_draft_s for entry in group) for count, group in by_drafted.items()},
            {count: statistics.mean(entry.t_host_s for entry in group) for count, group in by_drafted.items()},
        )

    def of_drafting(self, drafted: int) -> float:
        """Seconds to draft; counts that did not occur lie on the line between those that did."""
        return _on_line(self.draft_s, drafted)

    def of_host(self, drafted: int) -> float:
        """Seconds of host work."""
        return _on_line(self.host_s, drafted)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted speed-up and its parts, in seconds: `plain_s` a plain step, the others the parts of a mean round."""

    tokens_per_round: float
    plain_s: float
    draft_s: float
    verify_s: float
    host_s: float

    @property
    def round_s(self) -> float:
        """Seconds of a round."""
        return self.draft_s + self.verify_s + self.host_s

    @property
    def break_even_tokens(self) -> float:
        """Tokens a round must emit to be as fast as plain decoding."""
        return self.round_s / self.plain_s

    @property
    def speedup(self) -> float:
        """Plain seconds a token / speculative seconds a token; below 1 is slower."""
        return self.tokens_per_round / self.break_even_tokens

    def to_dict(self) -> dict[str, float]:
        """Plain data, with what follows from it."""
        return {**asdict(self), "break_even_tokens": self.break_even_tokens, "speedup": self.speedup}


def predict(stats: TraceStats, curve: CostCurve, prices: RoundPrices, *, plain_host_s: float = 0.0) -> Prediction:
    """The speed-up that rounds like those of `stats` have on the machine of `curve` and `prices`.

    `plain_host_s` is what a plain step spends outside the model.

    Raises:
        ValueError: a round with more rows than the curve has.
    """
    verify = sum(entry.share * curve.seconds(entry.drafted + 1, entry.context) for entry in stats.shares)
    plain = curve.seconds(1, stats.plain_context) + plain_host_s
    return Prediction(
        tokens_per_round=stats.tokens_per_round,
        plain_s=plain,
        draft_s=sum(entry.share * prices.of_drafting(entry.drafted) for entry in stats.shares),
        verify_s=verify,
        host_s=sum(entry.share * prices.of_host(entry.drafted) for entry in stats.shares),
    )


def _shares(rounds: Sequence[Round]) -> tuple[RowShare, ...]:
    contexts: dict[int, list[int]] = {}
    for entry in rounds:
        # the pending token is not cached yet
        contexts.setdefault(len(entry.draft_tokens), []).append(entry.length - 1)
    return tuple(
        RowShare(drafted, len(held) / len(rounds), statistics.mean(held)) for drafted, held in sorted(contexts.items())
    )


def _plain_context(rounds: Sequence[Round]) -> float:
    held = [entry.length - 1 + place for entry in rounds for place in range(len(entry.emitted))]
    return statistics.mean(held)


def _depth(entry: Round) -> int:
    depths: list[int] = []
    for parent in entry.draft_parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return max(depths, default=0)


def _on_line(known: Mapping[int, float], place: int) -> float:
    if place in known:
        return known[place]
    places = sorted(known)
    right = bisect_left(places, place)
    if right in (0, len(places)):
        return known[places[min(right, len(places) - 1)]]
    low, high = places[right - 1], places[right]
    return known[low] + (place - low) / (high - low) * (known[high] - known[low])
