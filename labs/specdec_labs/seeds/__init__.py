"""The figures of three texts about speculative decoding, recomputed: what holds, what does not, what has no source."""
