"""The certificate: does the real engine, with its real noise, have the target's law?

The joint law of the first t tokens, for every t from 1 to gamma + 4, is computed from the target itself and
compared with what the engine produces. That span holds the prefill token, a round with everything accepted and
the start of another round that drafts, so recovered tokens, bonus tokens and a second round all occur, and
mistakes that only show there - a stale cache row, noise used again - are in reach.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from specdec_core.engine import Engine
from specdec_core.goodness import Fit, fit, power, samples_needed
from specdec_core.memo import MemoisedModel
from specdec_core.partition import LEAST_EXPECTED, LEAST_PROBABLE, Partition, partitions
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams

MAX_GAMMA = 16
"""The tests grow with the square of the span, and a longer one would find nothing but thinner cells."""

Progress = Callable[[int, int], None]
"""Called with (samples done, samples in all)."""


@dataclass(frozen=True, slots=True)
class PositionTest:
    """The test of the joint law of the tokens at `positions` (from 1) over `cells` cells."""

    positions: tuple[int, ...]
    cells: int
    fit: Fit

    @property
    def label(self) -> str:
        """Which tokens, in words."""
        first, last = self.positions[0], self.positions[-1]
        if len(self.positions) == 1:
            return f"token {last}"
        return f"tokens {first}-{last}" if len(self.positions) == last else f"tokens {first} and {last}"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The outcome of `certify`, with everything needed to repeat it.

    Attributes:
        tests: leading tokens and pairs of tokens, see `specdec_core.partition`.
        n: samples; `seed` with the request index selects the noise of each.
        bias, power: a law at total variation distance `bias` over a partition is caught with this probability
            at least (the lowest over the tests).
        level: false-alarm probability of the whole certificate (Bonferroni over the tests).
        p_value: smallest p-value times the number of tests, at most 1.
        coverage: rounds by kind over all samples, and samples with a second round.
        settings: rule, drafter, controller, prompt and sampling parameters.
    """

    tests: tuple[PositionTest, ...]
    n: int
    seed: int
    bias: float
    power: float
    level: float
    p_value: float
    coverage: dict[str, int]
    settings: dict[str, Any]

    @property
    def passed(self) -> bool:
        """Whether no test rejects the target's law."""
        return self.p_value >= self.level

    @property
    def conclusive(self) -> bool:
        """Whether a pass means something: the stated bias would more likely than not have been caught."""
        return self.power >= 0.5

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Events a certificate should have seen and did not."""
        return tuple(name for name in ("recovered", "bonus", "second_round") if not self.coverage.get(name))

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        worst = min(self.tests, key=lambda test: test.fit.p_value)
        if not self.passed:
            return (
                f"NOT the target's law: the joint law of {worst.label} differs "
                f"(p = {self.p_value:.2g} after {len(self.tests)} tests, n = {self.n}, seed {self.seed})."
            )
        if not self.conclusive:
            return (
                f"No verdict: nothing was found, but with n = {self.n} a distance of {self.bias:g} would be caught "
                f"with probability {self.power:.3f} only. Take more samples."
            )
        gaps = f" Not exercised: {', '.join(self.uncovered)}." if self.uncovered else ""
        return (
            f"Indistinguishable from the target's law over the first {self.tests[-1].positions[-1]} tokens: "
            f"p = {self.p_value:.2g}, n = {self.n}, seed {self.seed}; a distance of {self.bias:g} would be caught "
            f"with probability {self.power:.3f}, and the distance over the partition is at most "
            f"{max(test.fit.tv_upper for test in self.tests):.3f} (confidence {1 - self.level:.3f}).{gaps}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with `passed`, `conclusive` and `sentence`."""
        return {**asdict(self), "passed": self.passed, "conclusive": self.conclusive, "sentence": self.sentence}


