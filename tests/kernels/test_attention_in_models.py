"""The registered tree attention inside models: our forward and transformers give what they give without it."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

from specdec_core import ops
from specdec_core.draft import DraftTree
from specdec_core.models.hf import HFModel
from specdec_core.models.hf_attention import NAME, register_attention
from specdec_core.models.llama_load import llama_from_hf
from specdec_core.models.protocol import LanguageModel
from specdec_kernels.attention_pass import attention_pass

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

PROMPT = torch.tensor([5, 17, 3, 60, 2])
TREE = DraftTree((11, 12, 13, 14, 15), (-1, -1, 0, 0, 2))
INTERPRETED = partial(attention_pass, interpreted=True)
CPU, FLOAT = torch.device("cpu"), torch.float32


class Counted:
    """The operator, with how often it served and how often its plans were called."""

    def __init__(self) -> None:
        self.plans = self.refusals = self.calls = 0

    def __call__(self, *arguments: Any) -> Any:
        plan = INTERPRETED(*arguments)
        self.plans, self.refusals = self.plans + (plan is not None), self.refusals + (plan is None)

        def call(*tensors: Any, **options: Any) -> torch.Tensor:
            self.calls += 1
            return plan(*tensors, **options)

        return None if plan is None else call


@pytest.fixture
def operator() -> Iterator[Counted]:
    before = ops.get("attention_pass")
    counted = Counted()
    ops.register("attention_pass", counted)
    yield counted
    ops.unregister("attention_pass")
    if before is not None:
        ops.register("attention_pass", before)


def small_llama(attention: str = "sdpa") -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.3,
    )  # fmt: skip
    return LlamaForCausalLM._from_config(config, attn_implementation=attention)


def answers(model: LanguageModel, mask_of_tree: torch.Tensor | None = None) -> list[torch.Tensor]:
    """Logits of a prompt, of a chain behind it, and of a tree behind both."""
    cache = model.new_cache(32)
    mask = TREE.attention_mask(len(PROMPT) + 3) if mask_of_tree is None else mask_of_tree
    tokens, positions = torch.tensor([7, *TREE.tokens]), TREE.position_ids(len(PROMPT) + 3)
    return [
        model.forward(PROMPT, cache=cache).logits,
        model.forward(torch.tensor([4, 8, 9]), cache=cache).logits,
        model.forward(tokens, positions, mask, cache=cache).logits,
        model.forward(torch.tensor([1]), cache=cache).logits,
    ]


def test_our_forward_gives_the_same_logits_with_the_operator(operator: Counted) -> None:
    model = llama_from_hf(small_llama())
    ops.unregister("attention_pass")
    wanted = answers(model)
    ops.register("attention_pass", operator)
    got = answers(model)
    assert (operator.plans, operator.calls) == (4, 8), "one plan a pass, one call a layer"
    for ours, theirs in zip(got, wanted, strict=True):
        assert float((ours - theirs).abs().max()) < 1e-4


def test_transformers_gives_the_same_logits_as_sdpa(operator: Counted) -> None:
    assert register_attention() == NAME
    wanted, got = answers(HFModel(small_llama())), answers(HFModel(small_llama(NAME)))
    # a chain behind a prompt comes with no mask and as many rows as fit the cache: planned as well
    assert (operator.plans, operator.refusals, operator.calls) == (4, 0, 8)
    for ours, theirs in zip(got, wanted, strict=True):
        assert float((ours - theirs).abs().max()) < 1e-4


def test_a_batch_goes_to_sdpa_and_padding_on_the_left_is_served(operator: Counted) -> None:
    register_attention()
    ids, mask = PROMPT.repeat(2, 1), torch.ones(2, 5, dtype=torch.long)
    mask[0, :2] = 0
    for tokens, padding, plans in ((ids, mask, 0), (ids[:1], mask[:1], 1)):
        got, wanted = (
            small_llama(name)(tokens, attention_mask=padding).logits[:, 2:].detach() for name in (NAME, "sdpa")
        )
        assert float((got - wanted).abs().max()) < 1e-5
        assert (operator.plans, operator.refusals) == (plans, 0)


def test_what_a_row_must_not_see_does_not_reach_it(operator: Counted) -> None:
    model = llama_from_hf(small_llama())
    cache = model.new_cache(16)
    model.forward(PROMPT, cache=cache)
    tokens, mask = torch.tensor([7, *TREE.tokens]), TREE.attention_mask(len(PROMPT))
    positions, before = TREE.position_ids(len(PROMPT)), operator.plans
    wanted = model.forward(tokens, positions, mask, cache=cache).logits
    for node in range(6):
        cache.rollback(6)
        other = tokens.clone()
        other[node] += 1
        moved = model.forward(other, positions, mask, cache=cache).logits
        changed = ((moved - wanted).abs().amax(1) > 1e-6).tolist()
        assert changed == mask[:, len(PROMPT) + node].tolist(), node
    assert operator.plans == before + 7


def test_a_new_tree_in_the_old_mask_is_seen(operator: Counted) -> None:
    register_attention()
    model = small_llama(NAME)
    tokens, mask = PROMPT[None, :3], torch.ones(3, 3, dtype=torch.bool).tril()[None, None]
    chain = model(tokens, attention_mask=mask).logits.detach()
    mask[0, 0, 2, 1] = False
    tree = model(tokens, attention_mask=mask).logits.detach()
    wanted = small_llama()(tokens, attention_mask=mask).logits.detach()
    assert float((tree - wanted).abs().max()) < 1e-5
    assert float((tree - chain)[0, 2].abs().max()) > 1e-3
    assert operator.plans == 2


@pytest.mark.parametrize(
    ("rows", "mask", "dtype", "why"),
    [
        (129, None, FLOAT, "too many rows"),
        (2, None, torch.float64, "a dtype the kernels do not take"),
        (2, [[0, 1, 1, 0], [1, 1, 1, 1]], FLOAT, "a row that misses part of the prefix"),
        (2, [[1, 1, 1, 0], [1, 1, 1, 0]], FLOAT, "a row that sees much but not itself"),
        (2, [[0, 0, 0, 1], [1, 1, 0, 1]], FLOAT, "a row that sees a row and nothing else"),
    ],
)
def test_what_is_no_tree_is_left_to_the_caller(rows: int, mask: Any, dtype: torch.dtype, why: str) -> None:
    tensor = None if mask is None else torch.tensor(mask, dtype=torch.bool)
    assert INTERPRETED(2, rows, tensor, CPU, dtype) is None, why


def test_a_cpu_is_not_served_unless_asked_and_padding_is() -> None:
    assert attention_pass(2, 2, None, CPU, FLOAT) is None
    padded = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]], dtype=torch.bool)
    plan = INTERPRETED(2, 2, padded, CPU, FLOAT)
    assert plan is not None
    out = plan(torch.randn(2, 2, 16), torch.randn(1, 4, 16), torch.randn(1, 4, 16))
    assert bool((out[:, 1] == 0).all())


def test_a_name_of_transformers_is_not_taken() -> None:
    for name in ("sdpa", "eager"):
        with pytest.raises(ValueError, match=f"name is '{name}', which is an attention of transformers"):
            register_attention(name)
    assert register_attention() == register_attention()
