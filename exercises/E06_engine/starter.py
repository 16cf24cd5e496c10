"""E06: a real draft and target: what an engine counts, and where a text ends."""

from collections.abc import Sequence
from fractions import Fraction


# %% E06.alpha: alpha from what an engine counts
def alpha_of_rounds(rounds: Sequence[tuple[int, int]]) -> Fraction | None:
    """accepted / tested over all rounds, exactly; None when no draft was tested.

    A round is (drafted, accepted). The first refused draft was tested, those behind it were not: a round tests its
    accepted drafts and one more, as far as there is one.

    >>> alpha_of_rounds([(4, 1)])
    Fraction(1, 2)
    """
    raise NotImplementedError("E06.alpha: alpha_of_rounds(rounds)")


# %% E06.eos: a text that runs on behind its end
def emits_the_whole_round(tokens: Sequence[int], stop: Sequence[int]) -> list[int]:
    """Broken, and given: what of a round's tokens is emitted. The caller stops when the last one is a stop token."""
    return list(tokens)


# The smallest (tokens, stop tokens) for which `emits_the_whole_round` writes on behind the end of the text: as few
# tokens as possible, then as few stop tokens as possible.
EOS_INPUT = None


def mended_cut(tokens: Sequence[int], stop: Sequence[int]) -> list[int]:
    """The tokens of a round up to the first stop token, that one included; all of them when there is none."""
    raise NotImplementedError("E06.eos: mended_cut(tokens, stop)")