def certify(
    engine: Engine,
    prompt: Sequence[int],
    params: SamplingParams,
    *,
    gamma: int,
    n: int | None = None,
    bias: float = 0.06,
    wanted_power: float = 0.99,
    level: float = 1e-3,
    seed: int = 0,
    max_cells: int = 40,
    oracle: MemoisedModel | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """A certificate for `engine` on `prompt`, over the next 1 .. gamma + 4 tokens.

    Args:
        engine: what is certified; put `MemoisedModel`s in it to sample faster.
        gamma: the engine's draft length; it sets how many tokens are covered.
        params: stochastic parameters; a small `top_k` keeps the partition fine. `seed` and `stop` are replaced:
            the noise comes from this function's `seed`, and no text ends early.
        n: samples; None takes what `wanted_power` against `bias` needs.
        oracle: the target behind a memo, for the exact laws; None makes one from the engine's target.
        progress: called now and then with (done, all).

    Raises:
        ValueError: greedy parameters (compare tokens instead: `certify_greedy`), or arguments out of range.
    """
    _check_arguments(params, gamma, n, bias=bias, wanted_power=wanted_power, level=level)
    params = replace(params, seed=seed, stop=())
    horizon = gamma + 4
    oracle = oracle or MemoisedModel(engine.target, capacity=len(prompt) + horizon)
    parts = partitions(oracle, tuple(prompt), params, horizon, max_cells, least=_least_probable(n))
    share = level / len(parts)
    if n is None:
        n = max(samples_needed(part.cells - 1, bias, share, wanted_power) for part in parts)
        if n * LEAST_PROBABLE < LEAST_EXPECTED:
            parts = partitions(oracle, tuple(prompt), params, horizon, max_cells, least=_least_probable(n))
            share = level / len(parts)
    samples, coverage = _sample(engine, prompt, params, horizon, n, progress)
    tests = tuple(_test(part, samples, share) for part in parts)
    return Certificate(
        tests=tests,
        n=n,
        seed=seed,
        bias=bias,
        power=min(power(n, test.cells - 1, bias, share) for test in tests),
        level=level,
        p_value=min(1.0, len(tests) * min(test.fit.p_value for test in tests)),
        coverage=coverage,
        settings={
            "rule": engine.rule.name,
            "drafter": None if engine.drafter is None else engine.drafter.name,
            "controller": engine.controller.name,
            "prompt": list(prompt),
            "params": params.to_dict(),
        },
    )


def _check_arguments(params: SamplingParams, gamma: int, n: int | None, **chances: float) -> None:
    if params.is_greedy:
        raise ValueError("params is greedy; its law is one text - use certify_greedy, which compares tokens")
    if not 0 <= gamma <= MAX_GAMMA or (n is not None and n < 1):
        raise ValueError(f"gamma is {gamma} and n is {n}; expected gamma in 0..{MAX_GAMMA} and n at least 1")
    for name, value in chances.items():
        if not 0 < value < 1:
            raise ValueError(f"{name} is {value:g}; expected a number between 0 and 1")


def _least_probable(n: int | None) -> float:
    return LEAST_PROBABLE if n is None else max(LEAST_PROBABLE, LEAST_EXPECTED / n)


def _sample(
    engine: Engine, prompt: Sequence[int], params: SamplingParams, horizon: int, n: int, progress: Progress | None
) -> tuple[Counter[tuple[int, ...]], dict[str, int]]:
    samples: Counter[tuple[int, ...]] = Counter()
    coverage: Counter[str] = Counter()
    for request in range(n):
        generation = engine.generate(prompt, params, horizon, request=request)
        if generation.finish_reason == "interrupted":
            raise KeyboardInterrupt
        samples[generation.tokens] += 1
        coverage.update(_events(generation.trace))
        if progress is not None and (request + 1) % 50 == 0:
            progress(request + 1, n)
    return samples, dict(coverage)


def _events(trace: Trace) -> list[str]:
    second_round = ["second_round"] if len(trace.rounds) > 1 else []
    return [round_.kind for round_ in trace.rounds] + second_round


def _test(part: Partition, samples: Counter[tuple[int, ...]], level: float) -> PositionTest:
    counts = [0] * part.cells
    for tokens, count in samples.items():
        counts[part.cell_of(tokens)] += count
    return PositionTest(part.positions, part.cells, fit(counts, part.probabilities, level))
