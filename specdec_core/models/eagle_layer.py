"""An EAGLE head that drafts: one Llama layer with a cache of its own, fed pairs (state, next token)."""

from jaxtyping import Bool, Float, Int
import torch
from torch import Tensor
import torch.nn.functional as F

from specdec_core.cache import ContiguousKVCache
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.ends import ends_of
from specdec_core.models.linear import Linear
from specdec_core.models.llama import LayerWeights, Llama, LlamaWeights
from specdec_core.models.protocol import ForwardOutput, LanguageModel
from specdec_core.models.routes import choose_routes


class EagleLayer:
    """`EagleHead` for inference, in the target's dtype and on its device. Row t of its cache is pair t.

    Pair t is (state of token t, token t + 1); its logits, over the cut vocabulary, are for token t + 2.
    """

    def __init__(self, head: EagleHead, target: LanguageModel, vocabulary: CutVocabulary) -> None:
        """Raises ValueError for a head of another width or a cut of another vocabulary than the target's."""
        embedding, output = ends_of(target)
        if not isinstance(head, EagleHead):
            raise ValueError(f"head is a {type(head).__name__}; expected an EagleHead, as `load_eagle_head` gives it")
        check_head(head.config.width, vocabulary, target, output)
        self.vocabulary = vocabulary
        self.width = head.config.width
        weights = {name: value.detach().to(target.device, target.dtype) for name, value in head.state_dict().items()}
        self._norms = weights["state_norm.weight"], weights["embedding_norm.weight"]
        self._join = Linear(weights["join.weight"])
        choose_routes([self._join])
        self._embedding = embedding
        cut = Linear(output[vocabulary.index.to(target.device)])
        self._layer = Llama(head.config, LlamaWeights(embedding, (_layer_of(weights),), weights["norm.weight"], cut))

    def new_cache(self, capacity: int) -> ContiguousKVCache:
        """An empty cache for up to `capacity` pairs, drafted ones included."""
        return self._layer.new_cache(capacity)

    def forward(
        self,
        states: Float[Tensor, "rows width"],
        tokens: Int[Tensor, " rows"],
        positions: Int[Tensor, " rows"] | None = None,
        mask: Bool[Tensor, "rows total"] | None = None,
        *,
        cache: ContiguousKVCache,
        last_only: bool = False,
    ) -> ForwardOutput:
        """Logits over the cut and the state of the token after each pair; the rest as `LanguageModel.forward`.

        Raises:
            ValueError: not one state a token or states of another width, and as `Llama.forward_states`.
        """
        if tuple(states.shape) != (len(tokens), self.width):
            raise ValueError(
                f"states has shape {tuple(states.shape)} for {len(tokens)} tokens; expected [{len(tokens)}, "
                f"{self.width}]: this head was made for a target of width {self.width}"
            )
        with torch.inference_mode():
            embedded = F.embedding(tokens.to(self._embedding.device), self._embedding)
            eps = self._layer.config.norm_eps
            halves = [
                F.rms_norm(part.to(norm.dtype), norm.shape, norm, eps)
                for part, norm in zip((states, embedded), self._norms)
            ]
            joined = self._join(torch.cat(halves, dim=-1))
        return self._layer.forward_states(joined, positions, mask, cache=cache, last_only=last_only)


def check_head(width: int, vocabulary: CutVocabulary, target: LanguageModel, output: Tensor) -> None:
    """ValueError, naming both sides, unless head, cut vocabulary and target fit."""
    if not isinstance(vocabulary, CutVocabulary):
        raise ValueError(
            f"vocabulary is a {type(vocabulary).__name__}; expected the CutVocabulary that the head was loaded with"
        )
    if width != output.shape[1]:
        raise ValueError(
            f"head has width {width}, the target's states {output.shape[1]}; use the head trained for this target"
        )
    if vocabulary.target_size != target.vocab_size:
        raise ValueError(
            f"the cut vocabulary is of {vocabulary.target_size} ids, the target has {target.vocab_size}; "
            "use the head trained for this target"
        )


def _layer_of(weights: dict[str, Tensor]) -> LayerWeights:
    attention, mlp = "layer.self_attn.", "layer.mlp."
    qkv = torch.cat([weights[f"{attention}{name}_proj.weight"] for name in "qkv"])
    gate_up = torch.cat([weights[f"{mlp}{name}_proj.weight"] for name in ("gate", "up")])
    return LayerWeights(
        weights["layer.input_layernorm.weight"],
        Linear(qkv),
        Linear(weights[f"{attention}o_proj.weight"]),
        weights["layer.post_attention_layernorm.weight"],
        Linear(gate_up),
        Linear(weights[f"{mlp}down_proj.weight"]),
    )
