"""Shapes of the models that are trained here."""

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
