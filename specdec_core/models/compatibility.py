"""Whether two tokenizers mean the same text by the same ids."""

from dataclasses import dataclass

from specdec_core.models.protocol import Tokenizer

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Compatibility:
    """`shared` ids agree; `note` says so in words."""

    shared: int
    note: str


def check_tokenizers(target: Tokenizer, draft: Tokenizer) -> Compatibility:
    """How far the two agree, or an error that says where they do not.

    Every id that both have must stand for the same string, and the start and end tokens must be the same. Ids at
    the end that only one side has are accepted: one that the draft lacks is never proposed (its q is zero), one that
    the target lacks has p zero and is always refused. Equal sizes alone prove nothing.

    Raises:
        ValueError: it lists the first ids that differ with both strings and how many there are, or the special
            tokens that differ.
    """
    shared = min(target.vocab_size, draft.vocab_size)
    ours, theirs = _strings(target, shared), _strings(draft, shared)
    differing = [index for index, (left, right) in enumerate(zip(ours, theirs)) if left != right]
    sizes = f"vocabulary sizes {target.vocab_size} (target) and {draft.vocab_size} (draft)"
    if differing:
        shown = "; ".join(f"id {index} is {ours[index]!r} and {theirs[index]!r}" for index in differing[:_SHOWN])
        more = ", ..." if len(differing) > _SHOWN else ""
        raise ValueError(
            f"the tokenizers of target and draft differ in {len(differing)} of {shared} ids ({sizes}): {shown}{more}; "
            "choose a draft of the target's own family"
        )
    _check_special(target, draft)
    surplus = abs(target.vocab_size - draft.vocab_size)
    if not surplus:
        return Compatibility(shared, f"all {shared} ids stand for the same strings")
    longer = "target" if target.vocab_size > draft.vocab_size else "draft"
    return Compatibility(
        shared, f"{shared} ids stand for the same strings; the last {surplus} of the {longer} have no counterpart"
    )


def _strings(tokenizer: Tokenizer, count: int) -> list[str]:
    """The vocabulary's own strings where the tokenizer gives them; the printable form loses distinctions."""
    piece = getattr(tokenizer, "piece", tokenizer.token)
    return [piece(token_id) for token_id in range(count)]


def _check_special(target: Tokenizer, draft: Tokenizer) -> None:
    ours, theirs = _special(target), _special(draft)
    for name in ours.keys() & theirs.keys():
        if ours[name] != theirs[name]:
            raise ValueError(
                f"the {name} token is {ours[name]} for the target and {theirs[name]} for the draft; "
                "choose two models that start and end a text alike"
            )


def _special(tokenizer: Tokenizer) -> dict[str, object]:
    return getattr(tokenizer, "special_ids", None) or {"eos": tokenizer.eos_ids}
