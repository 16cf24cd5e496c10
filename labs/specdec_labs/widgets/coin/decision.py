"""One round with one draft by a method of the museum, its coins chosen by hand, told with its numbers."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from specdec_core.coins import Mass, Purpose, ScriptedCoins, Weights
from specdec_core.coins.weights import as_fractions
from specdec_labs.museum.decoding import Laws
from specdec_labs.museum.piece import MakeMethod
from specdec_labs.museum.through_coins import ThroughCoins


class _ChosenCoins(ThroughCoins):
    """The drafted token is chosen; u judges it and v draws what follows. Notes what it was asked."""

    def __init__(self, drafted: int, u: float, v: float) -> None:
        super().__init__(ScriptedCoins([]))
        self._accept, self._draw = ScriptedCoins([u]), ScriptedCoins([v])
        self._drafted = drafted
        self.is_possible = True
        self.asked: tuple[Mass, Mass] | None = None
        self.weights: list[Fraction] = []

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        self.asked = (p, q)
        return self._accept.accept(p, q, node=node)

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        if purpose == "draft":
            self.is_possible = bool(weights[self._drafted] > 0)
            return self._drafted
        exact = as_fractions(weights)
        self.weights = [weight / sum(exact) for weight in exact]
        return self._draw.draw(weights, node=node, purpose=purpose)


def decide(laws: Laws, make: MakeMethod, names: Sequence[str], drafted: int, u: float, v: float) -> dict[str, Any]:
    """What happens to the draft `drafted` at the uniforms `u` and `v`.

    Has drafted (the token really proposed: an argmax draft ignores the choice), is_possible, ratio (what u is compared
    with, exact and as a float; None when the code does not ask), accepted, emitted (the round's first token),
    source (what follows: the bonus or the token after a refusal), masses, token and say.
    """
    method = make(laws)
    coins = _ChosenCoins(drafted, u, v)
    tokens, reported = method.draft((), 1, coins)
    assert isinstance(tokens, tuple)
    target = laws.target(())
    verdict = method.rule(tokens, reported, [target, target], coins)
    accepted = verdict.num_accepted == 1
    ratio = None if coins.asked is None else _ratio(*coins.asked)
    found = {
        "drafted": tokens[0],
        "is_possible": coins.is_possible,
        "ratio": None if ratio is None else {"exact": str(ratio), "value": float(ratio)},
        "accepted": accepted,
        "emitted": tokens[0] if accepted else verdict.next_token,
        "source": verdict.kind,
        "masses": [float(weight) for weight in coins.weights],
        "token": verdict.next_token,
    }
    return {**found, "say": _sentence(found, names, u, v)}


def _ratio(p: Mass, q: Mass) -> Fraction:
    p, q = Fraction(p), Fraction(q)
    if q == 0:
        return Fraction(p > 0)
    return min(Fraction(1), p / q)


def _sentence(found: dict[str, Any], names: Sequence[str], u: float, v: float) -> str:
    drafted, token = names[found["drafted"]], names[found["token"]]
    if not found["is_possible"]:
        return f"The draft never proposes {drafted}: its q is 0. Choose another token."
    if found["ratio"] is None:
        why = "without asking u"
    elif found["ratio"]["value"] == 0:
        why = "the target gives it no mass, so no u can keep it"
    else:
        sign = "<" if found["accepted"] else "≥"
        why = f"u = {u:.3f} {sign} {found['ratio']['exact']}"
    if found["accepted"]:
        return f"{drafted} is kept ({why}). The bonus token, drawn from p at v = {v:.3f}, is {token}."
    return f"{drafted} is refused ({why}). The token in its place, drawn at v = {v:.3f}, is {token}."
