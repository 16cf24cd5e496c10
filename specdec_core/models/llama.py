"""A compact Llama forward: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

It takes arbitrary positions and an arbitrary boolean mask, so that a draft tree is one pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
import math
from numbers import Integral, Real
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
import torch
from torch import Tensor
import torch.nn.functional as F

from specdec_core import ops
from specdec_core.cache import ContiguousKVCache
from specdec_core.models.inputs import check_inputs
from specdec_core.models.linear import Linear
from specdec_core.models.protocol import ForwardOutput, KVCache
from specdec_core.models.routes import choose_routes


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Shape of a Llama model. `width` is the size of a hidden state, `ffn_width` of the SwiGLU inside."""

    vocab_size: int
    width: int
    ffn_width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_length: int
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("vocab_size", "width", "ffn_width", "layers", "heads", "kv_heads", "head_dim", "max_length"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} is {value!r}; expected a whole number, at least 1")
        for name in ("rope_theta", "norm_eps"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 < float(value) < math.inf:
                raise ValueError(f"{name} is {value!r}; expected a finite number above 0")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads is {self.heads} and kv_heads {self.kv_heads}; expected a multiple")
        if self.head_dim % 2:
            raise ValueError(f"head_dim is {self.head_dim}; rotary positions need an even one")


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """One block. `qkv` stacks the query, key and value rows, `gate_up` the two halves of the SwiGLU."""

    attention_norm: Float[Tensor, " width"]
    qkv: Linear
    attention_out: Linear
    ffn_norm: Float[Tensor, " width"]
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True, eq=False)
class LlamaWeights:
    """All weights. A tied head is a `Linear` over the very embedding tensor."""

    embedding: Float[Tensor, "vocab width"]
    layers: tuple[LayerWeights, ...]
    norm: Float[Tensor, " width"]
    head: Linear


@runtime_checkable
class LayerCache(KVCache, Protocol):
    """A cache this model can write layer by layer, such as `ContiguousKVCache`."""

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]: ...

    def check_room(self, rows: int) -> None: ...


