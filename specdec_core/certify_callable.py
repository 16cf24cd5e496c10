"""A certificate for any implementation, given as two functions: what it says, and what it should say."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from jaxtyping import Float64
import numpy as np
from numpy import ndarray
import torch
from torch import Tensor

from specdec_core.certificate import Certificate
from specdec_core.certify_law import Progress, Sampler, certify_law
from specdec_core.certify_plan import REQUESTS_PER_SEED, Demand
from specdec_core.partition import Tokens

__all__ = ["Law", "Sampler", "certify_callable"]

Law = Callable[[Tokens], Sequence[float] | Sequence[Fraction] | ndarray | Tensor]
"""Tokens so far -> next-token probabilities of the target: floats, Fractions, an array or a tensor.

It may miss a sum of 1 by 0.001, or by the spacing of its type at 1 (bfloat16: 0.0078), and is normalised. float16 makes
probabilities below 3e-8 zero, and a token of probability 0 fails the certificate: better give float32.
"""

_SUM_SLACK = 1e-3
MAX_SEED = (1 << 32) // REQUESTS_PER_SEED - 1
"""Requests have 32 bits."""

MAX_STORED = 1 << 25
"""Probabilities kept, 256 MB; a law met after that is asked for each time it is needed."""


def certify_callable(
    sample: Sampler,
    law: Law,
    *,
    horizon: int,
    n: int | None = None,
    bias: float = 0.06,
    wanted_power: float = 0.99,
    level: float = 1e-3,
    seed: int = 0,
    max_cells: int = 40,
    batch: int = 256,
    sequential: bool = False,
    settings: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """A certificate that the texts of `sample` have the joint law of `law` over their first `horizon` tokens.

    A token to which the law gives probability 0 fails it at once (p-value 0), whatever the tests say.

    Args:
        sample: sample(first_request, count) gives `count` samples of at least `horizon` token ids each; sample i
            uses the noise of request first_request + i. Samples are independent; a sampler with a random state of
            its own may ignore the request, and then the certificate cannot be repeated.
        law: law(tokens so far) gives the target's next-token probabilities, one for each id. It is asked for
            every text that is met, and has to give the same answer each time. See `Law`.
        horizon: tokens under test, at most 20; draft length + 4 covers a full round and the start of another.
        n, bias, wanted_power, level, max_cells, sequential: as in `Demand`.
        batch: samples asked for at a time. Each place in it, modulo 8, is tested for itself.
        seed: request numbers, of 32 bits, begin at seed * 2^20: another seed reads other noise; 0..4095.
        settings: kept in the certificate, to say what was audited.
        progress: called after each batch with (done, all).

    Raises:
        ValueError: arguments out of range or not callable; a law that is none (negative, not finite, not summing to
            1, of another length than the first) or that leaves nothing to test; samples that are too few or
            too short or hold something that is no token id.
    """
    _check_functions(sample=sample, law=law)
    demand = Demand(
        horizon=horizon,
        n=n,
        bias=bias,
        wanted_power=wanted_power,
        level=level,
        seed=seed,
        max_cells=max_cells,
        batch=batch,
        slots=True,
        sequential=sequential,
    )
    return certify_law(
        sample,
        CallableLaws(law),
        demand,
        settings=dict(settings or {}),
        check_support=True,
        first_request=_first_request(demand.seed),
        progress=progress,
    )


def _check_functions(**given: Any) -> None:
    for name, function in given.items():
        if not callable(function):
            raise ValueError(f"{name} is {type(function).__name__}, not callable; expected a function")


def _first_request(seed: int) -> int:
    if seed > MAX_SEED:
        raise ValueError(
            f"seed is {seed}; expected 0..{MAX_SEED}: requests, from seed * {REQUESTS_PER_SEED} on, have 32 bits"
        )
    return seed * REQUESTS_PER_SEED


class CallableLaws:
    """`NextLaws` of a function, checked; while there is room every text is asked for once."""

    def __init__(self, law: Law) -> None:
        self._law = law
        self._memo: dict[Tokens, Float64[ndarray, " vocab"]] = {}
        self._vocab: int | None = None

    def __call__(self, continuation: Tokens) -> Float64[ndarray, " vocab"]:
        """The law after `continuation`, made to sum to 1 exactly as far as float64 goes."""
        if continuation in self._memo:
            return self._memo[continuation]
        law = self._checked(continuation)
        if (len(self._memo) + 1) * len(law) <= MAX_STORED:
            self._memo[continuation] = law
        return law

    def prefetch(self, continuations: Sequence[Tokens]) -> None:
        """Nothing: a function is asked for one law at a time."""

    def _checked(self, continuation: Tokens) -> Float64[ndarray, " vocab"]:
        given = self._law(continuation)
        where = f"law({continuation})"
        try:
            slack = _sum_slack(given)
            if isinstance(given, Tensor):
                given = given.detach().to("cpu", torch.float64).numpy()
            values = given if isinstance(given, ndarray) else [float(value) for value in given]
            probabilities = np.array(values, dtype=np.float64)
            if probabilities.ndim != 1:
                raise ValueError(f"{probabilities.ndim} dimensions")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where} returned {given!r}; expected a probability for each token id") from error
        self._vocab = self._vocab or len(probabilities)
        if len(probabilities) != self._vocab:
            raise ValueError(
                f"{where} has {len(probabilities)} probabilities, law(()) has {self._vocab}; give every id one, 0 too"
            )
        total = float(probabilities.sum())
        if not (np.isfinite(probabilities).all() and (probabilities >= 0).all() and abs(total - 1) <= slack):
            raise ValueError(
                f"{where} is no law: probabilities are finite, not negative and sum to 1 to within {slack:.2g} (they "
                f"sum to {total:.6g}) - give the softmax after temperature, top-k and top-p, not logits; if rounding "
                "made the sum, compute it in float32 or float64"
            )
        return probabilities / total


def _sum_slack(given: Any) -> float:
    """How far a law of this type may sum from 1: rounding each entry moves the sum by half the spacing at 1.

    Raises:
        TypeError: a type that is no list of real numbers.
    """
    if isinstance(given, Mapping | set | frozenset | str | bytes):
        raise TypeError(f"{type(given).__name__} has no order of ids")
    if isinstance(given, Tensor):
        if given.is_complex():
            raise TypeError("complex numbers")
        return max(_SUM_SLACK, torch.finfo(given.dtype).eps) if given.is_floating_point() else _SUM_SLACK
    if np.iscomplexobj(given):
        raise TypeError("complex numbers")
    if isinstance(given, ndarray) and given.dtype.kind == "f":
        return max(_SUM_SLACK, float(np.finfo(given.dtype).eps))
    return _SUM_SLACK
