"""The same Llama as `Llama`, over whole batches and with gradients: what training and distillation run.

Its parameters carry the Hugging Face names, so that a checkpoint opens with `llama_from_tensors` and, beside a
config, with transformers.
"""

from collections.abc import Callable

from jaxtyping import Bool, Float, Int
import torch
from torch import Tensor, nn
import torch.nn.functional as F

from specdec_core.models.llama import Llama, LlamaConfig

Passes = list[tuple[Tensor, Tensor]]
"""Keys and values, [batch, kv_heads, rows, head_dim] each, of every pass over the same rows so far."""

_INIT_STD = 0.02


class Attention(nn.Module):
    """Causal grouped-query attention with rotary positions."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        heads, kv_heads, head_dim = config.heads, config.kv_heads, config.head_dim
        self.q_proj = nn.Linear(config.width, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(config.width, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(config.width, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, config.width, bias=False)

    def forward(
        self, state: Float[Tensor, "batch rows width"], rotation: tuple[Tensor, Tensor], passes: Passes | None = None
    ) -> Float[Tensor, "batch rows width"]:
        """What each row takes in from itself and the rows before it.

        `passes` are the keys and values of earlier passes over the same rows (see `pass_mask`); this one is added.
        """
        batch, rows, _ = state.shape
        queries, keys, values = (
            part(state).view(batch, rows, -1, self.config.head_dim).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        queries, keys = _rotate(queries, rotation), _rotate(keys, rotation)
        mask = None
        if passes is not None:
            passes.append((keys, values))
            if len(passes) > 1:
                mask = pass_mask(rows, len(passes), state.device)
                keys, values = (torch.cat(parts, dim=2) for parts in zip(*passes))
        mixed = attend(queries, keys, values, mask)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, rows, -1))


def attend(
    queries: Float[Tensor, "batch heads rows head_dim"],
    keys: Float[Tensor, "batch kv_heads all_rows head_dim"],
    values: Float[Tensor, "batch kv_heads all_rows head_dim"],
    mask: Bool[Tensor, "rows all_rows"] | None,
) -> Float[Tensor, "batch heads rows head_dim"]:
    """Attention under a mask (True = may look) that leaves every row something, or causal without one.

    On a CPU in bfloat16 the backward pass of the fused operator takes twice as long as plain products.
    """
    if queries.device.type != "cpu" or queries.dtype != torch.bfloat16 or not queries.requires_grad:
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=mask is None, enable_gqa=True
        )
    batch, heads, rows, head_dim = queries.shape
    kv_heads, total = keys.shape[1], keys.shape[2]
    if mask is None:
        mask = torch.ones(rows, total, dtype=torch.bool).tril()
    bias = torch.zeros(mask.shape, dtype=queries.dtype).masked_fill(~mask, float("-inf"))
    # query heads that share a key head stand as rows of one product
    grouped = queries.reshape(batch * kv_heads, heads // kv_heads * rows, head_dim)
    bias = bias.repeat(heads // kv_heads, 1).expand(batch * kv_heads, -1, -1)
    with torch.autocast("cpu", enabled=False):
        scores = torch.baddbmm(bias, grouped, keys.flatten(0, 1).transpose(1, 2), alpha=head_dim**-0.5)
        mixed = scores.softmax(dim=-1) @ values.flatten(0, 1)
    return mixed.view(batch, heads, rows, head_dim)


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.ffn_width, bias=False)
        self.up_proj = nn.Linear(config.width, config.ffn_width, bias=False)
        self.down_proj = nn.Linear(config.ffn_width, config.width, bias=False)

    def forward(self, state: Float[Tensor, "batch rows width"]) -> Float[Tensor, "batch rows width"]:
        """The state's own contribution."""
        return self.down_proj(F.silu(self.gate_proj(state)) * self.up_proj(state))


class Norm(nn.Module):
    """RMSNorm in float32, whatever the products run in."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, state: Float[Tensor, "batch rows width"]) -> Float[Tensor, "batch rows width"]:
        """Each row at root mean square one, times the weight."""
        return F.rms_norm(state.float(), self.weight.shape, self.weight, self.eps)


class Block(nn.Module):
    """One Llama layer."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = Norm(config.width, config.norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = Norm(config.width, config.norm_eps)
        self.mlp = FeedForward(config)

    def forward(
        self, state: Float[Tensor, "batch rows width"], rotation: tuple[Tensor, Tensor], passes: Passes | None = None
    ) -> Float[Tensor, "batch rows width"]:
        """The residual stream after this layer, in float32."""
        state = state + self.self_attn(self.input_layernorm(state), rotation, passes).float()
        return state + self.mlp(self.post_attention_layernorm(state)).float()


