"""Output laws by enumeration, in exact arithmetic: lossless is `output_law(...) == target_law(...)`.

The enumeration runs the very functions the engine samples with; only the coins differ.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from specdec_core.coins import Coins, branches
from specdec_core.draft import DraftTree
from specdec_core.exact_drafts import (
    ExactDraft,
    ExactLaw,
    NextLaw,
    Prefix,
    deterministic_draft,
    deterministic_tree,
    sampled_draft,
    tree_draft,
)
from specdec_core.residual import acceptance
from specdec_core.rules.verdict import Verdict

__all__ = [
    "ExactDraft",
    "acceptance",
    "deterministic_draft",
    "deterministic_tree",
    "mean_length",
    "output_law",
    "round_law",
    "sampled_draft",
    "target_law",
    "tree_draft",
]

TokenLaw = dict[Prefix, Fraction]
ExactRule = Callable[[Any, Sequence[ExactLaw] | None, Sequence[ExactLaw], Coins], Verdict]
"""(draft tokens or tree, draft laws, target laws, coins) -> Verdict, as the rules in `specdec_core.rules` are."""


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


def output_law(rule: ExactRule, target: NextLaw, draft: ExactDraft, prefix: Prefix, horizon: int) -> TokenLaw:
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
            for added, weight in round_law(rule, target, draft, prefix + emitted, wanted).items():
                for tail, chance in rest_law(emitted + added).items():
                    law[added + tail] = law.get(added + tail, Fraction(0)) + weight * chance
            memo[emitted] = law
        return memo[emitted]

    _check_horizon(horizon)
    return rest_law(())


def round_law(rule: ExactRule, target: NextLaw, draft: ExactDraft, prefix: Prefix, wanted: int) -> TokenLaw:
    """The law of what one round emits after `prefix`: its accepted drafts and the token after them, 1..`wanted` tokens.

    Raises:
        ValueError: `wanted` below 1, a law that is not made of Fractions or ints, or a draft longer than `wanted` - 1.
    """
    if wanted < 1:
        raise ValueError(f"wanted is {wanted}; a round emits at least 1 token")
    law: TokenLaw = {}
    for weight, emitted in branches(lambda coins: _one_round(rule, target, draft, prefix, wanted, coins)):
        law[emitted] = law.get(emitted, Fraction(0)) + weight
    return law


def mean_length(law: TokenLaw) -> Fraction:
    """The expected number of tokens of a text; for a `round_law` the tokens emitted a round, accepted + 1."""
    return sum((weight * len(text) for text, weight in law.items()), Fraction(0))


def _check_horizon(horizon: int) -> None:
    if horizon < 0:
        raise ValueError(f"horizon is {horizon}; expected the number of tokens, at least 0")


def _one_round(
    rule: ExactRule, target: NextLaw, draft: ExactDraft, prefix: Prefix, wanted: int, coins: Coins
) -> Prefix:
    drafted, laws = draft(prefix, wanted - 1, coins)
    tree = drafted if isinstance(drafted, DraftTree) else DraftTree.chain(drafted)
    depth = max(tree.depths, default=0)
    if depth >= wanted:
        raise ValueError(f"draft proposed {depth} tokens; its budget was {wanted - 1}")
    texts = [tuple(tree.tokens[node] for node in path) for path in ((), *tree.paths())]
    verdict = rule(drafted, laws, [target(prefix + text) for text in texts], coins)
    return tuple(tree.tokens[node] for node in verdict.path) + (verdict.next_token,)
