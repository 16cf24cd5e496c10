"""Controllers: how many tokens to draft in the next round, decided without looking ahead."""

from collections.abc import Sequence
from numbers import Integral
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from specdec_core.trace import Round


@runtime_checkable
class Controller(Protocol):
    """Chooses gamma per round."""

    name: str

    def gamma(self, rounds: Sequence[Round]) -> int:
        """Tokens to draft next, given the rounds so far."""
        ...

    def may_continue(self, drafted: int, law: Float[Tensor, " vocab"]) -> bool:
        """Whether to draft token `drafted` (from 0) given the law it would be drawn from."""
        ...


class Constant:
    """Always drafts `gamma` tokens; 0 is plain decoding."""

    def __init__(self, gamma: int) -> None:
        if isinstance(gamma, bool) or not isinstance(gamma, Integral) or gamma < 0:
            raise ValueError(f"gamma is {gamma!r}; expected a whole number of draft tokens, at least 0")
        self.name = f"constant({gamma})"
        self._gamma = int(gamma)

    def gamma(self, rounds: Sequence[Round]) -> int:
        """The constant."""
        return self._gamma

    def may_continue(self, drafted: int, law: Float[Tensor, " vocab"]) -> bool:
        """Always."""
        return True
