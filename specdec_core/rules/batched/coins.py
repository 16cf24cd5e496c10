"""Coins for a batch: the same two questions as `Coins`, asked for many requests at once.

Every question carries both names it has in the scalar rules: its key (request, node, purpose), which keyed noise
reads, and its number in the request's round, which a script reads. Answering is a pure function of these, so a
request's answers do not depend on its batch and may be asked ahead.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
import math
from typing import Protocol

from jaxtyping import Float64, Int64
import torch
from torch import Tensor

from specdec_core.coins.protocol import Purpose
from specdec_core.rules.batched.inverse_cdf import draw_by_inverse_cdf
from specdec_core.rules.batched.laws import Laws


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Questions to several requests, at most one of a kind each.

    Attributes:
        requests: whom, as places in the batch.
        nodes: about which node (accept) or row (draw), numbered within the request.
        orders: how many questions the scalar rule has asked this request before, in this round.
    """

    requests: Int64[Tensor, " questions"]
    nodes: Int64[Tensor, " questions"]
    orders: Int64[Tensor, " questions"]

    def __len__(self) -> int:
        return len(self.requests)

    def __getitem__(self, part: slice | Tensor) -> "Questions":
        return Questions(self.requests[part], self.nodes[part], self.orders[part])


class BatchCoins(Protocol):
    """Answers the random questions of one round of each request of a batch."""

    def __len__(self) -> int:
        """The number of requests."""
        ...

    def uniforms(self, questions: Questions) -> Float64[Tensor, " questions"]:
        """The uniform `u` of each accept, as in `u * q < p`; NaN, which accepts nothing, where coins have run out."""
        ...

    def draw(self, laws: Laws, questions: Questions, purpose: Purpose) -> Int64[Tensor, " questions"]:
        """For each law an index with probability proportional to its weight; never one of weight zero.

        Raises:
            ValueError: a law without a positive weight, or coins that have run out.
        """
        ...


class ScriptedBatchCoins:
    """`ScriptedCoins` for each request: the next uniform of its own list (or row) for each question.

    Raises:
        ValueError: a uniform outside [0, 1).
    """

    def __init__(self, uniforms: Float64[Tensor, "batch length"] | Iterable[Sequence[float]]) -> None:
        if not isinstance(uniforms, Tensor):
            scripts = [torch.tensor(script, dtype=torch.float64) for script in uniforms]
            lengths = [len(script) for script in scripts]
            table = torch.nn.utils.rnn.pad_sequence(scripts, True, math.nan) if scripts else torch.empty(0, 0)
        else:
            table, lengths = uniforms.cpu(), [uniforms.shape[1]] * len(uniforms)
        self._lengths = torch.tensor(lengths, dtype=torch.int64)
        # one column of NaN more, so that every later question finds an answer that is none
        self._table = torch.nn.functional.pad(table.to(torch.float64), (0, 1), value=math.nan)
        self._used = torch.zeros_like(self._lengths)
        given = torch.arange(self._table.shape[1]) < self._lengths[:, None]
        wrong = torch.nonzero(given & ~((self._table >= 0) & (self._table < 1)))
        if len(wrong):
            request, index = wrong[0].tolist()
            u = float(self._table[request, index])
            raise ValueError(f"uniforms[{request}][{index}] is {u}; a uniform lies in [0, 1)")

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def used(self) -> list[int]:
        """How many uniforms each request has taken; a round ends with a draw, which settles the number."""
        return self._used.tolist()

    def rest(self) -> "ScriptedBatchCoins":
        """The coins of the next round: what is left of each list."""
        return ScriptedBatchCoins(
            [row[used:end].tolist() for row, used, end in zip(self._table, self.used, self._lengths.tolist())]
        )

    def uniforms(self, questions: Questions) -> Float64[Tensor, " questions"]:
        """The uniform at each question's place in its request's list; NaN behind the end."""
        orders = questions.orders.cpu().clamp(max=self._table.shape[1] - 1)
        return self._table[questions.requests.cpu(), orders].to(questions.requests.device)

    def draw(self, laws: Laws, questions: Questions, purpose: Purpose) -> Int64[Tensor, " questions"]:
        """The index the uniform selects by inverse CDF. ValueError when a script is used up."""
        v = self.uniforms(questions)
        if bool(v.isnan().any()):
            request = int(questions.requests[v.isnan()][0])
            raise ValueError(
                f"the script of request {request} has {int(self._lengths[request])} uniforms and all are used; "
                "give it more"
            )
        requests = questions.requests.cpu()
        self._used[requests] = torch.maximum(self._used[requests], questions.orders.cpu() + 1)
        tokens, weights = draw_by_inverse_cdf(laws, v)
        check_drawn(weights, questions)
        return tokens


def check_drawn(weights: Float64[Tensor, " questions"], questions: Questions) -> None:
    """ValueError unless every weight that was drawn is positive: otherwise nothing could be drawn."""
    wrong = ~(weights > 0)
    if bool(wrong.any()):
        request, node = int(questions.requests[wrong][0]), int(questions.nodes[wrong][0])
        raise ValueError(
            f"the weights of request {request}, row {node} have no positive entry or hold NaN or inf: there is nothing "
            "to draw - call the rule with validate=True to see which law is at fault"
        )
