"""Coins: scripted, enumerating and production randomness behind two questions, `accept` and `draw`."""

from specdec_core.coins.enumerating import EnumeratingCoins, branches
from specdec_core.coins.noise import NoiseKey, PhiloxCoins, RoundCoins
from specdec_core.coins.protocol import Coins, CoinSource, Event, Mass, Purpose, Weights
from specdec_core.coins.scripted import ScriptedCoins, inverse_cdf

__all__ = [
    "CoinSource",
    "Coins",
    "EnumeratingCoins",
    "Event",
    "Mass",
    "NoiseKey",
    "PhiloxCoins",
    "Purpose",
    "RoundCoins",
    "ScriptedCoins",
    "Weights",
    "branches",
    "inverse_cdf",
]
