"""Key-value cache of one sequence, preallocated: rollback and truncate move a number, not bytes."""

from collections.abc import Sequence
import copy

from jaxtyping import Float
import torch
from torch import Tensor


def check_removal(length: int, num_removed: int) -> None:
    """ValueError unless `num_removed` rows can be dropped from `length`."""
    if not 0 <= num_removed <= length:
        raise ValueError(f"num_removed is {num_removed}; the cache has {length} rows, so expected 0..{length}")


def check_length(length: int, new_length: int) -> None:
    """ValueError unless the cache of `length` rows can be cut to `new_length`."""
    if not 0 <= new_length <= length:
        raise ValueError(f"length is {new_length}; the cache has {length} rows, so expected 0..{length}")


def check_kept(written: int, node_ids: Sequence[int]) -> None:
    """ValueError unless `node_ids` are increasing offsets into the `written` rows of the latest forward."""
    for before, node in zip((-1, *node_ids), node_ids):
        if not before < node < written:
            raise ValueError(
                f"node_ids is {list(node_ids)}; expected increasing offsets below {written}, "
                "the rows the latest forward wrote"
            )


class ContiguousKVCache:
    """Rows in one block a layer, allocated once.

    Shapes: keys and values are [layers, heads, capacity, head_dim].
    """

    def __init__(
        self,
        *,
        layers: int,
        heads: int,
        head_dim: int,
        capacity: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; expected at least 1 row")
        self.capacity = capacity
        self.rows_moved = 0
        self._keys = torch.zeros(layers, heads, capacity, head_dim, dtype=dtype, device=device)
        self._values = torch.zeros_like(self._keys)
        self._length = 0
        self._block_start = 0

    def __len__(self) -> int:
        return self._length

    @property
    def layers(self) -> int:
        """Layers it holds rows of."""
        return self._keys.shape[0]

    def lower_layers(self, layers: int) -> "ContiguousKVCache":
        """A cache over the lowest `layers` layers of the same memory, with the same valid rows and a length of its own.

        What it appends lies behind this cache's valid rows, and this cache's next append overwrites it: use it before
        that and not after, and never cut it below the rows it started with.

        Raises:
            ValueError: a number of layers that is not 1..layers.
        """
        if not 1 <= layers <= self.layers:
            raise ValueError(f"layers is {layers}; the cache has {self.layers}, so expected 1..{self.layers}")
        lower = copy.copy(self)
        lower._keys, lower._values = self._keys[:layers], self._values[:layers]
        lower._block_start, lower.rows_moved = self._length, 0
        return lower

    def append(
        self, layer: int, keys: Float[Tensor, "heads rows head_dim"], values: Float[Tensor, "heads rows head_dim"]
    ) -> tuple[Float[Tensor, "heads total head_dim"], Float[Tensor, "heads total head_dim"]]:
        """Keys and values of every row of `layer`, the new ones last. The last layer's call makes them count.

        Raises:
            ValueError: more rows than there is room for; nothing is written then.
        """
        start, end = self._length, self._length + keys.shape[1]
        self.check_room(keys.shape[1])
        self._keys[layer, :, start:end] = keys
        self._values[layer, :, start:end] = values
        if layer == self._keys.shape[0] - 1:
            self._block_start, self._length = start, end
        return self._keys[layer, :, :end], self._values[layer, :, :end]

    def check_room(self, rows: int) -> None:
        """ValueError unless `rows` more rows fit."""
        if self._length + rows > self.capacity:
            raise ValueError(
                f"{rows} rows do not fit: the cache holds {self._length} of {self.capacity}; "
                "make it with a larger capacity or roll it back"
            )

    def rows(self, layer: int) -> tuple[Float[Tensor, "heads total head_dim"], Float[Tensor, "heads total head_dim"]]:
        """Keys and values of the valid rows of `layer` (views)."""
        return self._keys[layer, :, : self._length], self._values[layer, :, : self._length]

    def rollback(self, num_removed: int) -> None:
        """Drops the newest rows. ValueError if negative or more than there are."""
        check_removal(self._length, num_removed)
        self.truncate(self._length - num_removed)

    def truncate(self, length: int) -> None:
        """Keeps the oldest rows. ValueError if negative or more than there are."""
        check_length(self._length, length)
        self._length = length
        self._block_start = min(self._block_start, length)

    def keep(self, node_ids: Sequence[int]) -> None:
        """Keeps the rows at these increasing offsets of the latest forward, in order; see `KVCache.keep`."""
        check_kept(self._length - self._block_start, node_ids)
        moved = [(slot, node) for slot, node in enumerate(node_ids) if slot != node]
        if moved:
            target = torch.tensor([self._block_start + slot for slot, _ in moved], device=self._keys.device)
            source = torch.tensor([self._block_start + node for _, node in moved], device=self._keys.device)
            # index_select copies first, so a source row that is also a target slot is read before it is written
            self._keys.index_copy_(2, target, self._keys.index_select(2, source))
            self._values.index_copy_(2, target, self._values.index_select(2, source))
            self.rows_moved += len(moved)
        self._length = self._block_start + len(node_ids)
