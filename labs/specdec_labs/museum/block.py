"""Mistakes in block verification. The real function is `specdec_core.rules.block.verify_block`."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import Any

from specdec_core.coins import Coins, ScriptedCoins, branches
from specdec_core.exact_drafts import ExactLaw, Prefix, sampled_draft
from specdec_core.residual import residual, scaled_excess
from specdec_core.rules import Verdict, verify_block
from specdec_core.rules.checks import draft_laws
from specdec_core.rules.ratio import capped_ratio
from specdec_labs.museum.decoding import AnyRule, Laws, Method, memory_laws
from specdec_labs.museum.piece import Evidence, Instance, MakeMethod, Piece

GAMMA = 2


def with_rule(rule: AnyRule) -> MakeMethod:
    """Sampled drafts, judged by `rule`."""

    def make(laws: Laws) -> Method:
        return Method(sampled_draft(laws.draft, GAMMA), rule)

    return make


def laws_of_drafts(
    draft_tokens: Prefix, draft_probs: Sequence[ExactLaw] | None, target_probs: Sequence[ExactLaw]
) -> Sequence[ExactLaw]:
    """`draft_laws` of exact laws: one-hot rows where drafts came without laws, as in a round without drafts."""
    laws: Any = draft_laws(draft_tokens, draft_probs, target_probs)
    return laws


def token_rule_inside(
    draft_tokens: Prefix, draft_probs: Sequence[ExactLaw] | None, target_probs: Sequence[ExactLaw], coins: Coins
) -> Verdict:
    """Looks for the longest prefix like `verify_block`, with the chain's ratio p / q and the chain's residual."""
    laws = laws_of_drafts(draft_tokens, draft_probs, target_probs)
    kept = drafted = len(draft_tokens)
    while kept > 0:
        token, p, q = draft_tokens[kept - 1], target_probs[kept - 1], laws[kept - 1]
        if coins.accept(p[token], q[token], node=kept - 1):
            break
        kept -= 1
    return ended(kept, drafted, laws, target_probs, coins, weight=1)


def contiguous_prefix(
    draft_tokens: Prefix, draft_probs: Sequence[ExactLaw] | None, target_probs: Sequence[ExactLaw], coins: Coins
) -> Verdict:
    """`verify_block` that stops at the first prefix that fails, where the longest that passes should count."""
    drafted = len(draft_tokens)
    laws = laws_of_drafts(draft_tokens, draft_probs, target_probs)
    weights = prefix_weights(draft_tokens, laws, target_probs)
    kept = 0
    while kept < drafted:
        if not coins.accept(*passes(kept + 1, drafted, weights, laws, target_probs), node=kept):
            break
        kept += 1
    return ended(kept, drafted, laws, target_probs, coins, weight=weights[kept])


def residual_not_scaled(
    draft_tokens: Prefix, draft_probs: Sequence[ExactLaw] | None, target_probs: Sequence[ExactLaw], coins: Coins
) -> Verdict:
    """`verify_block` that redraws from max(p - q, 0) where max(w p - q, 0) belongs."""
    drafted = len(draft_tokens)
    laws = laws_of_drafts(draft_tokens, draft_probs, target_probs)
    weights = prefix_weights(draft_tokens, laws, target_probs)
    kept = longest_passing(drafted, weights, laws, target_probs, coins)
    return ended(kept, drafted, laws, target_probs, coins, weight=1)


def prefix_weights(
    draft_tokens: Prefix, draft_probs: Sequence[ExactLaw], target_probs: Sequence[ExactLaw]
) -> list[float | Fraction]:
    """w_0 = 1, w_i = min(1, w_{i-1} p_i(x_i) / q_i(x_i)): the chance that at least i drafts are kept."""
    weights: list[float | Fraction] = [1]
    for token, p, q in zip(draft_tokens, target_probs, draft_probs):
        weights.append(capped_ratio(weights[-1] * p[token], q[token]))
    return weights


def passes(
    kept: int,
    drafted: int,
    weights: Sequence[float | Fraction],
    draft_probs: Sequence[ExactLaw],
    target_probs: Sequence[ExactLaw],
) -> tuple[float | Fraction, float | Fraction]:
    """The chance that prefix `kept` passes, as `verify_block` has it: a numerator and a denominator."""
    if kept == drafted:
        return weights[kept], 1
    _, total = scaled_excess(target_probs[kept], draft_probs[kept], weights[kept])
    return total, total + (1 - weights[kept])


def longest_passing(
    drafted: int,
    weights: Sequence[float | Fraction],
    draft_probs: Sequence[ExactLaw],
    target_probs: Sequence[ExactLaw],
    coins: Coins,
) -> int:
    """The length of the longest prefix that passes, asked from the longest down."""
    kept = drafted
    while kept > 0 and not coins.accept(*passes(kept, drafted, weights, draft_probs, target_probs), node=kept - 1):
        kept -= 1
    return kept


def ended(
    kept: int,
    drafted: int,
    draft_probs: Sequence[ExactLaw],
    target_probs: Sequence[ExactLaw],
    coins: Coins,
    *,
    weight: float | Fraction,
) -> Verdict:
    """The verdict on prefix `kept`, its next token drawn from max(weight p - q, 0)."""
    path = tuple(range(kept))
    if kept == drafted:
        return Verdict(kept, path, coins.draw(target_probs[kept], node=kept, purpose="bonus"), "bonus")
    excess, total = scaled_excess(target_probs[kept], draft_probs[kept], weight)
    rest = excess if total > 0 else residual(target_probs[kept], draft_probs[kept])
    return Verdict(kept, path, coins.draw(rest, node=kept, purpose="recover"), "recovered")


def laws_by_place(*places: tuple[tuple[int, ...], tuple[int, ...]]) -> Laws:
    """Laws that depend on the position alone: weights of target and draft for texts of length 1, 2, ... in turn."""

    def law(side: int):
        laws = [[Fraction(weight, sum(pair[side])) for weight in pair[side]] for pair in places]
        return lambda prefix: laws[(len(prefix) - 1) % len(places)]

    return Laws(law(0), law(1))


def keeps_as_the_weights_say(make: MakeMethod) -> Evidence:
    """P(at least i drafts kept | x_1 .. x_i) = w_i on the paper's example; later drafts are averaged over q."""
    p, q = (Fraction(1, 3), Fraction(2, 3)), (Fraction(2, 3), Fraction(1, 3))
    rule = make(Laws(lambda prefix: p, lambda prefix: q)).rule
    for first in ((0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)):
        chance = Fraction(0)
        for rest in product((0, 1), repeat=GAMMA - len(first)):
            judge = partial(rule, first + rest, (q, q), (p, p, p))
            kept = sum(weight for weight, verdict in branches(judge) if verdict.num_accepted >= len(first))
            chance += kept * prod((q[token] for token in rest), start=Fraction(1))
        expected = prefix_weights(first, (q, q), (p, p))[-1]
        if chance != expected:
            return Evidence(False, f"drafts {first}: kept with probability {chance}, should be {expected}")
    return Evidence(True, "P(prefix kept | prefix) = its weight w")


