"""Drafters: who proposes the tokens."""

from specdec_core.drafters.model import ModelDrafter
from specdec_core.drafters.ngram import NGramDrafter
from specdec_core.drafters.protocol import Context, Drafter

__all__ = ["Context", "Drafter", "ModelDrafter", "NGramDrafter"]
