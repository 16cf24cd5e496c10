"""The metrics of the lab, computed from traces; `docs/counting.md` maps them to what engines report."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specdec_core.trace import Round, Trace


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counts and rates over one or more traces; a rate without a denominator is None.

    Attributes:
        rounds: verify passes.
        drafted: drafts sent to verification.
        accepted: drafts kept and emitted.
        tested: drafts that were judged; nothing behind a refusal was.
        emitted: all tokens, the prefill token included.
        acceptance_rate: accepted / drafted.
        mean_acceptance_length: tokens emitted by rounds / rounds (plain decoding: 1.0).
        alpha: accepted / tested, the acceptance probability the formulas want.
        acceptance_per_position: accepted at i / rounds that drafted position i (survival).
        conditional_acceptance: accepted at i / rounds that drafted i and accepted everything before it.
        tokens_per_s: tokens emitted by rounds / their wall time.
    """

    rounds: int
    drafted: int
    accepted: int
    tested: int
    emitted: int
    acceptance_rate: float | None
    mean_acceptance_length: float | None
    alpha: float | None
    acceptance_per_position: tuple[float | None, ...]
    conditional_acceptance: tuple[float | None, ...]
    tokens_per_s: float | None


def summarize(traces: Trace | Iterable[Trace]) -> Metrics:
    """The metrics of a trace, or of several taken together."""
    traces = [traces] if isinstance(traces, Trace) else list(traces)
    rounds = [round_ for trace in traces for round_ in trace.rounds]
    drafted = sum(len(round_.draft_tokens) for round_ in rounds)
    accepted = sum(round_.num_accepted for round_ in rounds)
    tested = sum(round_.num_tested for round_ in rounds)
    from_rounds = sum(len(round_.emitted) for round_ in rounds)
    seconds = sum(round_.t_draft_s + round_.t_verify_s + round_.t_host_s for round_ in rounds)
    survival, conditional = _by_position(rounds)
    return Metrics(
        rounds=len(rounds),
        drafted=drafted,
        accepted=accepted,
        tested=tested,
        emitted=sum(len(trace.emitted) for trace in traces),
        acceptance_rate=_ratio(accepted, drafted),
        mean_acceptance_length=_ratio(from_rounds, len(rounds)),
        alpha=_ratio(accepted, tested),
        acceptance_per_position=survival,
        conditional_acceptance=conditional,
        tokens_per_s=_ratio(from_rounds, seconds),
    )


def speedup(plain: Sequence[Trace], speculative: Sequence[Trace]) -> float | None:
    """Plain seconds per token / speculative seconds per token, rounds only; None when either has no round.

    Meaningful only for traces of the same prompts from interleaved runs of one process.
    """
    slow, fast = summarize(plain).tokens_per_s, summarize(speculative).tokens_per_s
    return None if slow is None or fast is None else fast / slow


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _by_position(rounds: Sequence[Round]) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Survival and conditional acceptance at depth 1, 2, ... along the walked path."""
    depth = max((_drafted_depth(round_) for round_ in rounds), default=0)
    survival, conditional = [], []
    for position in range(1, depth + 1):
        drafted = [round_ for round_ in rounds if _drafted_depth(round_) >= position]
        tested = [round_ for round_ in drafted if round_.num_tested >= position]
        accepted = sum(round_.num_accepted >= position for round_ in drafted)
        survival.append(_ratio(accepted, len(drafted)))
        conditional.append(_ratio(accepted, len(tested)))
    return tuple(survival), tuple(conditional)


def _drafted_depth(round_: Round) -> int:
    depths: list[int] = []
    for parent in round_.draft_parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return max(depths, default=0)
