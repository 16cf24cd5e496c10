"""Sampling parameters: from logits to the law that is sampled, for target and draft alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
import math
import numbers as numbers_abc
from typing import Any

from jaxtyping import Float
import torch
from torch import Tensor

GREEDY_BELOW = 1e-5
"""At a temperature below this the law is one-hot at the argmax: dividing by it would only overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How a law is made from logits, in this order: penalties, bias, temperature, top-k, top-p, min-p.

    Attributes:
        temperature: divides the logits; below `GREEDY_BELOW` the law is one-hot at the lowest-index argmax.
        top_k: keeps the k largest logits (and ties with the k-th); 0 keeps all.
        top_p: keeps the fewest most probable tokens that reach this mass, the one that crosses it included.
        min_p: keeps tokens with at least this share of the largest probability.
        repetition_penalty: divides positive logits (multiplies negative ones) of tokens in prompt or output.
        frequency_penalty: subtracted once for each time a token was generated.
        presence_penalty: subtracted from tokens generated at least once.
        logit_bias: added to the logits of these ids; -inf bans a token.
        seed: the noise of the request; None takes fresh noise for every request.
        stop: token ids that end the text (the id itself is emitted).
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._check_kinds()
        checks = {
            "temperature": (self.temperature >= 0, "at least 0"),
            "top_k": (self.top_k >= 0, "at least 0 (0 keeps all)"),
            "top_p": (0 < self.top_p <= 1, "in (0, 1]"),
            "min_p": (0 <= self.min_p <= 1, "in [0, 1]"),
            "repetition_penalty": (self.repetition_penalty > 0, "above 0"),
            "frequency_penalty": (True, "finite"),
            "presence_penalty": (True, "finite"),
        }
        for name, (holds, expected) in checks.items():
            value = getattr(self, name)
            if not (holds and math.isfinite(value)):
                raise ValueError(f"{name} is {value}; expected a finite number {expected}")

    def _check_kinds(self) -> None:
        numbers = ("temperature", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty")
        for name in numbers:
            if not isinstance(getattr(self, name), numbers_abc.Real):
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected a number")
        for name, value in (("top_k", self.top_k), ("seed", 0 if self.seed is None else self.seed)):
            if not isinstance(value, numbers_abc.Integral):
                raise ValueError(f"{name} is {value!r}; expected a whole number")
        if not isinstance(self.logit_bias, Mapping) or not all(
            isinstance(token, numbers_abc.Integral) and isinstance(bias, numbers_abc.Real)
            for token, bias in self.logit_bias.items()
        ):
            raise ValueError(f"logit_bias is {self.logit_bias!r}; expected a mapping from token ids to numbers")
        if not isinstance(self.stop, Sequence) or not all(isinstance(t, numbers_abc.Integral) for t in self.stop):
            raise ValueError(f"stop is {self.stop!r}; expected token ids, for example tokenizer.eos_ids")

    @property
    def is_greedy(self) -> bool:
        """Whether the law is one-hot."""
        return self.temperature < GREEDY_BELOW

    @property
    def uses_history(self) -> bool:
        """Whether the law of a slot depends on which tokens came before, beyond the logits."""
        return (self.repetition_penalty, self.frequency_penalty, self.presence_penalty) != (1.0, 0.0, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """The parameters as plain JSON data; an infinite bias becomes a string."""
        data = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        data["stop"] = list(self.stop)
        data["logit_bias"] = {
            str(token): bias if math.isfinite(bias) else str(bias) for token, bias in self.logit_bias.items()
        }
        return data

    def probs(
        self,
        logits: Float[Tensor, "rows vocab"],
        history: Sequence[Sequence[int]] | None = None,
        *,
        prompt_length: int = 0,
    ) -> Float[Tensor, "rows vocab"]:
        """The law of each row in float32; rows sum to 1.

        `history[i]` holds the tokens before row i (prompt first, then output and, in a draft, the drafts before
        that slot); it is read only when a penalty is set. The first `prompt_length` of them are the prompt.

        Raises:
            ValueError: a row with a NaN or +inf logit, or with nothing but -inf (the row is named); a missing
                history; a biased id outside the vocabulary.
        """
        scores = logits.to(torch.float32)
        if self.uses_history or self.logit_bias:
            scores = scores.clone()
            self._penalise(scores, history, prompt_length)
            self._add_bias(scores)
        largest = _checked_max(scores)
        if self.is_greedy:
            return _one_hot(scores, largest)
        if 0 < self.top_k < scores.shape[-1]:
            probs = torch.stack([_softmax_of_top(row, self.top_k, self.temperature) for row in scores])
        else:
            probs = torch.softmax((scores - largest) / self.temperature, dim=-1)
        if self.top_p < 1:
            probs = torch.stack([_nucleus(row, self.top_p) for row in probs])
        if self.min_p > 0:
            probs = probs * (probs >= self.min_p * probs.amax(dim=-1, keepdim=True))
            probs = probs / probs.sum(dim=-1, keepdim=True)
        return probs

    def _penalise(self, scores: Tensor, history: Sequence[Sequence[int]] | None, prompt_length: int) -> None:
        if not self.uses_history:
            return
        if history is None or len(history) != len(scores):
            given = "none" if history is None else str(len(history))
            raise ValueError(f"history has {given} rows for {len(scores)} rows of logits; penalties need one a row")
        for row, tokens in zip(scores, history):
            seen = torch.tensor(sorted(set(tokens)), dtype=torch.long, device=scores.device)
            row[seen] = torch.where(
                row[seen] > 0, row[seen] / self.repetition_penalty, row[seen] * self.repetition_penalty
            )
            output = torch.tensor(list(tokens[prompt_length:]), dtype=torch.long, device=scores.device)
            generated, counts = torch.unique(output, return_counts=True)
            row[generated] -= self.frequency_penalty * counts + self.presence_penalty

    def _add_bias(self, scores: Tensor) -> None:
        for token, bias in self.logit_bias.items():
            if not 0 <= token < scores.shape[-1]:
                raise ValueError(f"logit_bias names token {token}; the vocabulary has ids 0..{scores.shape[-1] - 1}")
            scores[:, token] += bias


def _checked_max(scores: Tensor) -> Tensor:
    """The largest logit of each row, [rows, 1]; NaN and +inf show in it, and so does a row of -inf only."""
    largest = scores.amax(dim=-1, keepdim=True)
    bad = ~torch.isfinite(largest[:, 0])
    if bad.any():
        row = int(bad.nonzero()[0])
        fault = "nothing but -inf" if float(largest[row]) == -math.inf else "a NaN or +inf"
        raise ValueError(f"logits row {row} holds {fault}; a law needs finite logits (-inf bans single tokens)")
    return largest


def _one_hot(scores: Tensor, largest: Tensor) -> Tensor:
    # argmax is not promised to take the first of several maxima; nonzero lists them in order
    rows, columns = (scores == largest).nonzero(as_tuple=True)
    is_first = torch.ones_like(rows, dtype=torch.bool)
    is_first[1:] = rows[1:] != rows[:-1]
    law = torch.zeros_like(scores)
    law[rows[is_first], columns[is_first]] = 1
    return law


def _softmax_of_top(scores: Float[Tensor, " vocab"], k: int, temperature: float) -> Float[Tensor, " vocab"]:
    """Softmax over the k largest scores and the ties with the k-th; only those are ever exponentiated."""
    smallest = torch.topk(scores, k).values[-1]
    kept = (scores >= smallest).nonzero()[:, 0]
    top = scores[kept]
    probs = torch.zeros_like(scores)
    probs[kept] = torch.softmax((top - top.max()) / temperature, dim=-1)
    return probs


def _nucleus(probs: Float[Tensor, " vocab"], top_p: float) -> Float[Tensor, " vocab"]:
    """The most probable tokens up to mass `top_p`, renormalised; equal probabilities enter by lowest id."""
    # tokens below this bound hold less than half of 1 - top_p together, so the nucleus ends before them
    bound = (1 - top_p) / (2 * len(probs))
    candidates = (probs >= bound).nonzero()[:, 0]
    ordered = torch.sort(probs[candidates], descending=True, stable=True)
    mass_before = ordered.values.cumsum(0) - ordered.values
    chosen = candidates[ordered.indices[mass_before < top_p]]
    kept = torch.zeros_like(probs)
    kept[chosen] = probs[chosen]
    return kept / kept.sum()
