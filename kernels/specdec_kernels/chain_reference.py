"""The plain reference of the chain kernels: softmax, then the scalar rule, a request at a time.

Slow and obviously right: the rules of `specdec_core.rules` decide, with the very coins of the core or given ones.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specdec_core.coins import PhiloxCoins
from specdec_core.coins.protocol import Event, Mass, Purpose, Weights
from specdec_core.coins.weights import support
from specdec_core.rules import Verdict
from specdec_core.rules.greedy import argmax
from specdec_core.warp_filters import softmax
from specdec_kernels.verify_batch import GREEDY_BELOW_FLOAT32, KernelVerdict, KeyedNoise, VerifyBatch


class GivenCoins:
    """Coins of one round from given numbers: a uniform a node, one row of exponentials for the single draw."""

    def __init__(self, uniforms: Tensor, exponentials: Tensor) -> None:
        self._uniforms, self._exponentials = uniforms, exponentials
        self.events: list[Event] = []

    def accept(self, p: Mass, q: Mass, *, node: int) -> bool:
        """True exactly when `u * q < p`."""
        u = float(self._uniforms[node])
        self.events.append(Event("accept", node, u))
        return u * q < p

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        """The smallest E / weight, the lowest index on a tie."""
        self.events.append(Event(purpose, node, None))
        indices, values = support(weights)
        times = self._exponentials.cpu().to(torch.float64).numpy()[indices] / values
        return int(indices[np.argmin(times)])

    def coupled(self) -> "GivenCoins":
        """Refused: the draft's side would need noise of its own."""
        raise ValueError("given noise cannot be read twice; a coupled draft needs PhiloxCoins")


def request_inputs(batch: VerifyBatch, request: int) -> tuple[list[int], Any, Any]:
    """(draft tokens, draft laws, target laws) of one request: what the scalar rules take."""
    first, last = batch.cu_num_draft[request : request + 2].tolist()
    tokens = batch.draft_tokens[first:last].tolist()[: batch.max_draft]
    drafted = tokens.index(-1) if -1 in tokens else len(tokens)
    temperature = float(batch.temperature[request])
    target = law_rows(batch.target_logits[first + request : first + request + drafted + 1], temperature)
    draft = None
    if batch.draft_logits is not None:
        draft = law_rows(batch.draft_logits[first : first + drafted], temperature)
    if batch.draft_probs is not None:
        draft = batch.draft_probs[first : first + drafted].to(torch.float32)
    return tokens[:drafted], draft, target


def law_rows(logits: Tensor, temperature: float) -> Tensor:
    """The law of each row; at a greedy temperature the logits themselves, of which only the argmax is meant."""
    scores = logits.to(torch.float32)
    return scores if temperature < GREEDY_BELOW_FLOAT32 or len(scores) == 0 else softmax(scores, temperature)


def request_coins(batch: VerifyBatch, request: int) -> Any:
    """The coins of one request's round."""
    if isinstance(batch.noise, KeyedNoise):
        seed, sample, length = batch.noise.keys[request].tolist()
        return PhiloxCoins(seed & 0xFFFFFFFFFFFFFFFF).at(request=sample, length=length)
    first = int(batch.cu_num_draft[request])
    return GivenCoins(batch.noise.uniforms[first : first + batch.max_draft], batch.noise.exponentials[request])


def verify_reference(
    batch: VerifyBatch, rule: Callable[..., Verdict], out: KernelVerdict | None = None
) -> KernelVerdict:
    """The verdicts of the scalar `rule` on every request. ValueError where `check_values` or the rule finds fault."""
    batch.check_values()
    result = KernelVerdict.empty(batch.num_requests, batch.slots, batch.device) if out is None else out
    result.check(batch.num_requests, batch.slots, batch.device)
    result.emitted.fill_(-1)
    for request in range(batch.num_requests):
        tokens, draft, target = request_inputs(batch, request)
        if float(batch.temperature[request]) < GREEDY_BELOW_FLOAT32:
            verdict = greedy_prefix(tokens, target)
        else:
            verdict = rule(tokens, draft, target, request_coins(batch, request))
        kept = verdict.num_accepted
        result.num_accepted[request], result.next_token[request] = kept, verdict.next_token
        result.is_bonus[request] = verdict.kind == "bonus"
        emitted = [*tokens[:kept], verdict.next_token]
        result.emitted[request, : kept + 1] = torch.tensor(emitted, device=batch.device)
    return result


def greedy_prefix(tokens: list[int], logits: Tensor) -> Verdict:
    """`verify_greedy` on logits, without its look at rows that do not count."""
    for i, token in enumerate(tokens):
        best = argmax(logits[i])
        if token != best:
            return Verdict(i, tuple(range(i)), best, "recovered")
    return Verdict(len(tokens), tuple(range(len(tokens))), argmax(logits[len(tokens)]), "bonus")
