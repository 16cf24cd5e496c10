"""Shapes of the models that are trained here."""

from dataclasses import replace

from specdec_core.models.llama import LlamaConfig

TINY_VOCABULARY = 4096
_READS = 512

TINY_TARGET = LlamaConfig(
    vocab_size=TINY_VOCABULARY,
    width=224,
    ffn_width=608,
    layers=6,
    heads=7,
    kv_heads=7,
    head_dim=32,
    max_length=_READS,
)
TINY_DRAFT = LlamaConfig(
    vocab_size=TINY_VOCABULARY,
    width=96,
    ffn_width=256,
    layers=2,
    heads=3,
    kv_heads=3,
    head_dim=32,
    max_length=_READS,
)


def _tiny(width: int, ffn_width: int, layers: int, heads: int) -> LlamaConfig:
    return replace(
        TINY_DRAFT,
        width=width,
        ffn_width=ffn_width,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_dim=width // heads,
    )


TINY_SWEEP = {
    "w20-1": _tiny(20, 56, 1, 2),
    "w48-1": _tiny(48, 128, 1, 3),
    "w96-2": TINY_DRAFT,
    "w128-2": _tiny(128, 352, 2, 4),
    "w160-3": _tiny(160, 416, 3, 5),
}
"""Drafts from 1/50 to 1/3 of the tiny target: width, and layers."""


def smollm2_draft(target: LlamaConfig) -> LlamaConfig:
    """A 1/40 of SmolLM2: two layers of width 64, the target's vocabulary and positions."""
    return LlamaConfig(
        vocab_size=target.vocab_size,
        width=64,
        ffn_width=192,
        layers=2,
        heads=2,
        kv_heads=2,
        head_dim=32,
        max_length=2048,
        rope_theta=10000.0,
    )
