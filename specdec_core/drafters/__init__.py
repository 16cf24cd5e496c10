"""Drafters: who proposes the tokens."""

from specdec_core.drafters.eagle import DynamicTree, EagleDrafter
from specdec_core.drafters.early_exit import EarlyExitDrafter
from specdec_core.drafters.medusa import MedusaDrafter
from specdec_core.drafters.model import ModelDrafter
from specdec_core.drafters.ngram import NGramDrafter
from specdec_core.drafters.protocol import Context, Drafter
from specdec_core.drafters.quantized import QuantizedDrafter
from specdec_core.drafters.suffix import SuffixDrafter
from specdec_core.drafters.suffix_tree import SuffixTreeDrafter
from specdec_core.drafters.tree import TreeDrafter

__all__ = [
    "Context",
    "Drafter",
    "DynamicTree",
    "EagleDrafter",
    "EarlyExitDrafter",
    "MedusaDrafter",
    "ModelDrafter",
    "NGramDrafter",
    "QuantizedDrafter",
    "SuffixDrafter",
    "SuffixTreeDrafter",
    "TreeDrafter",
]
