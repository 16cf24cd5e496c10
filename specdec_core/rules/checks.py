"""Checks shared by the rules."""

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec_core.arguments import check_whole
from specdec_core.draft import DraftTree
from specdec_core.residual import Law, check_one_law, one_hot

SUM_SLACK = 0.02
"""How far the sum of a float law may be from 1: rows of bfloat16 probabilities are off by up to a percent."""


def check_chain(
    draft_tokens: Sequence[int],
    draft_probs: Sequence[Law] | None,
    target_probs: Sequence[Law],
    *,
    are_laws: bool = True,
) -> None:
    """ValueError unless K drafts come with K draft laws (or None) and K + 1 target laws of one vocabulary.

    With `are_laws` every row must be a law: finite, not negative, summing to 1 (logits are not).
    """
    drafted = len(draft_tokens)
    if len(target_probs) != drafted + 1:
        raise ValueError(
            f"target_probs has {len(target_probs)} rows for {drafted} draft tokens; expected {drafted + 1}: "
            "a row for each draft and one for the bonus token"
        )
    check_one_law(target_probs[0], "target_probs[0]")
    vocab = len(target_probs[0])
    if draft_probs is not None and len(draft_probs) != drafted:
        raise ValueError(
            f"draft_probs has {len(draft_probs)} rows for {drafted} draft tokens; expected {drafted}, "
            "or None for a deterministic proposal"
        )
    for name, laws in (("target_probs", target_probs), ("draft_probs", () if draft_probs is None else draft_probs)):
        for row, law in enumerate(laws):
            check_one_law(law, f"{name}[{row}]")
            if len(law) != vocab:
                raise ValueError(
                    f"{name}[{row}] has vocab {len(law)}, target_probs[0] has {vocab}; pad with zeros or map first"
                )
            if are_laws and not _is_law(law):
                raise ValueError(
                    f"{name}[{row}] is no law: probabilities are finite, not negative and sum to 1 - give the softmax "
                    "of the logits after temperature, top-k and top-p, not logits"
                )
    for index, token in enumerate(draft_tokens):
        if not 0 <= check_whole(f"draft_tokens[{index}]", token) < vocab:
            raise ValueError(f"draft_tokens[{index}] is {token}; the vocabulary has ids 0..{vocab - 1}")


def draft_laws(
    draft_tokens: Sequence[int], draft_probs: Sequence[Law] | None, target_probs: Sequence[Law]
) -> Sequence[Law]:
    """The law of each draft; one-hot rows for a deterministic proposal."""
    return [one_hot(target_probs[0], token) for token in draft_tokens] if draft_probs is None else draft_probs


def check_tree(tree: DraftTree, draft_probs: Sequence[Law] | None, target_probs: Sequence[Law]) -> None:
    """ValueError unless N nodes come with N draft laws (or None) and N + 1 target laws of one vocabulary.

    Siblings must come with one and the same law: a rule judges them all against it.
    """
    check_chain(tree.tokens, draft_probs, target_probs)
    if draft_probs is None:
        return
    first_child: dict[int, int] = {}
    for node, parent in enumerate(tree.parents):
        first = first_child.setdefault(parent, node)
        if first != node and not _is_same_law(draft_probs[first], draft_probs[node]):
            raise ValueError(
                f"draft_probs[{node}] differs from draft_probs[{first}], the law of its first sibling; siblings are "
                "drawn from one law (without replacement: the law before anything is taken out)"
            )


def _is_same_law(one: Law, other: Law) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.data_ptr() == other.data_ptr() or torch.equal(one, other)
    return one is other or list(one) == list(other)


def _is_law(law: Law) -> bool:
    if isinstance(law, Tensor):
        # NaN fails both comparisons
        values = law.detach()
        total = float(values.sum(dtype=torch.float32))
        return abs(total - 1) <= SUM_SLACK and float(values.min()) >= 0
    # next to a slack of percents floats are exact enough, and adding Fractions would dominate an enumeration
    masses = [float(value) for value in law]
    return min(masses) >= 0 and abs(sum(masses) - 1) <= SUM_SLACK
