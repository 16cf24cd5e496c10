"""What a round costs by gamma, in plain steps, and what follows: speed-up, break-even, best gamma.

The textbook speed-up (`speed_formulas.speedup`) takes a verify pass to cost one step and the rest nothing. Here every
part has its own price per gamma, from a formula, from measured cost curves or from a roofline.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_core.arguments import check_number, check_whole
from specdec_core.cost_curve import CostCurve
from specdec_core.hardware_presets import Hardware
from specdec_core.model_shapes import ModelShape
from specdec_core.roofline import forward_time, forward_work
from specdec_core.speed_formulas import expected_tokens, implied_alpha


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Costs of a round that drafts 0, 1, 2, ... tokens (index = gamma), in units of one plain step.

    Attributes:
        draft: drafting all gamma tokens.
        verify: the target's pass over gamma + 1 rows.
        host: everything else of the round.
        origin: "formula", "measured" or "modelled", and from what; a label for plots.
    """

    draft: tuple[float, ...]
    verify: tuple[float, ...]
    host: tuple[float, ...]
    origin: str

    def __post_init__(self) -> None:
        if not len(self.draft) == len(self.verify) == len(self.host) > 0:
            raise ValueError(
                f"draft, verify and host have {len(self.draft)}, {len(self.verify)}, {len(self.host)} entries"
            )
        for name in ("draft", "verify", "host"):
            for gamma, cost in enumerate(getattr(self, name)):
                check_number(f"{name}[{gamma}]", cost, above=name == "verify")

    @property
    def largest_gamma(self) -> int:
        """The largest gamma there is a price for."""
        return len(self.draft) - 1

    def of_round(self, gamma: int) -> float:
        """Plain steps one round takes, which is also the tokens a round must emit to break even.

        Raises:
            ValueError: a gamma without a price.
        """
        if not 0 <= gamma <= self.largest_gamma:
            raise ValueError(f"gamma is {gamma}; there are prices for 0..{self.largest_gamma}")
        return self.draft[gamma] + self.verify[gamma] + self.host[gamma]

    def speedup(self, tokens_per_round: float, gamma: int) -> float:
        """Plain time / speculative time a token: tokens_per_round / cost of the round. Below 1 is slower."""
        return tokens_per_round / self.of_round(gamma)


def formula_costs(draft_cost: float, largest_gamma: int = 32) -> StepCosts:
    """The textbook's prices: gamma * c for drafting, 1 for any verify pass, nothing else.

    Source: Leviathan et al. 2211.17192, theorem 3.8.
    """
    check_number("draft_cost", draft_cost)
    check_whole("largest_gamma", largest_gamma, 0)
    gammas = range(largest_gamma + 1)
    draft = tuple(gamma * draft_cost for gamma in gammas)
    return StepCosts(draft, (1.0,) * len(gammas), (0.0,) * len(gammas), f"formula, c = {draft_cost:g}")


def curve_costs(
    target: CostCurve,
    draft: CostCurve | None,
    context: float,
    *,
    host_s: float = 0.0,
    draft_host_s: float = 0.0,
    largest_gamma: int | None = None,
) -> StepCosts:
    """Prices from cost curves: gamma single draft steps and a pass over gamma + 1 rows at `context` cached tokens.

    `host_s` is the seconds a round spends outside the models (a plain step too), `draft_host_s` those around one
    draft step. Without a `draft` curve drafting costs its host seconds alone, as n-gram lookup does.
    """
    largest = target.rows[-1] - 1 if largest_gamma is None else largest_gamma
    plain = target.seconds(1, context) + host_s
    step = draft_host_s + (draft.seconds(1, context) if draft is not None else 0.0)
    gammas = range(largest + 1)
    return StepCosts(
        draft=tuple(gamma * step / plain for gamma in gammas),
        verify=tuple(target.seconds(gamma + 1, context) / plain for gamma in gammas),
        host=tuple(host_s / plain for _ in gammas),
        origin=f"{target.kind} curve of {target.model}",
    )


def roofline_costs(
    target: ModelShape,
    draft: ModelShape | None,
    device: Hardware,
    *,
    context: int = 0,
    batch: int = 1,
    dtype: str = "float16",
    degree: int = 1,
    largest_gamma: int = 32,
) -> StepCosts:
    """Modelled prices of a batch: every sequence drafts gamma tokens, then one pass over batch * (gamma + 1) rows.

    The draft model runs on the same devices, split like the target.
    """

    def seconds(shape: ModelShape, rows: int) -> float:
        work = forward_work(shape, rows, context, batch=batch, dtype=dtype, degree=degree)
        return forward_time(work, device, dtype).seconds

    plain = seconds(target, 1)
    step = seconds(draft, 1) if draft is not None else 0.0
    gammas = range(largest_gamma + 1)
    return StepCosts(
        draft=tuple(gamma * step / plain for gamma in gammas),
        verify=tuple(seconds(target, gamma + 1) / plain for gamma in gammas),
        host=(0.0,) * len(gammas),
        origin=f"modelled: {target.name} on {degree} x {device.name}, batch {batch}",
    )


def break_even_alpha(costs: StepCosts, gamma: int) -> float | None:
    """The alpha at which a round of gamma drafts is as fast as plain decoding; None when no alpha is enough.

    Raises:
        ValueError: gamma below 1 or without a price.
    """
    if gamma < 1:
        raise ValueError(f"gamma is {gamma}; expected at least 1, since gamma 0 is plain decoding")
    # a round cheaper than a plain step needs no draft accepted
    return implied_alpha(max(1.0, costs.of_round(gamma)), gamma)


def best_gamma_of(costs: StepCosts, alpha: float) -> tuple[int, float]:
    """The gamma of largest speed-up at this alpha and that speed-up; (0, 1.0), plain decoding, when none gains."""
    gains = [1.0] + [costs.speedup(float(expected_tokens(alpha, g)), g) for g in range(1, costs.largest_gamma + 1)]
    best = max(range(len(gains)), key=lambda gamma: (gains[gamma], -gamma))
    return best, gains[best]


@dataclass(frozen=True, slots=True)
class SpeedupMap:
    """Speed-ups over alpha and gamma, for a heat map with its break-even contour and its ridge.

    Attributes:
        alphas, gammas: the axes.
        values: speed-up, [alpha][gamma].
        break_even: by gamma, the alpha that breaks even (None: none does).
        best_gamma, best_speedup: by alpha, over all priced gammas; gamma 0 and 1.0 where nothing gains.
        origin: whose prices.
    """

    alphas: tuple[float, ...]
    gammas: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    break_even: tuple[float | None, ...]
    best_gamma: tuple[int, ...]
    best_speedup: tuple[float, ...]
    origin: str


def speedup_map(costs: StepCosts, alphas: Sequence[float], gammas: Sequence[int] | None = None) -> SpeedupMap:
    """The speed-up at every alpha and gamma when each tested draft is kept with alpha, independently."""
    chosen = tuple(range(1, costs.largest_gamma + 1)) if gammas is None else tuple(gammas)
    values = tuple(
        tuple(costs.speedup(float(expected_tokens(alpha, gamma)), gamma) for gamma in chosen) for alpha in alphas
    )
    best = [best_gamma_of(costs, alpha) for alpha in alphas]
    return SpeedupMap(
        alphas=tuple(alphas),
        gammas=chosen,
        values=values,
        break_even=tuple(break_even_alpha(costs, gamma) if gamma else None for gamma in chosen),
        best_gamma=tuple(gamma for gamma, _ in best),
        best_speedup=tuple(gain for _, gain in best),
        origin=costs.origin,
    )
