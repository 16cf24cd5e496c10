"""How much of each request's draft to verify in a batch, from estimates alone and without looking ahead."""

from collections.abc import Callable, Sequence
from fractions import Fraction

Number = float | Fraction


def prefix_lengths(
    conditional: Sequence[Sequence[Number]], steps_per_second: Callable[[int], Number]
) -> tuple[int, ...]:
    """Drafts to verify for each request, so that the batch emits many tokens a second.

    `conditional[r][j]` estimates the chance that draft j of request r is kept when those before it were; the survival
    a(r, j) is their running product. Drafts are admitted by falling survival, and as long as the throughput
    (requests + sum of admitted survivals) * `steps_per_second(requests + admitted)` rises; the first admission that
    does not raise it ends the search. Ties go to the earlier position, then to the lower request.

    Exact with every lossless rule if `conditional[r][j]` is known before draft j of request r is seen: whether draft j
    is verified then depends on nothing at j or behind it, because a request's survivals only fall and the search never
    goes on behind the first loss. Taking the best length over the *whole* curve looks ahead and is not exact.

    Raises:
        ValueError: a chance outside 0..1.

    Source: DSpark, the prefix scheduler and its appendix A.
    """
    candidates: list[tuple[Number, int, int]] = []
    for request, chances in enumerate(conditional):
        survival: Number = 1
        for place, chance in enumerate(chances):
            if not 0 <= chance <= 1:
                raise ValueError(f"conditional[{request}][{place}] is {chance}; expected a probability")
            survival = survival * chance
            candidates.append((-survival, place, request))
    lengths = [0] * len(conditional)
    tokens: Number = len(conditional)
    throughput = tokens * steps_per_second(len(conditional)) if conditional else 0
    for admitted, (negative, _, request) in enumerate(sorted(candidates), start=1):
        tokens = tokens - negative
        raised = tokens * steps_per_second(len(conditional) + admitted)
        if not raised > throughput:
            break
        throughput = raised
        lengths[request] += 1
    return tuple(lengths)