class Llama:
    """A Llama as `LanguageModel`. Device and dtype are those of the weights."""

    def __init__(self, config: LlamaConfig, weights: LlamaWeights) -> None:
        if len(weights.layers) != config.layers:
            raise ValueError(f"weights has {len(weights.layers)} layers, config says {config.layers}")
        self.config = config
        self.weights = weights
        self.vocab_size = config.vocab_size
        self.max_length = config.max_length
        self.device = weights.embedding.device
        self.dtype = weights.embedding.dtype
        # hash of the file the weights came from, where it was checked: what a trained head or draft is bound to
        self.weights_sha256: str | None = None
        self._cos, self._sin = self._rotation_table()
        choose_routes(self.linears())

    def linears(self) -> list[Linear]:
        """Every matrix product of a pass, in its order."""
        inner = (
            part
            for layer in self.weights.layers
            for part in (layer.qkv, layer.attention_out, layer.gate_up, layer.down)
        )
        return [*inner, self.weights.head]

    def new_cache(self, capacity: int) -> ContiguousKVCache:
        """An empty cache for up to `capacity` rows, drafted rows included."""
        return ContiguousKVCache(
            layers=self.config.layers,
            heads=self.config.kv_heads,
            head_dim=self.config.head_dim,
            capacity=capacity,
            dtype=self.dtype,
            device=self.device,
        )

    def shallow(self, layers: Sequence[int]) -> "Llama":
        """The model made of just these layers, in this order, and the same head. It shares the weights.

        Raises:
            ValueError: no layer at all, or one that is not there.
        """
        for layer in layers:
            if not 0 <= layer < self.config.layers:
                raise ValueError(f"layer {layer} is not one of 0..{self.config.layers - 1}")
        if not layers:
            raise ValueError("layers is empty; name at least one")
        kept = tuple(self.weights.layers[layer] for layer in layers)
        return Llama(replace(self.config, layers=len(kept)), replace(self.weights, layers=kept))

    def forward(
        self,
        tokens: Int[Tensor, " rows"],
        positions: Int[Tensor, " rows"] | None = None,
        mask: Bool[Tensor, "rows total"] | None = None,
        *,
        cache: KVCache,
        last_only: bool = False,
    ) -> ForwardOutput:
        """Next-token logits (float32) and the normalised state the head reads, a row per token.

        A row of `mask` that sees nothing gets zeros from attention. See `LanguageModel.forward` for the rest.

        Raises:
            ValueError: as the protocol says, or a cache of another kind; the cache is unchanged then.
        """
        if not isinstance(cache, LayerCache):
            raise ValueError(f"cache is a {type(cache).__name__}; make it with this model's new_cache(capacity)")
        check_inputs(self, tokens, positions, mask, past=len(cache))
        cache.check_room(tokens.shape[0])
        with torch.inference_mode():
            state = F.embedding(tokens.to(self.device, torch.long), self.weights.embedding)
        return self._through(state, positions, mask, cache, last_only)

    def forward_states(
        self,
        states: Float[Tensor, "rows width"],
        positions: Int[Tensor, " rows"] | None = None,
        mask: Bool[Tensor, "rows total"] | None = None,
        *,
        cache: LayerCache,
        last_only: bool = False,
    ) -> ForwardOutput:
        """`forward` from states that take the place of embeddings: for layers fed with more than a token.

        Raises:
            ValueError: states of another width, and as `forward`.
        """
        if states.ndim != 2 or states.shape[1] != self.config.width:
            raise ValueError(f"states has shape {tuple(states.shape)}; expected [rows, {self.config.width}]")
        check_inputs(self, torch.zeros(len(states), dtype=torch.long), positions, mask, past=len(cache))
        cache.check_room(len(states))
        return self._through(states, positions, mask, cache, last_only)

    def _through(
        self, state: Tensor, positions: Tensor | None, mask: Tensor | None, cache: LayerCache, last_only: bool
    ) -> ForwardOutput:
        with torch.inference_mode():
            hidden = self._blocks(state, positions, mask, cache)
            logits = self.weights.head(hidden[-1:] if last_only else hidden)
        # copied outside: a tensor made in inference mode can be neither changed in place nor trained on later
        return ForwardOutput(logits.to(torch.float32, copy=True), hidden.clone())

    def _blocks(
        self, state: Tensor, positions: Tensor | None, mask: Tensor | None, cache: LayerCache
    ) -> Float[Tensor, "rows width"]:
        past = len(cache)
        rotation = self._rotation(past, state.shape[0], positions)
        attend = _Attention.over(past, state.shape[0], mask, self.device, self.dtype)
        for index, weights in enumerate(self.weights.layers):
            state = state + self._attention(index, weights, state, rotation, attend, cache)
            gate, up = weights.gate_up(self._norm(state, weights.ffn_norm)).chunk(2, dim=-1)
            state = state + weights.down(F.silu(gate) * up)
        return self._norm(state, self.weights.norm)

    def _attention(
        self,
        index: int,
        weights: LayerWeights,
        state: Float[Tensor, "rows width"],
        rotation: tuple[Tensor, Tensor],
        attend: "_Attention",
        cache: LayerCache,
    ) -> Float[Tensor, "rows width"]:
        rows, heads, kv_heads = state.shape[0], self.config.heads, self.config.kv_heads
        qkv = weights.qkv(self._norm(state, weights.attention_norm)).view(rows, -1, self.config.head_dim)
        rotated = _rotate(qkv[:, : heads + kv_heads], rotation)
        keys, values = cache.append(
            index, rotated[:, heads:].transpose(0, 1), qkv[:, heads + kv_heads :].transpose(0, 1)
        )
        mixed = attend(rotated[:, :heads].transpose(0, 1), keys, values)
        return weights.attention_out(mixed.transpose(0, 1).reshape(rows, -1))

    def _norm(self, state: Float[Tensor, "rows width"], weight: Float[Tensor, " width"]) -> Tensor:
        return F.rms_norm(state, (self.config.width,), weight, self.config.norm_eps)

    def _rotation_table(self) -> tuple[Tensor, Tensor]:
        half = torch.arange(0, self.config.head_dim, 2, dtype=torch.float32) / self.config.head_dim
        angles = torch.outer(torch.arange(self.max_length, dtype=torch.float32), self.config.rope_theta**-half)
        angles = angles[:, None, :]
        return angles.cos().to(self.device, self.dtype), angles.sin().to(self.device, self.dtype)

    def _rotation(self, past: int, rows: int, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        """Cosines and sines [rows, 1, head_dim / 2] for the rows fed."""
        if positions is None:
            return self._cos[past : past + rows], self._sin[past : past + rows]
        positions = positions.to(self.device, torch.long)
        return self._cos[positions], self._sin[positions]


def _rotate(
    x: Float[Tensor, "rows heads head_dim"], rotation: tuple[Tensor, Tensor]
) -> Float[Tensor, "rows heads head_dim"]:
    """Rotates the pairs (x[i], x[i + head_dim/2]), the half-split form of Hugging Face checkpoints."""
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


@dataclass(frozen=True, slots=True, eq=False)
class _Attention:
    """Attention under the mask of one pass, the same in every layer; `registered` does it all where it serves."""

    mask: Bool[Tensor, "rows total"] | None
    causal: bool
    empty: Bool[Tensor, " rows"] | None
    registered: Callable[..., Tensor] | None = None

    @classmethod
    def over(cls, past: int, rows: int, mask: Tensor | None, device: torch.device, dtype: torch.dtype) -> "_Attention":
        operator = ops.get("attention_pass")
        planned = None if operator is None else operator(past, rows, mask, device, dtype)
        if planned is not None:
            return cls(None, False, None, planned)
        if mask is not None:
            empty = ~mask.any(dim=-1)
            return cls(mask.to(device), False, empty.to(device) if bool(empty.any()) else None)
        if past == 0 or rows == 1:
            return cls(None, rows > 1, None)
        return cls(torch.ones(rows, past + rows, dtype=torch.bool, device=device).tril(past), False, None)

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor) -> Float[Tensor, "heads rows head_dim"]:
        if self.registered is not None:
            return self.registered(queries, keys, values)
        mixed = F.scaled_dot_product_attention(
            queries[None], keys[None], values[None], attn_mask=self.mask, is_causal=self.causal, enable_gqa=True
        )[0]
        # softmax over nothing is NaN in some backends; a row that sees nothing takes nothing in
        return mixed if self.empty is None else mixed.masked_fill(self.empty[None, :, None], 0.0)
