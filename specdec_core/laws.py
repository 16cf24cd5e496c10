"""Output laws by enumeration, in exact arithmetic: lossless is `output_law(...) == target_law(...)`.

The enumeration runs the very functions the engine samples with; only the coins differ.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from specdec_core.coins import Coins, branches
from specdec_core.residual import acceptance
from specdec_core.rules.verdict import Verdict

__all__ = ["ExactDraft", "acceptance", "deterministic_draft", "output_law", "sampled_draft", "target_law"]

Prefix = tuple[int, ...]
ExactLaw = Sequence[Fraction]
NextLaw = Callable[[Prefix], ExactLaw]
TokenLaw = dict[Prefix, Fraction]
ChainRule = Callable[[Sequence[int], Sequence[ExactLaw] | None, Sequence[ExactLaw], Coins], Verdict]

ExactDraft = Callable[[Prefix, int, Coins], tuple[Prefix, Sequence[ExactLaw] | None]]
"""(prefix, budget, coins) -> drafted tokens and the laws they were drawn from (None: deterministic)."""


def sampled_draft(draft: NextLaw, gamma: int) -> ExactDraft:
    """A drafter that draws up to `gamma` tokens in a chain from `draft`."""

    def propose(prefix: Prefix, budget: int, coins: Coins) -> tuple[Prefix, Sequence[ExactLaw]]:
        tokens: Prefix = ()
        laws: list[ExactLaw] = []
        for node in range(min(gamma, budget)):
            laws.append(draft(prefix + tokens))
            tokens += (coins.draw(laws[-1], node=node, purpose="draft"),)
        return tokens, laws

    return propose


def deterministic_draft(draft: Callable[[Prefix], int], gamma: int) -> ExactDraft:
    """A drafter that always proposes the same up to `gamma` tokens after a prefix."""

    def propose(prefix: Prefix, budget: int, coins: Coins) -> tuple[Prefix, None]:
        tokens: Prefix = ()
        for _ in range(min(gamma, budget)):
            tokens += (draft(prefix + tokens),)
        return tokens, None

    return propose


def target_law(target: NextLaw, prefix: Prefix, horizon: int) -> TokenLaw:
    """The law of the next `horizon` tokens under plain decoding; sequences of probability 0 are left out.

    Raises:
        ValueError: a negative horizon.
    """
    _check_horizon(horizon)
    law: TokenLaw = {(): Fraction(1)}
    for _ in range(horizon):
        law = {
            tokens + (token,): weight * chance
            for tokens, weight in law.items()
            for token, chance in enumerate(target(prefix + tokens))
            if chance
        }
    return law


def output_law(rule: ChainRule, target: NextLaw, draft: ExactDraft, prefix: Prefix, horizon: int) -> TokenLaw:
    """The law of the next `horizon` tokens under speculative decoding with `rule`.

    Rounds follow each other until `horizon` tokens are out; a round drafts at most one token fewer than are
    still wanted, as the engine does. Every way the coins can fall is visited; memoised by what has been emitted.

    Raises:
        ValueError: a negative horizon, a law that is not made of Fractions or ints, or a draft longer than its budget.
    """
    memo: dict[Prefix, TokenLaw] = {}

    def rest_law(emitted: Prefix) -> TokenLaw:
        wanted = horizon - len(emitted)
        if wanted == 0:
            return {(): Fraction(1)}
        if emitted not in memo:
            law: TokenLaw = {}
            start = prefix + emitted
            for weight, added in branches(lambda coins: _one_round(rule, target, draft, start, wanted, coins)):
                for tail, chance in rest_law(emitted + added).items():
                    law[added + tail] = law.get(added + tail, Fraction(0)) + weight * chance
            memo[emitted] = law
        return memo[emitted]

    _check_horizon(horizon)
    return rest_law(())


def _check_horizon(horizon: int) -> None:
    if horizon < 0:
        raise ValueError(f"horizon is {horizon}; expected the number of tokens, at least 0")


def _one_round(
    rule: ChainRule, target: NextLaw, draft: ExactDraft, prefix: Prefix, wanted: int, coins: Coins
) -> Prefix:
    tokens, laws = draft(prefix, wanted - 1, coins)
    if len(tokens) >= wanted:
        raise ValueError(f"draft proposed {len(tokens)} tokens; its budget was {wanted - 1}")
    target_laws = [target(prefix + tokens[:slot]) for slot in range(len(tokens) + 1)]
    verdict = rule(tokens, laws, target_laws, coins)
    return tuple(tokens[node] for node in verdict.path) + (verdict.next_token,)
