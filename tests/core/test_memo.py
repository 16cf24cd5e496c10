"""The memo gives the model's own logits, whatever the order of asking."""

import pytest
import torch

from specdec_core.memo import MemoisedModel
from specdec_core.toy import PrefixModel


def logits_of(prefix: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(7, generator=torch.Generator().manual_seed(hash(prefix) & 0xFFFFFFF))


@pytest.fixture
def memo() -> tuple[MemoisedModel, PrefixModel]:
    inner = PrefixModel(7, logits_of)
    return MemoisedModel(inner, capacity=10), inner


def test_rows_equal_the_model_in_any_order(memo):
    model, _ = memo
    for prefix in [(1, 2, 3), (1, 2), (1, 2, 3, 4), (5,), (1, 2, 3), (1, 2, 4, 4)]:
        assert torch.equal(model.logits_after(prefix), logits_of(prefix))


def test_prefetch_equals_single_passes_and_saves_forwards(memo):
    model, inner = memo
    prefixes = [(1, a, b) for a in range(7) for b in range(7)]
    model.prefetch(prefixes)
    assert inner.forwards < 6
    forwards = inner.forwards
    for prefix in prefixes:
        assert torch.equal(model.logits_after(prefix), logits_of(prefix))
    assert inner.forwards == forwards


def test_prefetch_of_prefixes_with_nothing_in_common(memo):
    model, _ = memo
    model.prefetch([(1,), (2, 3), (2, 4, 5)])
    for prefix in [(1,), (2, 3), (2, 4, 5)]:
        assert torch.equal(model.logits_after(prefix), logits_of(prefix))


def test_the_rows_of_a_pass_cost_one_forward(memo):
    model, inner = memo
    cache = model.new_cache(8)
    for _ in range(3):
        cache.truncate(0)
        output = model.forward(torch.tensor([1, 2, 3]), cache=cache)
        assert torch.equal(output.logits, torch.stack([logits_of((1,)), logits_of((1, 2)), logits_of((1, 2, 3))]))
    assert model.misses == inner.forwards == 1


def test_states_are_kept_where_asked_for():
    inner = PrefixModel(7, logits_of, state_of=lambda prefix: logits_of(prefix)[:3])
    model = MemoisedModel(inner, capacity=10, keep_states=True)
    for last_only in (True, False):
        output = model.forward(torch.tensor([1, 2]), cache=model.new_cache(8), last_only=last_only)
        assert output.hidden is not None
        assert torch.equal(output.hidden, torch.stack([logits_of((1,))[:3], logits_of((1, 2))[:3]]))
    assert torch.equal(model.state_after((1, 2, 5)), logits_of((1, 2, 5))[:3])
    assert model.misses == 2, "the pair of rows, and the prefix behind it"


def test_states_that_are_not_there(memo):
    with pytest.raises(ValueError, match="keeps no states"):
        memo[0].state_after((1,))
    with pytest.raises(ValueError, match="PrefixModel gives no states to keep"):
        MemoisedModel(PrefixModel(7, logits_of), capacity=4, keep_states=True).logits_after((1,))
