"""The exact law of a decoder whose noise is keyed by position: a proof of what comes back, and what that does."""

from collections.abc import Collection
from fractions import Fraction

from specdec_core.coins import Coins, branches
from specdec_core.coins.protocol import Event, Mass, Purpose, Weights
from specdec_core.coins.weights import exact_mass
from specdec_core.laws import ExactRule
from specdec_labs.audit.tables import Tables

KEYED = ("draft", "accept")
"""The kinds of noise that can come back; a recovered or bonus token ends its round and its position never returns."""

Bounds = tuple[Fraction, Fraction]


def keyed_law(
    tables: Tables, rule: ExactRule, drafted: int, horizon: int, keyed: Collection[str] = KEYED
) -> dict[tuple[int, ...], Fraction]:
    """The law of the first `horizon` tokens when the kinds of noise in `keyed` are keyed by position, all else fresh.

    What a round has shown of a position's noise is remembered for the next: the drafted token, and the interval in
    which the number compared with acceptance chances must lie. Branches split that interval, so the law is exact.

    Raises:
        ValueError: keyed drafts of tables with memory, unless the drafts are deterministic: the noise would have to
            be followed for every context at once.
    """
    if "draft" in keyed and tables.order and not tables.has_deterministic_draft:
        raise ValueError(f"the tables look at {tables.order} tokens; keyed drafts are followed exactly without memory")

    def request(coins: Coins) -> tuple[int, ...]:
        emitted: tuple[int, ...] = ()
        noise: dict[int, int] = {}
        bounds: dict[int, Bounds] = {}
        while len(emitted) < horizon:
            start = len(emitted)
            drafts: list[int] = []
            for position in range(start, start + drafted):
                if "draft" not in keyed or position not in noise or tables.order:
                    law = tables.draft_after((*emitted, *drafts))
                    noise[position] = coins.draw(law, node=position - start, purpose="draft")
                drafts.append(noise[position])
            q = [tables.draft_after((*emitted, *drafts[:step])) for step in range(drafted)]
            p = [tables.target_after((*emitted, *drafts[:step])) for step in range(drafted + 1)]
            verdict = rule(drafts, q, p, _Remembering(coins, bounds, start) if "accept" in keyed else coins)
            emitted += (*drafts[: verdict.num_accepted], verdict.next_token)
        return emitted[:horizon]

    law: dict[tuple[int, ...], Fraction] = {}
    for weight, tokens in branches(request):
        law[tokens] = law.get(tokens, Fraction(0)) + weight
    return law


class _Remembering:
    """Coins of the round that starts at `start`: `accept` asks the number of its position, whatever the round."""

    def __init__(self, coins: Coins, bounds: dict[int, Bounds], start: int) -> None:
        self._coins, self._bounds, self._start = coins, bounds, start

    @property
    def events(self) -> list[Event]:
        """What has been asked."""
        return list(self._coins.events)

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        """Whether the position's number, uniform in what is left of its interval, is below p / q."""
        low, high = self._bounds.get(self._start + node, (Fraction(0), Fraction(1)))
        p, q = exact_mass(p, "p"), exact_mass(q, "q")
        chance = min(max(p / q if q else Fraction(p > 0), low), high)
        accepted = self._coins.accept(chance - low, high - low, node=node)
        self._bounds[self._start + node] = (low, chance) if accepted else (chance, high)
        return accepted

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        """Fresh."""
        return self._coins.draw(weights, node=node, purpose=purpose)

    def coupled(self) -> "_Remembering":
        """Refused, as by the coins behind."""
        self._coins.coupled()
        return self
