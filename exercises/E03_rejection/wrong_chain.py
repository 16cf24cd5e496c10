"""Typical wrong answers to E03.chain. Each is the smallest change to the solution that makes the mistake."""

from collections.abc import Sequence
from typing import Any

from specdec_labs.grade.zoo import wrong

Rows = Sequence[Sequence[Any]]


def excess_of(p: Sequence[Any], q: Sequence[Any]) -> list[Any]:
    """max(p - q, 0) token by token, as in the solution."""
    return [max(p_x - q_x, 0) for p_x, q_x in zip(p, q, strict=True)]


@wrong(
    "E03.chain",
    "verify_drafts",
    "first_token_has_the_targets_law",
    "after a refusal your function draws from p itself. min(p, q) has come out already, so likely tokens come twice "
    "over; draw from what p misses, max(p - q, 0).",
)
def redraws_from_p(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    for i, token in enumerate(draft_tokens):
        if not coins.accept(target_probs[i][token], draft_probs[i][token], node=i):
            return [*draft_tokens[:i], coins.draw(target_probs[i], node=i, purpose="recover")]
    return [*draft_tokens, coins.draw(target_probs[-1], node=len(draft_tokens), purpose="bonus")]


@wrong(
    "E03.chain",
    "verify_drafts",
    "first_token_has_the_targets_law",
    "your function accepts with q/p in place of p/q: `coins.accept` takes the target's probability first.",
)
def swaps_the_ratio(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    for i, token in enumerate(draft_tokens):
        if not coins.accept(draft_probs[i][token], target_probs[i][token], node=i):
            rest = excess_of(target_probs[i], draft_probs[i])
            rest = rest if any(rest) else target_probs[i]
            return [*draft_tokens[:i], coins.draw(rest, node=i, purpose="recover")]
    return [*draft_tokens, coins.draw(target_probs[-1], node=len(draft_tokens), purpose="bonus")]


@wrong(
    "E03.chain",
    "verify_drafts",
    "first_token_has_the_targets_law",
    "your function accepts a draft whenever p >= q and refuses it otherwise. A draft with p < q must be kept with "
    "probability p/q, not never.",
)
def decides_without_chance(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    for i, token in enumerate(draft_tokens):
        if target_probs[i][token] < draft_probs[i][token]:
            rest = excess_of(target_probs[i], draft_probs[i])
            return [*draft_tokens[:i], coins.draw(rest, node=i, purpose="recover")]
    return [*draft_tokens, coins.draw(target_probs[-1], node=len(draft_tokens), purpose="bonus")]


@wrong(
    "E03.chain",
    "verify_drafts",
    "bonus_after_full_acceptance",
    "with every draft kept your function returns no bonus token. The same pass of the target holds the law of one more "
    "token; with K = 1 it is half the gain.",
)
def forgets_the_bonus(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    for i, token in enumerate(draft_tokens):
        if not coins.accept(target_probs[i][token], draft_probs[i][token], node=i):
            rest = excess_of(target_probs[i], draft_probs[i])
            return [*draft_tokens[:i], coins.draw(rest, node=i, purpose="recover")]
    return list(draft_tokens) or [coins.draw(target_probs[0], node=0, purpose="bonus")]


@wrong(
    "E03.chain",
    "verify_drafts",
    "text_has_the_targets_law",
    "your bonus token comes from the row of the last draft. That row is the law of the draft's own place; the token "
    "after it has the row behind, the (K + 1)-th.",
)
def bonus_from_the_last_drafts_row(
    draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any
) -> list[int]:
    for i, token in enumerate(draft_tokens):
        if not coins.accept(target_probs[i][token], draft_probs[i][token], node=i):
            rest = excess_of(target_probs[i], draft_probs[i])
            return [*draft_tokens[:i], coins.draw(rest, node=i, purpose="recover")]
    drafted = len(draft_tokens)
    return [*draft_tokens, coins.draw(target_probs[max(drafted - 1, 0)], node=drafted, purpose="bonus")]


@wrong(
    "E03.chain",
    "verify_drafts",
    "text_has_the_targets_law",
    "your function reads the first row for every draft. Row i is the law of the token at draft i's place, given the "
    "drafts before it.",
)
def reads_the_first_row(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    for i, token in enumerate(draft_tokens):
        if not coins.accept(target_probs[0][token], draft_probs[0][token], node=i):
            rest = excess_of(target_probs[0], draft_probs[0])
            return [*draft_tokens[:i], coins.draw(rest, node=i, purpose="recover")]
    return [*draft_tokens, coins.draw(target_probs[-1], node=len(draft_tokens), purpose="bonus")]


@wrong(
    "E03.chain",
    "verify_drafts",
    "keeps_what_can_be_kept",
    "your function refuses every draft and asks the target. The law is right, and nothing is gained: each round emits "
    "one token, as plain decoding does.",
)
def refuses_everything(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    return [coins.draw(target_probs[0], node=0, purpose="bonus")]


@wrong(
    "E03.chain",
    "verify_drafts",
    "asks_each_question_once",
    "your function asks about every draft under the same node. The coins answer the same key with the same noise, so "
    "the drafts would stand or fall together.",
)
def same_node_for_all(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    for i, token in enumerate(draft_tokens):
        if not coins.accept(target_probs[i][token], draft_probs[i][token], node=0):
            rest = excess_of(target_probs[i], draft_probs[i])
            return [*draft_tokens[:i], coins.draw(rest, node=0, purpose="recover")]
    return [*draft_tokens, coins.draw(target_probs[-1], node=0, purpose="bonus")]
