"""Seconds to draft K tokens and seconds outside the models, by drafter and K, in real rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
import math
import statistics
from typing import Any

from specdec_core.cost_curve import CostCurve
from specdec_core.models.protocol import LanguageModel
from specdec_core.prediction import RoundPrices
from specdec_core.warp import SamplingParams
from specdec_labs.bench.arms import PLAIN, Arm, ArmRun, Timing, run_arms, timing
from specdec_labs.bench.drafters import Factory
from specdec_labs.impossible import needed_problem


@dataclass(frozen=True, slots=True)
class DraftingCost:
    """A round of one drafter that sends all K drafts, in seconds; `needed` are the tokens it must emit to break even.

    `rounds` of them were timed; with 0 the costs are those of shorter drafts, the longest there were.
    """

    drafter: str
    gamma: int
    rounds: int
    draft_s: float
    verify_s: float
    host_s: float
    plain_s: float

    @property
    def needed(self) -> float:
        """Tokens a round must emit to be as fast as plain decoding."""
        return (self.draft_s + self.verify_s + self.host_s) / self.plain_s

    def problem(self, curve: CostCurve) -> str:
        """What is wrong with these prices, given the target's curve; empty when nothing is."""
        parts = (self.draft_s, self.verify_s, self.host_s)
        if not all(math.isfinite(part) and part >= 0 for part in parts):
            return f"parts of a round came out as {', '.join(f'{part:g}' for part in parts)} s: the clock went wrong"
        return needed_problem(self.needed, curve)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "needed": self.needed}


def drafting_costs(
    target: LanguageModel,
    factories: Mapping[str, Factory],
    gammas: Sequence[int],
    prompts: Sequence[Sequence[int]],
    curve: CostCurve,
    *,
    tokens: int,
) -> list[DraftingCost]:
    """The prices of every drafter and gamma from interleaved greedy runs, the verify pass from the cost curve.

    Raises:
        ValueError: a gamma that the curve has no rows for.
    """
    arms = [PLAIN, *(Arm(name, gamma) for name in factories for gamma in sorted(set(gammas)))]
    runs: list[ArmRun] = []
    for place, prompt in enumerate(prompts):
        runs += run_arms(target, factories, arms, prompt, SamplingParams(temperature=0), tokens, request=place)
    on_cpu = target.device.type == "cpu"

    def clean(arm: Arm) -> Timing | None:
        return timing([run for run in runs if run.arm == arm], on_cpu=on_cpu)

    plain = clean(PLAIN)
    if plain is None:
        raise ValueError(f"tokens is {tokens}, which leaves no round to measure; expected at least 2")
    plain_host = statistics.mean(entry.t_host_s for entry in plain.undisturbed)
    return [_cost(arm, clean(arm), curve, plain_host) for arm in arms[1:]]


def _cost(arm: Arm, time: Timing | None, curve: CostCurve, plain_host_s: float) -> DraftingCost:
    assert time is not None, "every arm has the plain arm's tokens"
    context = statistics.mean(entry.length - 1 for entry in time.undisturbed)
    prices = RoundPrices.from_rounds(time.undisturbed)
    return DraftingCost(
        drafter=arm.drafter,
        gamma=arm.gamma,
        rounds=sum(len(entry.draft_tokens) == arm.gamma for entry in time.undisturbed),
        draft_s=prices.of_drafting(arm.gamma),
        verify_s=curve.seconds(arm.gamma + 1, context),
        host_s=prices.of_host(arm.gamma),
        plain_s=curve.seconds(1, context) + plain_host_s,
    )
