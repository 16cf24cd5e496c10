"""The bug museum: minimal variants of the real code, each with a mistake; most were made by real projects.

`MUSEUM` holds the 21 pieces with their detectors. The engine-level variants below are for certificates of whole
engines; three of them (recovery from the target, acceptance by the draft's noise, noise of the first round) stand
beside the 21.
"""

from specdec_labs.museum.catalogue import MUSEUM
from specdec_labs.museum.noise import AcceptByDraftNoise, NoiseOfTheDraft, NoiseOfTheFirstRound, with_coins
from specdec_labs.museum.recovery import RECOVERY_FROM_TARGET
from specdec_labs.museum.temperature import OneSidedTemperature

__all__ = [
    "MUSEUM",
    "RECOVERY_FROM_TARGET",
    "AcceptByDraftNoise",
    "NoiseOfTheDraft",
    "NoiseOfTheFirstRound",
    "OneSidedTemperature",
    "with_coins",
]
