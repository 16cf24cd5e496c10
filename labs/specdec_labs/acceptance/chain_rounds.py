"""The rounds of a sampled chain on a recorded text, from the laws at every place: no drafting, the replay's outcome.

Source: the conditional law in `specdec_labs.acceptance.replay`; the same coins, so the same verdicts as its replay.
"""

from jaxtyping import Float
from torch import Tensor

from specdec_core.coins.noise import RoundCoins
from specdec_labs.acceptance.counts import Counts

Chances = Float[Tensor, "starts depth"]
"""q of the text's token at each step of a draft from each start; NaN behind the end of the text."""


def rounds_of_chain(
    drafted: Chances, target: Float[Tensor, " answer"], prompt_length: int, *, stops: bool, request: int, seed: int = 0
) -> Counts:
    """The rounds of drafts of `depth` tokens; `target[i]` is p of the answer's i-th token.

    `stops` is whether the text ended itself, so that its last rounds count.
    """
    starts, depth = drafted.shape
    q, p = drafted.tolist(), target.tolist()
    total, start = Counts(), 0
    while start < starts and (stops or start + depth < starts):
        coins = RoundCoins(seed, request, prompt_length + 1 + start)
        accepted = tested = 0
        while accepted < depth and start + accepted < starts:
            tested += 1
            if not coins.accept(q[start][accepted], p[1 + start + accepted], node=accepted):
                break
            accepted += 1
        positions = tuple((1, int(tested >= place), int(accepted >= place)) for place in range(1, depth + 1))
        emitted = min(accepted + 1, starts - start)
        total += Counts(1, emitted, depth, accepted, tested, positions)
        start += emitted
    return total
