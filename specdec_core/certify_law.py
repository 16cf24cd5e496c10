"""The part of a certificate that engines and functions share: take samples, test them against the exact law."""

from collections.abc import Callable, Iterable, Sequence
import math
import operator
from typing import Any

from numpy import ndarray

from specdec_core.certificate import Certificate, Impossible
from specdec_core.certify_plan import Demand, Plan, plan
from specdec_core.noise_cells import LawReader, Reader
from specdec_core.partition import NextLaws, Tokens
from specdec_core.tally import Tally

Sampler = Callable[[int, int], Iterable[Sequence[int]]]
"""(first request, count) -> `count` samples of at least `horizon` token ids each."""

Progress = Callable[[int, int], None]
"""Called with (samples done, samples in all)."""


def certify_law(
    sample: Sampler,
    laws: NextLaws,
    demand: Demand,
    *,
    settings: dict[str, Any],
    check_support: bool,
    first_request: int = 0,
    coverage: Callable[[], dict[str, int] | None] = lambda: None,
    progress: Progress | None = None,
) -> Certificate:
    """A certificate of whatever `sample` samples from, against `laws`.

    With `check_support` every token of every sample must have a positive probability; one that has not fails the
    certificate. `coverage` is asked after the last sample.

    Raises:
        ValueError: a law that leaves nothing to test, or samples that cannot be used (the sample is named).
    """
    return certify_planned(
        sample,
        plan(laws, demand),
        LawReader(laws, demand.seed),
        len(laws(())),
        demand,
        settings=settings,
        check_support=check_support,
        first_request=first_request,
        coverage=coverage,
        progress=progress,
    )


def certify_planned(
    sample: Sampler,
    planned: Plan,
    reader: Reader,
    vocab: int,
    demand: Demand,
    *,
    settings: dict[str, Any],
    check_support: bool,
    first_request: int = 0,
    coverage: Callable[[], dict[str, int] | None] = lambda: None,
    progress: Progress | None = None,
) -> Certificate:
    """The same by a plan that is made already, with a reader of its own: many certificates of one law."""
    tally = Tally(planned, demand)
    impossible, first_impossible = 0, None
    while tally.n < planned.n and not tally.is_decided:
        count, request = min(demand.batch, planned.n - tally.n), first_request + tally.n
        samples = checked_samples(sample(request, count), request, count, demand.horizon, vocab)
        readings = reader.read(samples)
        if check_support and readings.impossible:
            number, tokens = readings.impossible[0]
            first_impossible = first_impossible or (request + number, tokens)
            impossible += len(readings.impossible)
            tally.is_decided = demand.sequential
        tally.add(samples, readings)
        if progress is not None:
            progress(tally.n, planned.n)
    found: Impossible | None = first_impossible
    return Certificate(
        tests=tally.tests(),
        n=tally.n,
        seed=demand.seed,
        bias=demand.bias,
        power=planned.power,
        level=demand.level,
        p_value=0.0 if impossible else tally.p_value,
        coverage=coverage(),
        settings=settings,
        mode="sequential" if demand.sequential else "fixed",
        n_planned=planned.n,
        e_value=(math.inf if impossible else tally.e_value) if demand.sequential else None,
        impossible=impossible if check_support else None,
        first_impossible=found,
    )


def checked_samples(
    samples: Iterable[Sequence[int]], request: int, count: int, horizon: int, vocab: int
) -> list[Tokens]:
    """The first `horizon` tokens of each of the samples that `request` and the following were to give.

    Raises:
        ValueError: not `count` samples, one with fewer tokens, or something that is no id of the vocabulary.
    """
    if isinstance(samples, ndarray) and _are_ids(samples, horizon, vocab) and len(samples) == count:
        return list(map(tuple, samples[:, :horizon].tolist()))
    rows = _plain(samples)
    if len(rows) != count:
        raise ValueError(f"sample({request}, {count}) returned {len(rows)} samples; expected {count}")
    checked: list[Tokens] = []
    for number, row in enumerate(rows, start=request):
        tokens = _plain(row)[:horizon]
        if len(tokens) < horizon:
            raise ValueError(
                f"sample {number} has {len(tokens)} tokens; expected at least {horizon} (the horizon) - keep texts "
                "from ending early"
            )
        checked.append(tuple(_token_id(token, number, place, vocab) for place, token in enumerate(tokens)))
    return checked


def _are_ids(samples: ndarray, horizon: int, vocab: int) -> bool:
    """Whether an array needs no closer look, which finds the sample to name."""
    if samples.dtype.kind not in "iu" or samples.ndim != 2 or samples.shape[1] < horizon:
        return False
    own = samples[:, :horizon]
    return bool(((own >= 0) & (own < vocab)).all())


def _plain(values: Any) -> list[Any]:
    """A list; arrays and tensors become plain numbers in one go."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"sample returned {values!r} where token ids were expected; return a list of lists of ids")
    return list(values)


def _token_id(token: Any, number: int, place: int, vocab: int) -> int:
    try:
        whole = -1 if isinstance(token, bool) else operator.index(token)
    except TypeError:
        whole = -1
    if not 0 <= whole < vocab:
        raise ValueError(
            f"token {place + 1} of sample {number} is {token!r}; expected a token id, a whole number 0..{vocab - 1}"
        )
    return whole
