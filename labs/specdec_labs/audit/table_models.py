"""`Tables` as Hugging Face models. Their memory is the cache, so a cache row that should be gone changes the text."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from specdec_labs.audit.tables import Row


class TableConfig(PreTrainedConfig):
    """The configuration of `TableModel`."""

    model_type = "specdec_table"

    def __init__(self, vocab_size: int = 2, order: int = 0, **kwargs: Any) -> None:
        self.vocab_size, self.order = vocab_size, order
        self.num_hidden_layers = self.num_attention_heads = self.num_key_value_heads = self.hidden_size = 1
        super().__init__(**kwargs)


class TableModel(PreTrainedModel, GenerationMixin):
    """Next-token law by the last `order` tokens, which it reads from its cache: the keys of its one layer are ids."""

    config_class = TableConfig
    main_input_name = "input_ids"

    def __init__(self, config: TableConfig, rows: tuple[Row, ...] = ()) -> None:
        super().__init__(config)
        logits = torch.tensor([[float(p) for p in row] for row in rows], dtype=torch.float64).log().float()
        self.rows = nn.Parameter(logits, requires_grad=False)

    @classmethod
    def of(cls, rows: tuple[Row, ...], vocab: int, order: int) -> "TableModel":
        """The model of these rows. No token ends a text."""
        model = cls(TableConfig(vocab_size=vocab, order=order, bos_token_id=None, eos_token_id=None), rows).eval()
        model.generation_config.pad_token_id = 0
        return model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """Logits after each of the new tokens, one text at a time; what is before the text counts as token 0."""
        cache = cache if cache is not None else DynamicCache(config=self.config)
        ids = input_ids.to(torch.float32)[:, None, :, None]
        keys, _ = cache.update(ids, ids, 0)
        order, new = self.config.order, input_ids.shape[1]
        text = torch.cat([torch.zeros(order), keys[0, 0, :, 0]]).round().long()
        context = torch.zeros(new, dtype=torch.long)
        for back in range(order, 0, -1):
            stop = len(text) - back + 1
            context = context * self.config.vocab_size + text[stop - new : stop]
        if isinstance(logits_to_keep, int) and logits_to_keep:
            context = context[-logits_to_keep:]
        return CausalLMOutputWithPast(logits=self.rows[context][None], cache=cache)
