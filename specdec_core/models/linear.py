"""A matrix product that is fast for the few rows of a decoding or verify pass, by the route measured to be fastest.

Three routes compute y = x Wᵀ. Which of them is fastest depends on processor, threads, shape and rows, by factors of up
to three, so none is assumed: `choose_routes` times them on a model's own matrices (`specdec_core.models.routes`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
import torch
from torch import Tensor
import torch.nn.functional as F

_ROWS_HINT = 16  # the block layout oneDNN picks for this many rows serves 1 to 256 of them
PLAN_ROWS = 64  # a plan is a table up to here; more rows take its last route

Call = tuple[str, int]
"""A route, and the rows it is run with: at least those there are, filled up with zeros."""


def _left(weight: Tensor, x: Tensor) -> Tensor:
    # W xᵀ, the weight on the left: another loop of the same BLAS
    return torch.mm(weight, x.t()).t().contiguous()


def _packed(weight: Tensor, x: Tensor) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


# route -> (whether it reads oneDNN's block layout, the product)
ROUTES: Mapping[str, tuple[bool, Callable[[Tensor, Tensor], Tensor]]] = {
    "linear": (False, lambda weight, x: F.linear(x, weight)),
    "left": (False, _left),
    "packed": (True, _packed),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Which route serves how many rows: `calls[n]` for n rows up to `PLAN_ROWS`, `beyond` for more."""

    calls: tuple[Call, ...] = ()
    beyond: str = "linear"

    @property
    def routes(self) -> set[str]:
        """Every route that is taken for some number of rows."""
        return {self.beyond, *(route for route, _ in self.calls[1:])}

    def ranges(self) -> list[tuple[int, Call]]:
        """(largest number of rows, call), in order, neighbours that agree joined; 0 rows: any number."""
        joined: list[tuple[int, Call]] = []
        for rows, (route, run) in enumerate(self.calls[1:], 1):
            fill = run if run > rows else 0
            if joined and joined[-1][1] == (route, fill):
                joined.pop()
            joined.append((rows, (route, fill)))
        if joined and joined[-1][1] == (self.beyond, 0):
            joined.pop()
        return [*joined, (0, (self.beyond, 0))]

    def __str__(self) -> str:
        """As `SPECDEC_ROUTES` takes it: "1=left:2,32=packed,linear"."""
        return ",".join(
            (f"{rows}=" if rows else "") + route + (f":{fill}" if fill else "") for rows, (route, fill) in self.ranges()
        )


def read_plan(text: str) -> Plan:
    """The plan that `text` spells: `route`, or `ROWS=route` or `ROWS=route:FILL` up to so many rows, comma between.

    Raises:
        ValueError: an unknown route, rows that do not rise, a fill below the rows, or no route for all other rows.
    """
    calls: list[Call] = [("linear", 0)]
    *parts, last = text.split(",")
    wrong = f"{text!r} is not a plan of routes; expected for example 'packed' or '1=left:2,32=packed,linear'"
    if last not in ROUTES:
        raise ValueError(f"{wrong}: the last part names the route of all other rows, one of {', '.join(ROUTES)}")
    for part in parts:
        upto, _, call = part.partition("=")
        route, _, fill = call.partition(":")
        if route not in ROUTES or not upto.isdecimal() or not (fill or "1").isdecimal():
            raise ValueError(f"{wrong}; {part!r} is not ROWS=ROUTE or ROWS=ROUTE:FILL with one of {', '.join(ROUTES)}")
        rows = range(len(calls), int(upto) + 1)
        if not rows or rows[-1] > PLAN_ROWS or (fill and not rows[-1] <= int(fill) <= 2 * PLAN_ROWS):
            raise ValueError(
                f"{wrong}; in {part!r} rows have to rise, up to {PLAN_ROWS}, and the fill is at least them"
            )
        calls += [(route, int(fill or row)) for row in rows]
    calls += [(last, row) for row in range(len(calls), PLAN_ROWS + 1)]
    return Plan(tuple(calls), last)


PLAIN = Plan()


class Linear:
    """y = x Wᵀ, without a bias.

    Until `follow` is called, and wherever oneDNN or the dtype rules routes out, it is `F.linear`. A plan decides which
    layouts of the weight are kept: the plain one, oneDNN's blocks, or both where both are taken.
    """

    def __init__(self, weight: Float[Tensor, "out inner"], *, shared: bool = False) -> None:
        """`shared`: the plain weight lives elsewhere too (a tied head), so dropping it would save nothing."""
        self.plan = PLAIN
        self.shape: tuple[int, int] = (weight.shape[0], weight.shape[1])
        self.dtype = weight.dtype
        self.can_route = can_pack(weight)
        self._shared = shared
        self._plain: Tensor | None = weight
        self._blocks: Tensor | None = None

    @property
    def weight(self) -> Float[Tensor, "out inner"]:
        """The plain weight; written out anew at each call where only oneDNN's blocks are kept."""
        if self._plain is not None:
            return self._plain
        assert self._blocks is not None
        return self._blocks.to_dense()

    @property
    def num_bytes(self) -> int:
        """Bytes of all layouts kept."""
        once = self.shape[0] * self.shape[1] * self.dtype.itemsize
        return once * ((self._plain is not None) + (self._blocks is not None))

    def follow(self, plan: Plan, *, keep: Sequence[str] = ()) -> None:
        """Takes `plan` from now on; layouts that neither it nor a route of `keep` reads are dropped."""
        if not self.can_route:
            return
        packed = {ROUTES[route][0] for route in plan.routes | set(keep)}
        if True in packed and self._blocks is None:
            self._blocks = torch.ops.mkldnn._reorder_linear_weight(self.weight, _ROWS_HINT)
        if False in packed or self._shared:
            self._plain = self.weight
        else:
            self._plain = None
        if True not in packed:
            self._blocks = None
        self.plan = plan

    def __call__(self, x: Float[Tensor, "rows inner"]) -> Float[Tensor, "rows out"]:
        rows = x.shape[0]
        calls = self.plan.calls
        route, run = calls[rows] if rows < len(calls) else (self.plan.beyond, rows)
        return self.through(route, x, run)

    def through(self, route: str, x: Float[Tensor, "rows inner"], run: int = 0) -> Float[Tensor, "rows out"]:
        """The product by one route, filled up to `run` rows: what is timed is what is used."""
        rows = x.shape[0]
        packed, product = ROUTES[route]
        weight = self._blocks if packed else self._plain
        if weight is None:
            raise ValueError(f"route {route!r} reads a layout that was dropped; call follow() with it in `keep` first")
        if run <= rows:
            return product(weight, x)
        return product(weight, F.pad(x, (0, 0, 0, run - rows)))[:rows]


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN's packed product is there for this weight; without it there is nothing to choose."""
    served = weight.dtype in (torch.float32, torch.bfloat16)
    return weight.device.type == "cpu" and served and torch.backends.mkldnn.is_available()