def redraws_from_the_scaled_residual(make: MakeMethod) -> Evidence:
    """After a prefix of weight 1/2 the scaled excess is positive at token 0 alone, so nothing else may follow."""
    first, q1 = (Fraction(1, 4), Fraction(3, 4), Fraction(0)), (Fraction(1, 2), Fraction(1, 2), Fraction(0))
    p, q = (Fraction(5, 10), Fraction(3, 10), Fraction(2, 10)), (Fraction(2, 10), Fraction(2, 10), Fraction(6, 10))
    rule = make(Laws(lambda prefix: p, lambda prefix: q)).rule
    # draft 2 fails (w_2 = 1/6), prefix 1 passes at u = 0, and v = 0.9 picks the last token of the residual
    verdict = rule((0, 2), (q1, q), (first, p, p), ScriptedCoins([0.9, 0.0, 0.9]))
    return Evidence(
        (verdict.num_accepted, verdict.next_token) == (1, 0),
        f"kept {verdict.num_accepted}, then token {verdict.next_token} (max(w p - q, 0) holds token 0 alone)",
    )


RIGHT = with_rule(verify_block)
TOKEN_RULE = with_rule(token_rule_inside)
CONTIGUOUS = with_rule(contiguous_prefix)
NOT_SCALED = with_rule(residual_not_scaled)

_TOKEN_RULE = Instance(memory_laws(7, 3), horizon=4)
_CONTIGUOUS = Instance(memory_laws(5, 3), horizon=4)
_NOT_SCALED = Instance(
    # by position, so that a doubtful first draft is followed by a slot where scaling moves the residual's support
    laws_by_place(
        ((9, 2, 9), (18, 1, 1)),
        ((8, 11, 1), (0, 6, 14)),
    ),
    horizon=4,
)

TOKEN_RULE_PIECE = Piece(
    name="token_rule_in_block",
    title="token-wise rule inside block verify",
    symptom="Longer accepted prefixes than the rule allows, and another law.",
    cause="The scan for the longest prefix was taken over, with the chain's ratio and residual inside.",
    met_in="vllm-project/vllm-ascend #7807, #7808",
    fix="Weights multiply along the prefix, and a prefix passes with Z / (Z + 1 - w).",
    wrong=TOKEN_RULE,
    right=RIGHT,
    exact_check=_TOKEN_RULE.exact_check,
    property_check=keeps_as_the_weights_say,
    certificate=_TOKEN_RULE.certificate(TOKEN_RULE, 200),
)

CONTIGUOUS_PIECE = Piece(
    name="contiguous_prefix",
    title='"contiguous prefix" fix of block verify',
    symptom="Fewer tokens a round than promised, and another law, after a change that looked like a repair.",
    cause="A prefix that fails stops the scan; in block verification the longest passing prefix counts.",
    met_in="vllm-project/vllm-ascend #11985 (a review calls the right scan a bug)",
    fix="Ask every prefix, from the longest down; failures of shorter ones mean nothing.",
    wrong=CONTIGUOUS,
    right=RIGHT,
    exact_check=_CONTIGUOUS.exact_check,
    property_check=keeps_as_the_weights_say,
    certificate=_CONTIGUOUS.certificate(CONTIGUOUS, 200),
)

NOT_SCALED_PIECE = Piece(
    name="residual_not_scaled",
    title="residual not scaled by the prefix ratio",
    symptom="Acceptance is exactly as it should be; the token after a kept prefix is not.",
    cause="The redraw uses max(p - q, 0) of the chain rule; the prefix was kept with weight w < 1.",
    met_in="vllm-project/vllm-ascend #7807 (the residual of the token-wise rule)",
    fix="Redraw from max(w p - q, 0), normalised.",
    wrong=NOT_SCALED,
    right=RIGHT,
    exact_check=_NOT_SCALED.exact_check,
    property_check=redraws_from_the_scaled_residual,
    certificate=_NOT_SCALED.certificate(NOT_SCALED, 1500),
)
