"""The bug museum: minimal variants of the real code, each with a mistake that real projects shipped.

The certificate must catch every one that sampling can see; the tests say which do.
"""

from specdec_labs.museum.noise import AcceptByDraftNoise, NoiseOfTheDraft, NoiseOfTheFirstRound, with_coins
from specdec_labs.museum.recovery import RECOVERY_FROM_TARGET
from specdec_labs.museum.temperature import OneSidedTemperature

__all__ = [
    "RECOVERY_FROM_TARGET",
    "AcceptByDraftNoise",
    "NoiseOfTheDraft",
    "NoiseOfTheFirstRound",
    "OneSidedTemperature",
    "with_coins",
]
