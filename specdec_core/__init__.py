"""Speculative decoding, exact and measured: coins, rules, laws, caches, drafters, engine, certificate.

Needs torch, numpy and scipy alone; `specdec_core.models` reaches for transformers and tokenizers only when asked
for a model that needs them.
"""

__version__ = "0.1.0"
