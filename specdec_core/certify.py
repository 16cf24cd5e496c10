"""The certificate: does the real engine, with its real noise, have the target's law?

The joint law of the first t tokens, for every t from 1 to gamma + 4, is computed from the target itself and
compared with what the engine produces. That span holds the prefill token, a round with everything accepted and
the start of another round that drafts, so recovered tokens, bonus tokens and a second round all occur, and
mistakes that only show there - a stale cache row, noise used again - are in reach.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaxtyping import Float64
from numpy import ndarray
import torch

from specdec_core.certificate import Certificate, PositionTest
from specdec_core.certify_law import Progress, certify_law
from specdec_core.certify_plan import MAX_HORIZON, Demand
from specdec_core.engine import Engine
from specdec_core.law_memo import RememberedParams
from specdec_core.memo import MemoisedModel
from specdec_core.models.protocol import LanguageModel
from specdec_core.partition import Tokens
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams

__all__ = ["MAX_GAMMA", "Certificate", "PositionTest", "Progress", "certify"]

_BEYOND_GAMMA = 4
MAX_GAMMA = MAX_HORIZON - _BEYOND_GAMMA
_BATCH = 50


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
    sequential: bool = False,
    oracle: MemoisedModel | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """A certificate for `engine` on `prompt`, over the next 1 .. gamma + 4 tokens.

    Args:
        engine: what is certified; put `MemoisedModel`s in it to sample faster.
        gamma: the engine's draft length; it sets how many tokens are covered.
        params: stochastic parameters; a small `top_k` keeps the partition fine. `seed` and `stop` are replaced:
            the noise comes from this function's `seed`, and no text ends early.
        n, bias, wanted_power, level, max_cells, sequential: as in `Demand`; sequential looks every 50 samples.
        oracle: the target behind a memo, for the exact laws; None takes the engine's target, behind a new memo if need
            be. When the engine reads its target through it too, a token of probability 0 fails the certificate.
        progress: called now and then with (done, all).

    Raises:
        ValueError: greedy parameters (compare tokens instead: `certify_greedy`), or arguments out of range.
    """
    if params.is_greedy:
        raise ValueError("params is greedy; its law is one text - use certify_greedy, which compares tokens")
    if not 0 <= gamma <= MAX_GAMMA:
        raise ValueError(f"gamma is {gamma}; expected 0..{MAX_GAMMA}")
    demand = Demand(
        horizon=gamma + _BEYOND_GAMMA,
        n=n,
        bias=bias,
        wanted_power=wanted_power,
        level=level,
        seed=seed,
        max_cells=max_cells,
        batch=_BATCH,
        sequential=sequential,
    )
    prompt = _checked(prompt, engine, demand.horizon)
    params = RememberedParams.of(replace(params, seed=seed, stop=()))
    oracle = oracle or _behind_memo(engine.target, len(prompt) + demand.horizon)
    runs = _Runs(engine, prompt, params, demand.horizon)
    return certify_law(
        runs.sample,
        OracleLaws(oracle, tuple(prompt), params),
        demand,
        settings=runs.settings(),
        # rows computed in passes of other sizes may rank two near-tied tokens at the edge of top-k differently
        check_support=engine.target is oracle,
        coverage=lambda: dict(runs.coverage),
        progress=progress,
    )


def _checked(prompt: Sequence[int], engine: Engine, horizon: int) -> tuple[int, ...]:
    """The prompt, refused before anything is computed, in the engine's words."""
    checked = engine.checked_prompt(prompt)
    if len(checked) + horizon > engine.target.max_length:
        raise ValueError(
            f"prompt has {len(checked)} tokens and {horizon} more are certified; the context is "
            f"{engine.target.max_length} - shorten the prompt or lower gamma"
        )
    return checked


def _behind_memo(target: LanguageModel, longest: int) -> MemoisedModel:
    return target if type(target) is MemoisedModel else MemoisedModel(target, capacity=longest)


class OracleLaws:
    """`NextLaws` of a target behind a memo, after a prompt and under sampling parameters."""

    def __init__(self, oracle: MemoisedModel, prompt: Tokens, params: SamplingParams) -> None:
        self._oracle, self._prompt, self._params = oracle, prompt, params

    def __call__(self, continuation: Tokens) -> Float64[ndarray, " vocab"]:
        """The target's law after the prompt and `continuation`."""
        prefix = self._prompt + continuation
        history = [prefix] if self._params.uses_history else None
        law = self._params.probs(self._oracle.logits_after(prefix)[None], history, prompt_length=len(self._prompt))[0]
        # a float32 law sums to 1 only to about 1e-7; a draw goes by ratios, and so must the cells
        exact = law.to(torch.float64).numpy()
        return exact / exact.sum()

    def prefetch(self, continuations: Sequence[Tokens]) -> None:
        """Computes the logits of all of them in few passes."""
        self._oracle.prefetch([self._prompt + continuation for continuation in continuations])


class _Runs:
    """Samples of an engine, and which kinds of round they held."""

    def __init__(self, engine: Engine, prompt: Sequence[int], params: SamplingParams, horizon: int) -> None:
        self.coverage: Counter[str] = Counter()
        self._engine, self._prompt, self._params, self._horizon = engine, prompt, params, horizon

    def settings(self) -> dict[str, Any]:
        """What was sampled."""
        drafter = self._engine.drafter
        return {
            "rule": self._engine.rule.name,
            "drafter": None if drafter is None else drafter.name,
            "controller": self._engine.controller.name,
            "prompt": list(self._prompt),
            "params": self._params.to_dict(),
        }

    def sample(self, first_request: int, count: int) -> list[Tokens]:
        """The texts of `count` requests."""
        texts: list[Tokens] = []
        for request in range(first_request, first_request + count):
            generation = self._engine.generate(self._prompt, self._params, self._horizon, request=request)
            if generation.finish_reason == "interrupted":
                raise KeyboardInterrupt
            texts.append(generation.tokens)
            self.coverage.update(_events(generation.trace))
        return texts


def _events(trace: Trace) -> list[str]:
    second_round = ["second_round"] if len(trace.rounds) > 1 else []
    return [round_.kind for round_ in trace.rounds] + second_round
