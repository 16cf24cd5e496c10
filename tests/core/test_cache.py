"""Both caches against a list of rows: random appends, rollbacks, truncations and keeps."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import torch

from specdec_core.cache import ContiguousKVCache
from specdec_core.models.protocol import KVCache, LanguageModel
from specdec_core.toy import PrefixModel, TokenCache

CAPACITY = 12


class _Rows:
    """A cache under test, written with numbered rows, beside the list of what it should hold."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.cache: Any = TokenCache(CAPACITY)
        if kind == "keys and values":
            self.cache = ContiguousKVCache(layers=2, heads=2, head_dim=3, capacity=CAPACITY)
        self.expected: list[int] = []
        self.block_start = 0

    def append(self, first: int, count: int) -> None:
        numbers = list(range(first, first + count))
        if self.kind == "tokens":
            self.cache.append(numbers)
        else:
            for layer in range(2):
                keys = self._keys(numbers, layer)
                seen, values = self.cache.append(layer, keys, -keys)
                # the layer being written sees its own new rows at once
                assert torch.equal(seen, self._keys([*self.expected, *numbers], layer))
                assert torch.equal(values, -seen)
        self.block_start = len(self.expected)
        self.expected += numbers

    @staticmethod
    def _keys(numbers: list[int], layer: int) -> torch.Tensor:
        rows = torch.tensor(numbers, dtype=torch.float32)[None, :, None]
        return (rows + 1000 * layer).expand(2, -1, 3).clone()

    def check(self) -> None:
        assert len(self.cache) == len(self.expected)
        if self.kind == "tokens":
            assert self.cache.tokens == self.expected
            return
        for layer in range(2):
            keys, values = self.cache.rows(layer)
            assert torch.equal(keys, self._keys(self.expected, layer))
            assert torch.equal(values, -keys)


@pytest.mark.parametrize("kind", ["tokens", "keys and values"])
@settings(max_examples=80)
@given(data=st.data())
def test_a_cache_behaves_like_a_list_of_rows(kind: str, data: st.DataObject) -> None:
    rows = _Rows(kind)
    for step in range(data.draw(st.integers(1, 8))):
        length = len(rows.expected)
        operation = data.draw(st.sampled_from(["append", "append", "keep", "rollback", "truncate"]))
        if operation == "append":
            rows.append(100 * step, data.draw(st.integers(0, CAPACITY - length)))
        elif operation == "keep":
            written = length - rows.block_start
            nodes = sorted(data.draw(st.sets(st.integers(0, written - 1)))) if written else []
            moved = rows.cache.rows_moved
            rows.cache.keep(nodes)
            assert rows.cache.rows_moved - moved == sum(slot != node for slot, node in enumerate(nodes))
            rows.expected[rows.block_start :] = [rows.expected[rows.block_start + node] for node in nodes]
        else:
            count = data.draw(st.integers(0, length))
            before = rows.cache.rows_moved
            getattr(rows.cache, operation)(count)
            assert rows.cache.rows_moved == before, "rolling back moves no row"
            del rows.expected[length - count if operation == "rollback" else count :]
            rows.block_start = min(rows.block_start, len(rows.expected))
        rows.check()


@pytest.fixture(params=["tokens", "keys and values"])
def block_of_four(request: pytest.FixtureRequest) -> _Rows:
    rows = _Rows(request.param)
    rows.append(0, 3)
    rows.append(10, 4)
    return rows


@pytest.mark.parametrize("nodes", [[1, 0], [0, 0], [4], [-1], [0, 4], [2, 1, 3]])
def test_keep_takes_increasing_offsets_of_the_latest_forward_only(block_of_four: _Rows, nodes: list[int]) -> None:
    with pytest.raises(ValueError, match="node_ids is"):
        block_of_four.cache.keep(nodes)
    block_of_four.check()
    assert block_of_four.cache.rows_moved == 0


def test_keep_never_touches_older_rows_and_moves_only_what_changes_its_slot(block_of_four: _Rows) -> None:
    block_of_four.cache.keep([0, 2, 3])
    block_of_four.expected = [0, 1, 2, 10, 12, 13]
    block_of_four.check()
    assert block_of_four.cache.rows_moved == 2


def test_more_rows_than_fit_are_refused_and_nothing_is_written(block_of_four: _Rows) -> None:
    with pytest.raises(ValueError, match="6 rows do not fit: the cache holds 7 of 12"):
        if block_of_four.kind == "tokens":
            block_of_four.cache.append(list(range(6)))
        else:
            block_of_four.cache.append(0, torch.ones(2, 6, 3), torch.ones(2, 6, 3))
    block_of_four.check()


def test_rolling_back_moves_no_byte() -> None:
    rows = _Rows("keys and values")
    rows.append(0, 8)
    before = rows.cache.rows(0)[0].data_ptr()
    rows.cache.rollback(3)
    rows.cache.truncate(2)
    assert rows.cache.rows(0)[0].data_ptr() == before
    assert rows.cache.rows_moved == 0


def test_a_forward_stopped_between_layers_leaves_the_length_alone() -> None:
    """The last layer's call makes rows count: an interrupt before it leaves a cache that is still right."""
    rows = _Rows("keys and values")
    rows.append(0, 3)
    rows.cache.append(0, torch.full((2, 2, 3), 7.0), torch.full((2, 2, 3), 7.0))
    rows.check()
    rows.append(20, 1)
    rows.check()


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_cache_without_room_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match=f"capacity is {capacity}; expected at least 1 row"):
        ContiguousKVCache(layers=1, heads=1, head_dim=1, capacity=capacity)


def test_dtype_is_kept() -> None:
    cache = ContiguousKVCache(layers=1, heads=1, head_dim=2, capacity=4, dtype=torch.bfloat16)
    cache.append(0, torch.ones(1, 2, 2), torch.ones(1, 2, 2))
    assert cache.rows(0)[0].dtype == torch.bfloat16


def test_the_toy_model_and_both_caches_fit_the_protocols() -> None:
    assert isinstance(PrefixModel(2, lambda prefix: [0.0, 0.0]), LanguageModel)
    assert isinstance(TokenCache(1), KVCache)
    assert isinstance(ContiguousKVCache(layers=1, heads=1, head_dim=1, capacity=1), KVCache)


@pytest.mark.parametrize("token", [-1, 2])
def test_the_toy_model_refuses_tokens_outside_its_vocabulary(token: int) -> None:
    model = PrefixModel(2, lambda prefix: [0.0, 0.0], max_length=4)
    cache = model.new_cache(4)
    with pytest.raises(ValueError, match=rf"tokens\[1\] is {token}; the vocabulary has ids 0\.\.1"):
        model.forward(torch.tensor([0, token]), cache=cache)
    with pytest.raises(ValueError, match=r"positions\[4\] is 4"):
        model.forward(torch.tensor([0] * 5), cache=model.new_cache(9))
    assert len(cache) == 0
    assert (model.forwards, model.positions_fed) == (0, 0)
