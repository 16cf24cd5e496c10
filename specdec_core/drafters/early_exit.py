"""The target's own lower layers as drafter: no second model, and no second cache for what they have read."""

from numbers import Integral

from jaxtyping import Float
from torch import Tensor

from specdec_core.cache import ContiguousKVCache
from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft
from specdec_core.drafters.model import ModelDrafter
from specdec_core.drafters.protocol import Context, MayContinue
from specdec_core.models.llama import Llama
from specdec_core.rules.verdict import Verdict


class EarlyExitDrafter(ModelDrafter):
    """Drafts by the target's lower `layers` layers and its head, on the target's own rows of those layers.

    A layer's keys and values depend on the layers below alone, so what the target wrote is what the shallow model
    would have written: the drafter feeds the pending token and its drafts, nothing else, at any time. Their rows go
    behind the target's valid ones and never count; the verify pass writes over them, so that what stays in the cache
    is the target's, bit for bit. (LayerSkip reuses them, which saves `layers` of a verify pass and makes its rows
    those of one-row passes.) Sampled drafts, as those of `ModelDrafter`; deterministic at temperature 0 alone.

    A model that was not trained to exit early says little below its last layers: measure before relying on it.

    Source: LayerSkip, Elhoushi et al. 2404.16710.
    """

    def __init__(self, target: Llama, layers: int, *, temperature: float | None = None, coupled: bool = False) -> None:
        """Raises ValueError unless 1 <= layers < the target's, or for a model that is no `Llama` of ours."""
        if not isinstance(target, Llama):
            raise ValueError(
                f"target is a {type(target).__name__}; expected a Llama, whose layers can be run apart - draft with "
                "ModelDrafter(a smaller model) instead"
            )
        if not isinstance(layers, Integral) or not 1 <= layers < target.config.layers:
            raise ValueError(f"layers is {layers}; expected 1..{target.config.layers - 1}, fewer than the target has")
        super().__init__(
            target.shallow(range(layers)), temperature=temperature, coupled=coupled, name=f"early exit {layers}"
        )
        self.layers = layers
        self._target_layers = target.config.layers

    @property
    def cache_rows(self) -> int | None:
        """None: it has no cache of its own."""
        return None

    def start(self, capacity: int) -> None:
        """Nothing to forget: all it knows stands in the target's cache."""

    def prefill(self, context: Context) -> None:
        """Nothing to feed: the target's prefill wrote the rows."""

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """Up to `budget` tokens, each drawn from the law of its slot (kept as `draft_probs`).

        Raises:
            ValueError: a context without the target's cache, or with one that cannot be shared.
        """
        cache = context.cache
        if not isinstance(cache, ContiguousKVCache) or cache.layers != self._target_layers:
            found = f"{cache.layers} layers" if isinstance(cache, ContiguousKVCache) else type(cache).__name__
            raise ValueError(
                f"context.cache is {found}; expected the target's ContiguousKVCache of {self._target_layers} layers - "
                "use the very target this drafter was made from"
            )
        if len(cache) != len(context.tokens) - 1:
            raise ValueError(
                f"context.cache holds {len(cache)} rows for {len(context.tokens)} tokens; expected one row less than "
                "tokens: the last one is pending"
            )
        self._cache = cache.lower_layers(self.layers)
        try:
            return super().propose(context, budget, coins, may_continue)
        finally:
            self._cache = None

    def observe(self, verdict: Verdict, hidden: Float[Tensor, "rows width"] | None) -> None:
        """Nothing to roll back: drafted rows never counted."""
