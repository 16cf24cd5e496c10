"""Typical wrong answers to E04.block_residual."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from specdec_labs.grade.zoo import WrongAnswer, wrong

Law = Sequence[Fraction]
Rows = Sequence[Law]


def excess(p: Law, q: Law, w: Fraction) -> list[Fraction]:
    """max(w p - q, 0), as in the solution."""
    return [max(w * p_x - q_x, Fraction(0)) for p_x, q_x in zip(p, q, strict=True)]


def block(
    drafts: Sequence[int], qs: Rows, ps: Rows, coins: Any, rest: Callable[[Law, Law, Fraction], list[Fraction]]
) -> list[int]:
    """Block verification as in the solution, with `rest` in place of the residual."""
    drafted, weights = len(drafts), [Fraction(1)]
    for i, token in enumerate(drafts):
        weights.append(min(Fraction(1), weights[-1] * ps[i][token] / qs[i][token]))
    if not drafted or coins.accept(weights[drafted], 1, node=drafted - 1):
        return [*drafts, coins.draw(ps[drafted], node=drafted, purpose="bonus")]
    kept = drafted - 1
    while kept > 0:
        total = sum(excess(ps[kept], qs[kept], weights[kept]))
        if coins.accept(total, total + 1 - weights[kept], node=kept - 1):
            break
        kept -= 1
    return [*drafts[:kept], coins.draw(rest(ps[kept], qs[kept], weights[kept]), node=kept, purpose="recover")]


@wrong(
    "E04.block_residual",
    "mended_block",
    "mended_is_lossless",
    "this is the broken function still: it redraws from max(p - q, 0), as if the prefix had been kept for sure.",
)
def not_mended(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    return block(draft_tokens, draft_probs, target_probs, coins, lambda p, q, w: excess(p, q, Fraction(1)))


@wrong(
    "E04.block_residual",
    "mended_block",
    "mended_is_lossless",
    "your function scales q by w in place of p. It is the target's share that shrinks with the prefix.",
)
def scales_the_draft(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    def rest(p: Law, q: Law, w: Fraction) -> list[Fraction]:
        return [max(p_x - w * q_x, Fraction(0)) for p_x, q_x in zip(p, q, strict=True)]

    return block(draft_tokens, draft_probs, target_probs, coins, rest)


@wrong(
    "E04.block_residual",
    "mended_block",
    "mended_is_lossless",
    "your function redraws from p after the kept prefix; what longer prefixes have given already comes out again.",
)
def redraws_from_p(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    return block(draft_tokens, draft_probs, target_probs, coins, lambda p, q, w: list(p))


@wrong(
    "E04.block_residual",
    "mended_block",
    "mended_keeps_its_drafts",
    "lossless, by going back to the token-wise rule: it keeps fewer drafts than block verification does.",
)
def back_to_the_chain(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    for i, token in enumerate(draft_tokens):
        if not coins.accept(target_probs[i][token], draft_probs[i][token], node=i):
            rest = excess(target_probs[i], draft_probs[i], Fraction(1))
            return [*draft_tokens[:i], coins.draw(rest, node=i, purpose="recover")]
    return [*draft_tokens, coins.draw(target_probs[-1], node=len(draft_tokens), purpose="bonus")]


@wrong(
    "E04.block_residual",
    "mended_block",
    "mended_keeps_its_drafts",
    "lossless, because no draft is ever kept: your function asks the target every time.",
)
def gives_up_drafting(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    return [coins.draw(target_probs[0], node=0, purpose="bonus")]


@wrong(
    "E04.block_residual",
    "mended_block",
    "asks_each_question_once",
    "your function asks about every prefix under node 0. The coins answer the same key with the same noise.",
)
def same_node_for_all(draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows, coins: Any) -> list[int]:
    class OneNode:
        def accept(self, p: Any, q: Any, *, node: int) -> bool:
            return coins.accept(p, q, node=0)

        def draw(self, weights: Any, *, node: int, purpose: str) -> int:
            return coins.draw(weights, node=0, purpose=purpose)

    return block(draft_tokens, draft_probs, target_probs, OneNode(), excess)


def _input(name: str, caught_by: str, target: Sequence[str], draft: Sequence[str], says: str) -> WrongAnswer:
    rows = tuple([[Fraction(mass) for mass in row.split()] for row in side] for side in (target, draft))
    return WrongAnswer(
        name=name, task="E04.block_residual", replaces="BLOCK_INPUT", caught_by=caught_by, says=says, answer=rows
    )


ONE_ROW = _input(
    "too_few_rows",
    "input_is_legal",
    ["1/3 2/3", "1/3 2/3"],
    ["2/3 1/3", "2/3 1/3"],
    "the target has one row more than there are drafts: its last row is the law of the bonus token.",
)
ONE_DRAFT = _input(
    "one_draft",
    "input_tells_them_apart",
    ["0 1/3 2/3", "0 1/3 2/3"],
    ["1/2 0 1/2"],
    "with one draft the empty prefix has weight 1, and scaling by 1 changes nothing. It takes a second draft.",
)
TWO_TOKENS = _input(
    "two_tokens",
    "input_tells_them_apart",
    ["1/3 2/3", "1/3 2/3", "1/3 2/3"],
    ["2/3 1/3", "2/3 1/3"],
    "with two tokens the excess sits on one of them, scaled or not, so the redraw is the same. It takes a third token.",
)
LARGE = _input(
    "large_denominators",
    "input_is_the_smallest",
    ["9/20 1/10 9/20", "2/5 11/20 1/20", "1/4 1/4 1/2"],
    ["9/10 1/20 1/20", "0 3/10 7/10"],
    "right, and far from the smallest: thirds and halves are enough.",
)
