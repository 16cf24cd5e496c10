"""One figure of a seed document beside its recomputation."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["right", "rounded", "wrong", "inconsistent", "no source", "rule of thumb", "restored"]

MEANING: dict[Verdict, str] = {
    "right": "the figure follows from what the text states",
    "rounded": "right but for its last digit",
    "wrong": "what the text states gives something else",
    "inconsistent": "it contradicts another figure or statement of the documents",
    "no source": "given without a source, and not to be recomputed: a quoted figure, never ours",
    "rule of thumb": "a threshold: to be derived from a cost model, not taken over",
    "restored": "the formula was lost in the text's display; checked exactly",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """`quoted` is the seed document's figure or claim, in figures or our words; `why` says how it was recomputed."""

    document: int
    place: str
    quoted: str
    recomputed: str
    verdict: Verdict
    why: str
