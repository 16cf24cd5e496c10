"""Checks shared by the rules."""

from collections.abc import Sequence

from specdec_core.draft import DraftTree
from specdec_core.residual import Law, one_hot


def check_chain(draft_tokens: Sequence[int], draft_probs: Sequence[Law] | None, target_probs: Sequence[Law]) -> None:
    """ValueError unless K drafts come with K draft laws (or None) and K + 1 target laws of one vocabulary."""
    drafted = len(draft_tokens)
    if len(target_probs) != drafted + 1:
        raise ValueError(
            f"target_probs has {len(target_probs)} rows for {drafted} draft tokens; expected {drafted + 1}: "
            "a row for each draft and one for the bonus token"
        )
    vocab = len(target_probs[0])
    if draft_probs is not None and len(draft_probs) != drafted:
        raise ValueError(
            f"draft_probs has {len(draft_probs)} rows for {drafted} draft tokens; expected {drafted}, "
            "or None for a deterministic proposal"
        )
    for name, laws in (("target_probs", target_probs), ("draft_probs", () if draft_probs is None else draft_probs)):
        for row, law in enumerate(laws):
            if len(law) != vocab:
                raise ValueError(
                    f"{name}[{row}] has vocab {len(law)}, target_probs[0] has {vocab}; pad with zeros or map first"
                )
    for index, token in enumerate(draft_tokens):
        if not 0 <= token < vocab:
            raise ValueError(f"draft_tokens[{index}] is {token}; the vocabulary has ids 0..{vocab - 1}")


def draft_laws(
    draft_tokens: Sequence[int], draft_probs: Sequence[Law] | None, target_probs: Sequence[Law]
) -> Sequence[Law]:
    """The law of each draft; one-hot rows for a deterministic proposal."""
    return [one_hot(target_probs[0], token) for token in draft_tokens] if draft_probs is None else draft_probs


def check_tree(tree: DraftTree, draft_probs: Sequence[Law] | None, target_probs: Sequence[Law]) -> None:
    """ValueError unless N nodes come with N draft laws (or None) and N + 1 target laws of one vocabulary."""
    check_chain(tree.tokens, draft_probs, target_probs)
