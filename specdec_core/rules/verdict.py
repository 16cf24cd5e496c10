"""What a verification rule answers."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["recovered", "bonus"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one round: `num_accepted` drafts are kept, then `next_token` follows.

    `path` lists the accepted nodes from the root down (0 .. num_accepted-1 on a chain). `kind` is
    "recovered" when a draft was refused and `next_token` came from the residual, "bonus" when nothing was
    refused and it came from the target's own law.
    """

    num_accepted: int
    path: tuple[int, ...]
    next_token: int
    kind: Kind
