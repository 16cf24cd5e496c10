"""Many sequences decoded at once: one row a sequence and step, each at a length of its own.

The engine serves one sequence; for making training text what counts is tokens per second over all of them.
Products may run in bfloat16; the residual stream, the norms and the rotation stay in float32 (in bfloat16 throughout,
SmolLM2 answers "What is the capital of France?" with another text).
"""

from collections.abc import Callable, Sequence

from jaxtyping import Float, Int
import torch
from torch import Tensor
import torch.nn.functional as F

from specdec_core.models.llama import Llama

Product = Callable[[Tensor], Tensor]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


def product_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the processor multiplies in it (CUDA; AVX-512 or AMX on a CPU), else float32."""
    if device.type == "cuda":
        return torch.bfloat16
    able = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return torch.bfloat16 if able.get("amx_bf16") or able.get("avx512_bf16") else torch.float32


class BatchDecoder:
    """The weights of a float32 `Llama` behind `slots` caches of `capacity` rows each.

    Shapes: keys and values are [slots, capacity, kv_heads, head_dim] per layer. `lengths[slot]` rows are valid.
    """

    def __init__(self, model: Llama, *, slots: int, capacity: int, dtype: torch.dtype | None = None) -> None:
        """`dtype` is that of products and caches; default: `product_dtype` of the model's device.

        Raises:
            ValueError: no slot or row, more rows than the model reads, or a model that is not in float32.
        """
        if slots < 1 or not 0 < capacity <= model.max_length:
            raise ValueError(
                f"slots is {slots} and capacity {capacity}; expected at least 1 slot and 1..{model.max_length} rows"
            )
        if model.dtype != torch.float32:
            raise ValueError(f"the model is in {model.dtype}; load it in float32, products are rounded here")
        self.model, self.slots, self.capacity = model, slots, capacity
        self.dtype = product_dtype(model.device) if dtype is None else dtype
        self.lengths = torch.zeros(slots, dtype=torch.long)
        config = model.config
        shape = (slots, capacity, config.kv_heads, config.head_dim)
        self._keys = [torch.zeros(shape, dtype=self.dtype, device=model.device) for _ in range(config.layers)]
        self._values = [torch.zeros_like(keys) for keys in self._keys]
        self._products = [
            tuple(self._product(part.weight) for part in (layer.qkv, layer.attention_out, layer.gate_up, layer.down))
            for layer in model.weights.layers
        ]
        self._head = self._product(model.weights.head.weight)
        self._cos, self._sin = model._cos, model._sin

    @torch.inference_mode()
    def prefill(self, slot: int, tokens: Sequence[int]) -> None:
        """Starts a sequence in `slot`: all its tokens are fed, what was there before is forgotten.

        Raises:
            ValueError: no token, or more than the capacity.
        """
        rows = len(tokens)
        if not 0 < rows <= self.capacity:
            raise ValueError(f"{rows} tokens for a slot of {self.capacity} rows; expected 1..{self.capacity}")

        def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            self._keys[layer][slot, :rows], self._values[layer][slot, :rows] = keys, values
            queries, keys, values = (part.transpose(0, 1)[None] for part in (queries, keys, values))
            mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
            return mixed[0].transpose(0, 1)

        self._blocks(torch.tensor(tokens), torch.arange(rows), attend)
        self.lengths[slot] = rows

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, " slots"]) -> Float[Tensor, "slots vocab"]:
        """Feeds one token to every slot; next-token logits in float32.

        Raises:
            ValueError: a slot is full.
        """
        total = int(self.lengths.max()) + 1
        if total > self.capacity:
            raise ValueError(f"a slot holds {self.capacity} rows already; finish its sequence first")
        at, slots = self.lengths.to(self.model.device), torch.arange(self.slots, device=self.model.device)
        mask = (torch.arange(total, device=self.model.device) <= at[:, None])[:, None, None]
        config = self.model.config
        grouped = (self.slots, config.kv_heads, config.heads // config.kv_heads, config.head_dim)

        def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            all_keys, all_values = self._keys[layer], self._values[layer]
            all_keys[slots, at], all_values[slots, at] = keys, values
            # the query heads that share a key head stand as rows of one attention, so that nothing is repeated
            return F.scaled_dot_product_attention(
                queries.view(grouped),
                all_keys[:, :total].transpose(1, 2),
                all_values[:, :total].transpose(1, 2),
                attn_mask=mask,
            )

        state = self._blocks(tokens, self.lengths, attend)
        self.lengths += 1
        return self._head(_norm(state, self.model.weights.norm, config.norm_eps)).float()

    def _blocks(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Float[Tensor, "rows width"]:
        config, weights = self.model.config, self.model.weights
        positions = positions.to(self.model.device)
        cos, sin = self._cos[positions], self._sin[positions]
        state = F.embedding(tokens.to(self.model.device), weights.embedding)
        rows, both = state.shape[0], config.heads + config.kv_heads
        for index, layer in enumerate(weights.layers):
            qkv, out, gate_up, down = self._products[index]
            heads = qkv(_norm(state, layer.attention_norm, config.norm_eps)).view(rows, -1, config.head_dim)
            rotated = _rotate(heads[:, :both].float(), cos, sin).to(self.dtype)
            mixed = attend(index, rotated[:, : config.heads], rotated[:, config.heads :], heads[:, both:])
            state = state + out(mixed.reshape(rows, -1))
            gate, up = gate_up(_norm(state, layer.ffn_norm, config.norm_eps)).chunk(2, dim=-1)
            state = state + down(F.silu(gate) * up)
        return state

    def _product(self, weight: Float[Tensor, "out inner"]) -> Product:
        """x -> x Wᵀ in `dtype`; on a CPU with the weight in oneDNN's layout for this many rows."""
        weight = weight.to(self.dtype)
        if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
            return lambda x: F.linear(x.to(weight.dtype), weight)
        packed, dtype = torch.ops.mkldnn._reorder_linear_weight(weight, self.slots), self.dtype
        return lambda x: torch.ops.mkldnn._linear_pointwise(x.to(dtype), packed, None, "none", [], "")


def _norm(state: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(state, weight.shape, weight, eps)


def _rotate(x: Float[Tensor, "rows heads head_dim"], cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
