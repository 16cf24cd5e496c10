"""Mistakes in the comparison itself: argmax at temperature above 0, a threshold, `<=`."""

from collections.abc import Callable
from fractions import Fraction

from specdec_core.coins import Mass, ScriptedCoins
from specdec_core.exact_drafts import sampled_draft
from specdec_core.rules import verify_chain, verify_greedy, verify_relaxed
from specdec_labs.museum.decoding import Laws, Method, memory_laws
from specdec_labs.museum.piece import Evidence, Instance, MakeMethod, Piece

GAMMA = 2
GRID = 1 << 32
"""Uniforms of the production coins are k / 2^32."""


def sampling_right(laws: Laws) -> Method:
    """The chain rule on sampled drafts."""
    return Method(sampled_draft(laws.draft, GAMMA), verify_chain)


def argmax_verify(laws: Laws) -> Method:
    """The greedy rule, used above temperature 0."""
    return Method(sampled_draft(laws.draft, GAMMA), verify_greedy)


def threshold_verify(laws: Laws) -> Method:
    """The relaxed rule (p / q against u times one half), offered as lossless."""
    return Method(sampled_draft(laws.draft, GAMMA), verify_relaxed)


def equal_models_accept_all(make: MakeMethod) -> Evidence:
    """With p = q every draft is kept, whatever its number: the ratio is 1."""
    law = (Fraction(3, 5), Fraction(2, 5))
    rule = make(Laws(lambda prefix: law, lambda prefix: law)).rule
    kept = rule((1, 1), (law, law), (law, law, law), ScriptedCoins([0.999] * 3)).num_accepted
    return Evidence(kept == 2, f"p = q: {kept} of 2 drafts kept")


def refuses_at_the_ratio(make: MakeMethod) -> Evidence:
    """A draft with p / q = 1/2 is refused at u = 0.6."""
    p, q = (Fraction(1, 4), Fraction(3, 4)), (Fraction(1, 2), Fraction(1, 2))
    rule = make(Laws(lambda prefix: p, lambda prefix: q)).rule
    kept = rule((0,), (q,), (p, p), ScriptedCoins([0.6, 0.5])).num_accepted
    return Evidence(kept == 0, f"p/q = 0.5, u = 0.6: {'refused' if kept == 0 else 'kept'}")


class AcceptsAtEquality(ScriptedCoins):
    """Coins with `<=` where `<` belongs."""

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        """True when `u * q <= p`."""
        return self._next("accept", node) * q <= p


CoinsOf = Callable[[list[float]], ScriptedCoins]


def acceptance_on_the_grid(coins_of: CoinsOf, p: float, q: float) -> Fraction:
    """The exact chance of `accept(p, q)` when u is uniform on k / 2^32: the accepted k are counted by bisection."""
    low, high = 0, GRID
    while low < high:
        middle = (low + high) // 2
        if coins_of([middle / GRID]).accept(p, q, node=0):
            low = middle + 1
        else:
            high = middle
    return Fraction(low, GRID)


def impossible_token_on_the_grid(coins_of: CoinsOf) -> Evidence:
    """A draft with p = 0 has no chance at all, not even one in 2^32."""
    chance = acceptance_on_the_grid(coins_of, 0.0, 0.5)
    return Evidence(chance == 0, f"with p = 0 accepted with probability {chance}")


def refuses_at_zero(coins_of: CoinsOf) -> Evidence:
    """u = 0 and p = 0 (a token the target's top-k removed): refused."""
    p, q = [0.6, 0.4, 0.0], [0.2, 0.3, 0.5]
    verdict = verify_chain((2,), (q,), (p, p), coins_of([0.0, 0.0]))  # type: ignore[arg-type]
    return Evidence(verdict.num_accepted == 0, f"u = 0, p = 0: {'refused' if verdict.num_accepted == 0 else 'kept'}")


_ARGMAX = Instance(memory_laws(0, 3), horizon=4)
_THRESHOLD = Instance(memory_laws(1, 3), horizon=4)

ARGMAX_VERIFY = Piece(
    name="argmax_verify",
    title="argmax verify at T>0",
    symptom="Every sample is the greedy text; accuracy tests at T>0 shift, nothing crashes.",
    cause="A back end without the sampling kernel falls back to comparing drafts with the target's argmax.",
    met_in="sgl-project/sglang #39253",
    fix="Verify with the rule that fits the temperature; the engine refuses rule `greedy` above 0.",
    wrong=argmax_verify,
    right=sampling_right,
    exact_check=_ARGMAX.exact_check,
    property_check=equal_models_accept_all,
    certificate=_ARGMAX.certificate(argmax_verify, 200),
)

LOSSY_THRESHOLD = Piece(
    name="lossy_threshold",
    title="lossy threshold called lossless",
    symptom="More drafts accepted at no visible price; the page still says lossless.",
    cause="The ratio is compared with u times a threshold below 1, so drafts pass that the target would refuse.",
    met_in="a documented option of serving engines, for instance SGLang's --speculative-accept-threshold-acc "
    "(sgl-project/sglang #7702 says that it shifts the law); no report known to us that calls it lossless",
    fix="Threshold 1 is the exact rule. Anything below is labelled lossy, with its measured distance.",
    wrong=threshold_verify,
    right=sampling_right,
    exact_check=_THRESHOLD.exact_check,
    property_check=refuses_at_the_ratio,
    certificate=_THRESHOLD.certificate(threshold_verify, 200),
)

ACCEPT_AT_EQUALITY = Piece(
    name="accept_at_equality",
    title="`<=` at u=0",
    symptom="Once in billions of drafts a token appears that top-k had removed.",
    cause="u * q <= p instead of <: at u = 0 a draft with p = 0 passes.",
    met_in="sgl-project/sglang #35771",
    fix="The comparison is strict.",
    wrong=AcceptsAtEquality,
    right=ScriptedCoins,
    exact_check=impossible_token_on_the_grid,
    property_check=refuses_at_zero,
    certificate=None,
    instead="an event of probability 2^-32 a draft; counted exactly on the grid of uniforms, and scripted at u = 0",
)
