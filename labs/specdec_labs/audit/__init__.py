"""Audits of other implementations: the samplers people run, tested as our own engine is."""
