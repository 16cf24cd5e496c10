"""Shapes of models, as far as the cost of a forward pass depends on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec_core.models.llama import LlamaConfig


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a forward reads and computes.

    Attributes:
        name: what a table prints.
        parameters: weights read in one pass. A tied embedding counts once, as the head; a lookup reads single rows.
        layers, heads, kv_heads, head_dim, width, ffn_width, vocab_size: 0 where not known: then neither the KV
            cache nor activations are counted.
    """

    name: str
    parameters: float
    layers: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    width: int = 0
    ffn_width: int = 0
    vocab_size: int = 0

    @classmethod
    def llama(
        cls,
        name: str,
        *,
        layers: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        width: int,
        ffn_width: int,
        vocab_size: int,
    ) -> "ModelShape":
        """A Llama of this shape; `parameters` is counted: projections, SwiGLU, norms and the head."""
        attention = width * head_dim * (2 * heads + 2 * kv_heads)
        layer = attention + 3 * width * ffn_width + 2 * width
        parameters = layers * layer + width + vocab_size * width
        return cls(name, parameters, layers, heads, kv_heads, head_dim, width, ffn_width, vocab_size)

    @classmethod
    def from_config(cls, name: str, config: "LlamaConfig") -> "ModelShape":
        """The shape of a loaded Llama."""
        return cls.llama(
            name,
            layers=config.layers,
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            width=config.width,
            ffn_width=config.ffn_width,
            vocab_size=config.vocab_size,
        )

    @property
    def kv_values_per_token(self) -> int:
        """Numbers the KV cache holds for one token."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    @property
    def activation_values_per_row(self) -> int:
        """Inputs and outputs of every matrix product for one row; what a fused kernel keeps on chip is not in it."""
        attention = 2 * self.width + self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        feed_forward = 2 * self.width + 3 * self.ffn_width
        return self.layers * (attention + feed_forward) + self.width + self.vocab_size


SHAPES: Mapping[str, ModelShape] = {
    shape.name: shape
    for shape in (
        ModelShape.llama(
            "llama-3-70b",
            layers=80,
            heads=64,
            kv_heads=8,
            head_dim=128,
            width=8192,
            ffn_width=28672,
            vocab_size=128256,
        ),
        ModelShape.llama(
            "llama-3-8b", layers=32, heads=32, kv_heads=8, head_dim=128, width=4096, ffn_width=14336, vocab_size=128256
        ),
        ModelShape.llama(
            "llama-3.2-1b", layers=16, heads=32, kv_heads=8, head_dim=64, width=2048, ffn_width=8192, vocab_size=128256
        ),
        ModelShape.llama(
            "smollm2-135m", layers=30, heads=9, kv_heads=3, head_dim=64, width=576, ffn_width=1536, vocab_size=49152
        ),
        # the seed documents' round figures: 140 GB and 16 GB in float16
        ModelShape("dense-70b", 70e9),
        ModelShape("dense-8b", 8e9),
    )
}
"""Published shapes (the models' configuration files) and two dense ones known by size alone."""


def model_shape(name: str) -> ModelShape:
    """The shape of that name. ValueError when there is none."""
    if name not in SHAPES:
        raise ValueError(f"shape is {name!r}; expected one of {', '.join(SHAPES)}")
    return SHAPES[name]