class Body(nn.Module):
    """Embedding, layers and the last norm."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.width)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = Norm(config.width, config.norm_eps)


class TrainableLlama(nn.Module):
    """A Llama with a head tied to the embedding."""

    def __init__(self, config: LlamaConfig, *, seed: int = 0) -> None:
        """Fresh weights from `seed`: normal with deviation 0.02, smaller where a layer adds to the residual stream."""
        super().__init__()
        self.config = config
        # on the meta device first: the default initialisation would draw from the global generator
        with torch.device("meta"):
            self.model = Body(config)
        self.to_empty(device="cpu")
        initialise(self, seed, layers=config.layers)

    def forward(self, tokens: Int[Tensor, "batch rows"]) -> Float[Tensor, "batch rows width"]:
        """The normalised states the head reads; `logits` makes the rest."""
        state = self.model.embed_tokens(tokens).float()
        rotation = rotation_table(self.config, tokens.shape[1], tokens.device)
        for layer in self.model.layers:
            state = layer(state, rotation)
        return self.model.norm(state)

    def logits(self, states: Float[Tensor, "... width"]) -> Float[Tensor, "... vocab"]:
        """Next-token logits for states that `forward` gave."""
        return F.linear(states, self.model.embed_tokens.weight)


def initialise(module: nn.Module, seed: int, *, layers: int) -> None:
    """Fills every parameter of `module` from `seed`, in the order of their names."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("norm.weight"):
                parameter.fill_(1.0)
            elif name.endswith("bias"):
                parameter.zero_()
            else:
                residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                std = _INIT_STD / (2 * layers) ** 0.5 if residual else _INIT_STD
                parameter.normal_(0.0, std, generator=generator)


def pass_mask(rows: int, passes: int, device: torch.device) -> Bool[Tensor, "rows all_rows"]:
    """Which rows of which pass the rows of the latest pass see, when pass s is the s-th step of a draft.

    A draft of s steps that ends in row j was fed the target's states up to row j - s + 1 (pass 1), then its own
    states, one a step: row j - s + 2 in pass 2, ..., row j in pass s. Rows that have no such past see nothing but
    themselves; they carry no loss.

    Source: training-time test, EAGLE-3, Li et al. 2503.01840.
    """
    ahead = torch.arange(rows, device=device)[:, None] - torch.arange(rows, device=device)
    seen = [ahead >= passes - 1] + [ahead == passes - step for step in range(2, passes + 1)]
    return torch.cat(seen, dim=1)


def rotation_table(config: LlamaConfig, rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines [rows, head_dim / 2] of positions 0 .. rows - 1."""
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device=device) / config.head_dim
    angles = torch.outer(torch.arange(rows, dtype=torch.float32, device=device), config.rope_theta**-half)
    return angles.cos(), angles.sin()


def _rotate(x: Float[Tensor, "batch heads rows head_dim"], rotation: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = (part.to(x.dtype) for part in rotation)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def trainable_from(model: Llama) -> TrainableLlama:
    """A copy of a loaded `Llama` with a tied head.

    Raises:
        ValueError: the head is not tied to the embedding.
    """
    weights, config = model.weights, model.config
    if weights.head.weight.data_ptr() != weights.embedding.data_ptr():
        raise ValueError("the model's head is not tied to its embedding; only tied models are trained here")
    state = {"model.embed_tokens.weight": weights.embedding, "model.norm.weight": weights.norm}
    query, key = config.heads * config.head_dim, config.kv_heads * config.head_dim
    for index, layer in enumerate(weights.layers):
        at = f"model.layers.{index}."
        parts = dict(zip("qkv", layer.qkv.weight.split((query, key, key))))
        state |= {f"{at}self_attn.{name}_proj.weight": part for name, part in parts.items()}
        gate, up = layer.gate_up.weight.chunk(2)
        state |= {
            f"{at}input_layernorm.weight": layer.attention_norm,
            f"{at}self_attn.o_proj.weight": layer.attention_out.weight,
            f"{at}post_attention_layernorm.weight": layer.ffn_norm,
            f"{at}mlp.gate_proj.weight": gate,
            f"{at}mlp.up_proj.weight": up,
            f"{at}mlp.down_proj.weight": layer.down.weight,
        }
    copy = TrainableLlama(config)
    copy.load_state_dict(state)
    return copy.to(model.device)


def reader_of(module: nn.Module) -> Callable[[str], Tensor]:
    """What `llama_from_tensors` reads from: a detached copy of the parameter of that name."""
    state = module.state_dict()
    return lambda name: state[name].detach().clone()
