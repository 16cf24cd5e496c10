"""Any causal language model of transformers behind the lab's `LanguageModel`."""

from collections.abc import Sequence
import inspect
from typing import Any

from jaxtyping import Bool, Int
import torch
from torch import Tensor

from specdec_core.cache import check_kept, check_length, check_removal
from specdec_core.models.hf_attention import NAME as ATTENTION_NAME
from specdec_core.models.hf_load import load_causal_lm
from specdec_core.models.inputs import check_inputs
from specdec_core.models.protocol import ForwardOutput, KVCache

_NO_LIMIT = 1 << 20  # context of a model whose config states none


class HFCache:
    """Rows kept by a transformers `DynamicCache`, with the lab's rollback, truncate and keep."""

    def __init__(self, rows: Any, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; expected at least 1 row")
        self.capacity = capacity
        self.rows_moved = 0
        self.rows = rows
        self._block_start = 0

    def __len__(self) -> int:
        return int(self.rows.get_seq_length())

    def check_room(self, rows: int) -> None:
        """ValueError unless `rows` more rows fit."""
        if len(self) + rows > self.capacity:
            raise ValueError(
                f"{rows} rows do not fit: the cache holds {len(self)} of {self.capacity}; "
                "make it with a larger capacity or roll it back"
            )

    def wrote_from(self, start: int) -> None:
        """Tells the cache that the latest forward wrote the rows from `start` on."""
        self._block_start = start

    def rollback(self, num_removed: int) -> None:
        """Drops the newest rows. ValueError if negative or more than there are."""
        check_removal(len(self), num_removed)
        # transformers reads a negative count as rows to remove; older releases read a positive one as rows to keep,
        # and zero means "all" in some and "none" in others
        if num_removed:
            self.rows.crop(-num_removed)
        self._block_start = min(self._block_start, len(self))

    def truncate(self, length: int) -> None:
        """Keeps the oldest rows. ValueError if negative or more than there are."""
        check_length(len(self), length)
        self.rollback(len(self) - length)

    def keep(self, node_ids: Sequence[int]) -> None:
        """Keeps the rows at these increasing offsets of the latest forward, in order; see `KVCache.keep`."""
        check_kept(len(self) - self._block_start, node_ids)
        start = self._block_start
        moved = [(slot, node) for slot, node in enumerate(node_ids) if slot != node]
        if moved:
            with torch.inference_mode():
                for layer in self.rows.layers:
                    for block in (layer.keys, layer.values):
                        target = torch.tensor([start + slot for slot, _ in moved], device=block.device)
                        source = torch.tensor([start + node for _, node in moved], device=block.device)
                        block.index_copy_(2, target, block.index_select(2, source))
            self.rows_moved += len(moved)
        self.truncate(start + len(node_ids))


class HFModel:
    """A loaded transformers causal LM as `LanguageModel`, one sequence at a time."""

    def __init__(self, model: Any) -> None:
        """Wraps the model.

        Raises:
            ValueError: its cache cannot be rolled back (recurrent state, sliding window) or it takes none.
        """
        self.model = model.eval()
        # what the head reads is the body's own output; `output_hidden_states` would keep those of every layer
        self._body = model.base_model
        self._parameters = inspect.signature(model.forward).parameters
        config = model.config.get_text_config()
        self.vocab_size: int = config.vocab_size
        self.max_length: int = getattr(config, "max_position_embeddings", None) or _NO_LIMIT
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self._cache_keyword = self._check_cache()

    @classmethod
    def load(cls, name: str, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> "HFModel":
        """The causal LM of a Hugging Face id or a local folder. ValueError as `load_causal_lm` and `HFModel`."""
        return cls(load_causal_lm(name, dtype=dtype).to(device))

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end an answer by the model's generation config; often more than the tokenizer's one."""
        ends = getattr(self.model.generation_config, "eos_token_id", None)
        return tuple(ends) if isinstance(ends, (list, tuple)) else () if ends is None else (ends,)

    def new_cache(self, capacity: int) -> HFCache:
        """An empty cache for up to `capacity` rows, drafted rows included."""
        return HFCache(self._rows(), capacity)

    def forward(
        self,
        tokens: Int[Tensor, " rows"],
        positions: Int[Tensor, " rows"] | None = None,
        mask: Bool[Tensor, "rows total"] | None = None,
        *,
        cache: KVCache,
        last_only: bool = False,
    ) -> ForwardOutput:
        """Next-token logits (float32) and the last hidden state; see `LanguageModel.forward`.

        Raises:
            ValueError: as the protocol says, or a cache of another kind; the cache is unchanged then.
        """
        if not isinstance(cache, HFCache):
            raise ValueError(f"cache is a {type(cache).__name__}; make it with this model's new_cache(capacity)")
        past = len(cache)
        check_inputs(self, tokens, positions, mask, past=past)
        cache.check_room(tokens.shape[0])
        arguments = self._arguments(tokens, positions, mask, past, last_only)
        states: list[Tensor | None] = []
        watch = self._body.register_forward_hook(lambda body, given, output: states.append(_last_state(output)))
        try:
            with torch.inference_mode():
                output = self.model(**arguments, **{self._cache_keyword: cache.rows})
        except BaseException:
            self._undo(cache, past)
            raise
        finally:
            watch.remove()
        cache.wrote_from(past)
        logits = output.logits[0, -1:] if last_only else output.logits[0]
        last = states[-1]
        return ForwardOutput(logits.to(torch.float32, copy=True), None if last is None else last[0].clone())

    def _arguments(
        self, tokens: Tensor, positions: Tensor | None, mask: Tensor | None, past: int, last_only: bool
    ) -> dict[str, Any]:
        rows = tokens.shape[0]
        arguments: dict[str, Any] = {
            "input_ids": tokens.to(self.device, torch.long)[None],
            "use_cache": True,
            "return_dict": True,
        }
        if self._body is self.model:
            # a model in one piece: all states, to find the last
            arguments["output_hidden_states"] = True
        if last_only and "logits_to_keep" in self._parameters:
            arguments["logits_to_keep"] = 1
        if positions is None and mask is None:
            return arguments
        if "position_ids" not in self._parameters:
            raise ValueError(f"{type(self.model).__name__} takes no position_ids; it cannot run a draft tree")
        if positions is None:
            positions = torch.arange(past, past + rows)
        if mask is None:
            mask = torch.ones(rows, past + rows, dtype=torch.bool).tril(past)
        arguments["position_ids"] = positions.to(self.device, torch.long)[None]
        arguments["attention_mask"] = self._prepared(mask.to(self.device))
        return arguments

    def _prepared(self, mask: Bool[Tensor, "rows total"]) -> Tensor:
        """The 4D mask the model's attention wants: boolean for SDPA, additive for the eager one.

        Eager attention spreads a row that sees nothing over all columns; no mask of a draft tree has such a row.
        """
        if self.model.config._attn_implementation in ("sdpa", ATTENTION_NAME):
            return mask[None, None]
        additive = torch.zeros(mask.shape, dtype=self.dtype, device=mask.device)
        return additive.masked_fill(~mask, torch.finfo(self.dtype).min)[None, None]

    def _rows(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self.model.config)

    def _check_cache(self) -> str:
        """The name of the model's cache argument."""
        name = type(self.model).__name__
        kinds = {_layer_kind(layer) for layer in self._rows().layers} - {"full attention"}
        if getattr(self.model, "_is_stateful", False):
            kinds.add("recurrent state")
        if kinds:
            raise ValueError(
                f"{name} keeps {' and '.join(sorted(kinds))}, which cannot be rolled back after a refused draft; "
                "use a model with full attention in every layer"
            )
        # transformers renamed it between 5.17 and 5.24
        for keyword in ("cache", "past_key_values"):
            if keyword in self._parameters:
                return keyword
        raise ValueError(f"{name} takes no key-value cache; use a causal language model with one")

    @staticmethod
    def _undo(cache: HFCache, length: int) -> None:
        """Removes what an interrupted forward left in some of the layers."""
        for layer in cache.rows.layers:
            surplus = layer.get_seq_length() - length
            if surplus > 0:
                layer.crop(-surplus)


def _last_state(output: Any) -> Tensor | None:
    """The state the head reads [1, rows, width], from a body's output or from that of a model in one piece."""
    if getattr(output, "logits", None) is None:
        return output[0]
    return output.hidden_states[-1] if getattr(output, "hidden_states", None) else None


def _layer_kind(layer: Any) -> str:
    from transformers.cache_utils import DynamicLayer

    if getattr(layer, "is_sliding", False):
        return "a sliding window"
    return "full attention" if type(layer) is DynamicLayer else "recurrent state"
