"""Plain and speculative decoding of one prompt side by side, one round of an arm after one round of another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
import statistics

from specdec_core.engine import Engine, Stream
from specdec_core.models.protocol import LanguageModel
from specdec_core.stopwatch import Lap, lap, undisturbed, usual_share
from specdec_core.trace import Round, Trace
from specdec_core.warp import SamplingParams
from specdec_labs.bench.drafters import Factory, rule_for


@dataclass(frozen=True, slots=True, order=True)
class Arm:
    """A drafter by name and a gamma; plain decoding is ("plain", 0)."""

    drafter: str
    gamma: int


PLAIN = Arm("plain", 0)


@dataclass(frozen=True, slots=True)
class ArmRun:
    """One generation of an arm: its trace, and a lap around every round."""

    arm: Arm
    trace: Trace
    laps: tuple[Lap, ...]


def run_arms(
    target: LanguageModel,
    factories: Mapping[str, Factory],
    arms: Sequence[Arm],
    prompt: Sequence[int],
    params: SamplingParams,
    max_new_tokens: int,
    *,
    request: int = 0,
) -> list[ArmRun]:
    """All arms decode the prompt at the same time, always the one that is least far takes the next round.

    So a slow spell of the machine hits all arms at the same place of the text. Prefills are not timed here (they are
    in the traces). The arms' texts have the same law, and at temperature 0 they are the same but for near-ties.
    """
    streams: dict[Arm, Stream] = {}
    laps: dict[Arm, list[Lap]] = {}
    for arm in arms:
        drafter = None if arm == PLAIN else factories[arm.drafter]()
        rule = "chain" if drafter is None else rule_for(drafter)
        streams[arm] = Engine(target, drafter, rule, arm.gamma).stream(prompt, params, max_new_tokens, request=request)
        laps[arm] = []
        next(streams[arm])
    # a stop token may already have come out of the prefill
    waiting = {arm: 1 for arm, stream in streams.items() if stream.generation.finish_reason == "interrupted"}
    while waiting:
        arm = min(waiting, key=lambda name: waiting[name])
        taken, step = lap(partial(next, streams[arm]))
        laps[arm].append(taken)
        waiting[arm] += len(step.tokens)
        if streams[arm].generation.finish_reason != "interrupted":
            del waiting[arm]
    return [ArmRun(arm, stream.generation.trace, tuple(laps[arm])) for arm, stream in streams.items()]


@dataclass(frozen=True, slots=True)
class Timing:
    """Rounds of one arm with clean times.

    Attributes:
        seconds: wall time of all rounds; a disturbed round counts with the median of the undisturbed ones that sent
            as many drafts.
        tokens: what the rounds emitted.
        undisturbed: the rounds that had their processors, to take prices from; their host time is all of the lap
            that is neither drafting nor the target's pass.
        disturbed: share of rounds that did not.
        by_run: seconds and tokens of each run, cleaned together with all the others: they add up to the totals, so an
            interval made of them is one of the very ratio that the totals give.
    """

    seconds: float
    tokens: int
    undisturbed: tuple[Round, ...]
    disturbed: float
    by_run: tuple[tuple[float, int], ...]

    @property
    def seconds_per_token(self) -> float:
        """Seconds / tokens."""
        return self.seconds / self.tokens


def timing(runs: Sequence[ArmRun], *, on_cpu: bool = True) -> Timing | None:
    """The clean times of these runs of one arm together, None when they have no round.

    A round is compared with those that sent as many drafts: how many processors a round uses depends on what it does.
    On an accelerator nothing is left out.
    """
    rounds = [entry for run in runs for entry in run.trace.rounds]
    laps = [entry for run in runs for entry in run.laps]
    if not rounds:
        return None
    groups: dict[int, list[int]] = {}
    for place, entry in enumerate(rounds):
        groups.setdefault(len(entry.draft_tokens), []).append(place)
    clean, good = [entry.wall_s for entry in laps], [True] * len(rounds)
    for places in groups.values():
        kept = undisturbed([laps[place] for place in places]) if on_cpu else [True] * len(places)
        usual = statistics.median(laps[place].wall_s for place, is_kept in zip(places, kept) if is_kept)
        for place, is_kept in zip(places, kept):
            good[place] = is_kept
            clean[place] = clean[place] if is_kept else usual
    waiting = iter(clean)
    by_run = [
        (sum(next(waiting) for _ in run.trace.rounds), sum(len(entry.emitted) for entry in run.trace.rounds))
        for run in runs
    ]
    return Timing(
        seconds=sum(seconds for seconds, _ in by_run),
        tokens=sum(tokens for _, tokens in by_run),
        undisturbed=tuple(_with_all_host(entry, time) for entry, time, kept in zip(rounds, laps, good) if kept),
        disturbed=1 - sum(good) / len(good),
        by_run=tuple(by_run),
    )


def processor_share(runs: Sequence[ArmRun]) -> float:
    """Processors the process had in its undisturbed rounds; far below the number of threads on a busy machine."""
    return usual_share([entry for run in runs for entry in run.laps])


def _with_all_host(entry: Round, time: Lap) -> Round:
    return replace(entry, t_host_s=time.wall_s - entry.t_draft_s - entry.t_verify_s)
