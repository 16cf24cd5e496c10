"""Which rows of a drafter's cache each drafted node sees while a tree grows level by level."""

from collections.abc import Sequence

from jaxtyping import Bool, Int
import torch
from torch import Tensor

Path = tuple[int, ...]


class BranchRows:
    """Behind `committed` rows that everyone sees, a row for each node that was fed, in the order of feeding.

    A node is known by its path, a tuple whose prefixes are its ancestors: tokens where siblings differ, else node
    numbers. Node at depth d (from 1) stands at position committed + d - 1.
    """

    def __init__(self, committed: int) -> None:
        self._committed = committed
        self._row: dict[Path, int] = {}

    def feed(self, paths: Sequence[Path]) -> tuple[Int[Tensor, " rows"], Bool[Tensor, "rows total"]]:
        """Positions and mask of the forward that feeds these nodes; their ancestors have been fed before.

        Raises:
            ValueError: a node whose parent has no row.
        """
        start = self._committed + len(self._row)
        mask = torch.zeros(len(paths), start + len(paths), dtype=torch.bool)
        mask[:, : self._committed] = True
        for place, path in enumerate(paths):
            for length in range(1, len(path)):
                if path[:length] not in self._row:
                    raise ValueError(f"path {path} was fed before its ancestor {path[:length]}; feed level by level")
                mask[place, self._row[path[:length]]] = True
            mask[place, start + place] = True
        for place, path in enumerate(paths):
            self._row[path] = start + place
        return torch.tensor([self._committed + len(path) - 1 for path in paths]), mask
