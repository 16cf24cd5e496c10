"""The smallest decoding loop: the rounds of the real rules and drafters, on laws given as functions of the text.

The same loop samples (float laws, `PhiloxCoins`) and enumerates (Fractions, `EnumeratingCoins`), so what an exact
test says about a piece of the museum holds for the very code that the certificate samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from specdec_core.coins import Coins, CoinSource, branches
from specdec_core.draft import DraftTree
from specdec_core.exact_drafts import ExactDraft, NextLaw, Prefix
from specdec_core.laws import TokenLaw
from specdec_core.random_laws import random_law
from specdec_core.recording import cut_at_stop
from specdec_core.rules import Verdict

AnyRule = Callable[..., Verdict]
"""(draft tokens or tree, draft laws, target laws, coins) -> Verdict; a mutant may take one kind of proposal only."""

Cut = Callable[[Prefix, Sequence[int]], Prefix]
"""(a round's tokens, stop tokens) -> what of them is emitted."""


@dataclass(frozen=True, slots=True)
class Laws:
    """The target's and the draft's next-token laws."""

    target: NextLaw
    draft: NextLaw

    def as_floats(self) -> "Laws":
        """The same laws in float64, remembered by prefix: sampling needs them many times."""
        return Laws(_in_floats(self.target), _in_floats(self.draft))


@dataclass(frozen=True, slots=True)
class Method:
    """A way to decode: how drafts are made and how they are judged."""

    draft: ExactDraft
    rule: AnyRule


def decode(
    method: Method,
    target: NextLaw,
    prompt: Prefix,
    wanted: int,
    source: CoinSource,
    *,
    request: int = 0,
    stop: Sequence[int] = (),
    cut: Cut = cut_at_stop,
) -> Prefix:
    """`wanted` tokens after `prompt`, or fewer when the last one is a stop token.

    A round drafts at most one token fewer than are still wanted, as the engine does.
    """
    text = prompt
    while (missing := len(prompt) + wanted - len(text)) > 0:
        coins = source.at(request=request, length=len(text))
        text += cut(play_round(method, target, text, missing, coins), stop)
        if text[-1] in stop:
            break
    return text[len(prompt) :]


def play_round(method: Method, target: NextLaw, text: Prefix, missing: int, coins: Coins) -> Prefix:
    """The tokens of one round: the accepted drafts and the token after them."""
    drafted, laws = method.draft(text, missing - 1, coins)
    tree = drafted if isinstance(drafted, DraftTree) else DraftTree.chain(drafted)
    paths = [tuple(tree.tokens[node] for node in path) for path in ((), *tree.paths())]
    verdict = method.rule(drafted, laws, [target(text + path) for path in paths], coins)
    return tuple(tree.tokens[node] for node in verdict.path) + (verdict.next_token,)


def law_of(run: Callable[[CoinSource], Prefix]) -> TokenLaw:
    """The exact law of what `run` returns, over every way its coins can fall."""
    law: TokenLaw = {}
    for weight, tokens in branches(run):
        law[tokens] = law.get(tokens, Fraction(0)) + weight
    return law


def distance(one: TokenLaw, other: TokenLaw) -> Fraction:
    """Total variation distance of two laws, exact."""
    tokens = {*one, *other}
    return sum((abs(one.get(t, Fraction(0)) - other.get(t, Fraction(0))) for t in tokens), Fraction(0)) / 2


def memory_laws(seed: int, vocab: int) -> Laws:
    """Laws that depend on every token before: without memory, stale rows and slips of position would not show."""
    return Laws(random_law(f"target {seed}", vocab, zeros=False), random_law(f"draft {seed}", vocab, zeros=False))


def fixed_law(*masses: Fraction) -> NextLaw:
    """The law that is the same after every text: the worked examples of the literature."""
    return lambda prefix: masses


def _in_floats(law: NextLaw) -> NextLaw:
    @cache
    def floats(prefix: Prefix) -> Sequence[float]:
        return [float(mass) for mass in law(prefix)]

    return floats  # type: ignore[return-value]  # the rules take float lists as they take Fractions
