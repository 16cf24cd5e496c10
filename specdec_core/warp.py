"""Sampling parameters: from logits to the law that is sampled, for target and draft alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
import math
from numbers import Integral, Real
from typing import Any

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.warp_filters import filtered_law, one_hot_at_argmax, softmax
from specdec_core.warp_scores import add_bias, allow_only, ban_words, check_history, check_ids, penalise

GREEDY_BELOW = 1e-5
"""At a temperature below this the law is one-hot at the argmax: dividing by it would only overflow."""

_LARGEST = torch.finfo(torch.float32).max
_NUMBERS = ("temperature", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How a law is made from logits; the steps are taken in the order of the attributes.

    A ban (a bias of -inf, `allowed_ids`, `bad_words`) is final: no penalty or bias lifts it, and the filters look at
    what is left. What the model rules out (-inf) stays ruled out, allowed or not.

    Attributes:
        repetition_penalty: divides positive logits (multiplies negative ones) of tokens in prompt or output.
        frequency_penalty: subtracted once for each time a token was generated.
        presence_penalty: subtracted from tokens generated at least once.
        logit_bias: added to the logits of these ids; -inf bans a token.
        allowed_ids: every other token is banned; None allows all.
        bad_words: token sequences that must not appear: a token that would complete one, given the prompt and the
            output before it, is banned there. A word of one token is banned everywhere.
        temperature: divides the logits; below `GREEDY_BELOW` the law is one-hot at the lowest-index argmax.
        top_k: keeps the k largest logits (and ties with the k-th); 0 keeps all.
        top_p: keeps the fewest most probable tokens that reach this mass, the one that crosses it included.
        min_p: keeps tokens with at least this share of the largest probability.
        seed: the noise of the request, 0 to 2**64 - 1; None takes fresh noise for every request.
        stop: token ids that end the text (the id itself is emitted).

    Raises:
        ValueError: a value of the wrong kind or out of range, by name.
    """

    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    allowed_ids: tuple[int, ...] | None = None
    bad_words: tuple[tuple[int, ...], ...] = ()
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._check_kinds()
        # numbers of numpy and lists would compare unequal to themselves after a round trip through JSON
        plain: dict[str, Any] = {name: _as_float(getattr(self, name)) for name in _NUMBERS}
        plain["top_k"] = int(self.top_k)
        plain["seed"] = None if self.seed is None else int(self.seed)
        plain["stop"] = tuple(map(int, self.stop))
        plain["logit_bias"] = {int(token): _as_float(bias) for token, bias in self.logit_bias.items()}
        plain["allowed_ids"] = None if self.allowed_ids is None else tuple(map(int, self.allowed_ids))
        plain["bad_words"] = tuple(tuple(map(int, word)) for word in self.bad_words)
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        self._check_ranges()

    def _check_kinds(self) -> None:
        for name in _NUMBERS:
            if not isinstance(getattr(self, name), Real) or isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected a number")
        for name, value in (("top_k", self.top_k), ("seed", 0 if self.seed is None else self.seed)):
            if not isinstance(value, Integral):
                raise ValueError(f"{name} is {value!r}; expected a whole number")
        if not isinstance(self.logit_bias, Mapping) or not all(
            isinstance(token, Integral) and isinstance(bias, Real) for token, bias in self.logit_bias.items()
        ):
            raise ValueError(f"logit_bias is {self.logit_bias!r}; expected a mapping from token ids to numbers")
        if not _are_ids(self.stop):
            raise ValueError(f"stop is {self.stop!r}; expected a tuple of token ids, for example tokenizer.eos_ids")
        if self.allowed_ids is not None and not _are_ids(self.allowed_ids):
            raise ValueError(
                f"allowed_ids is {self.allowed_ids!r}; expected a tuple of token ids, or None to allow all"
            )
        if not isinstance(self.bad_words, Sequence) or not all(_are_ids(word) for word in self.bad_words):
            raise ValueError(f"bad_words is {self.bad_words!r}; expected sequences of token ids, such as [[7], [3, 4]]")

    def _check_ranges(self) -> None:
        ranges = {
            "temperature": (self.temperature >= 0, "at least 0"),
            "top_k": (self.top_k >= 0, "at least 0 (0 keeps all)"),
            "top_p": (0 < self.top_p <= 1, "in (0, 1]"),
            "min_p": (0 <= self.min_p <= 1, "in [0, 1]"),
            "repetition_penalty": (self.repetition_penalty > 0, "above 0"),
            "frequency_penalty": (True, "in float32"),
            "presence_penalty": (True, "in float32"),
        }
        for name, (holds, expected) in ranges.items():
            value = getattr(self, name)
            # NaN fails the comparison
            if not (holds and abs(value) <= _LARGEST):
                raise ValueError(f"{name} is {value}; expected a finite number {expected}")
        for token, bias in self.logit_bias.items():
            if not (bias == -math.inf or abs(bias) <= _LARGEST):
                raise ValueError(f"logit_bias[{token}] is {bias}; expected a finite number, or -inf to ban the token")
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed is {self.seed}; expected a whole number, 0..2**64 - 1, or None for fresh noise")
        if any(token < 0 for token in self.stop):
            raise ValueError(f"stop holds {min(self.stop)}; expected token ids, at least 0 (no stop at all is ())")
        if self.allowed_ids == ():
            raise ValueError("allowed_ids is empty, which bans everything; expected at least one id, or None for all")
        if () in self.bad_words:
            raise ValueError(f"bad_words[{self.bad_words.index(())}] is empty; a word has at least one token")

    @property
    def is_greedy(self) -> bool:
        """Whether the law is one-hot."""
        return self.temperature < GREEDY_BELOW

    @property
    def has_penalties(self) -> bool:
        """Whether a repetition, frequency or presence penalty is set."""
        return (self.repetition_penalty, self.frequency_penalty, self.presence_penalty) != (1.0, 0.0, 0.0)

    @property
    def uses_history(self) -> bool:
        """Whether the law of a slot depends on which tokens came before, beyond the logits."""
        return self.has_penalties or any(len(word) > 1 for word in self.bad_words)

    def to_dict(self) -> dict[str, Any]:
        """The parameters as plain JSON data; an infinite bias becomes a string."""
        data = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        data["stop"] = list(self.stop)
        data["allowed_ids"] = None if self.allowed_ids is None else list(self.allowed_ids)
        data["bad_words"] = [list(word) for word in self.bad_words]
        data["logit_bias"] = {
            str(token): bias if math.isfinite(bias) else str(bias) for token, bias in self.logit_bias.items()
        }
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SamplingParams":
        """Reads what `to_dict` wrote, straight or through JSON; what is missing has its default.

        Raises:
            ValueError: an unknown name, or a value that the constructor refuses.
        """
        unknown = sorted(set(data) - {entry.name for entry in fields(cls)})
        if unknown:
            raise ValueError(f"{unknown[0]!r} is no sampling parameter; expected {[e.name for e in fields(cls)]}")
        given = dict(data)
        if "logit_bias" in given:
            try:
                given["logit_bias"] = {int(token): float(bias) for token, bias in given["logit_bias"].items()}
            except (TypeError, ValueError, AttributeError) as error:
                raise ValueError(f"logit_bias is {data['logit_bias']!r}; expected token ids with numbers") from error
        return cls(**given)

    def probs(
        self,
        logits: Float[Tensor, "rows vocab"],
        history: Sequence[Sequence[int]] | None = None,
        *,
        prompt_length: int = 0,
    ) -> Float[Tensor, "rows vocab"]:
        """The law of each row in float32; rows sum to 1.

        `history[i]` holds the tokens before row i (prompt first, then output and, in a draft, the drafts before
        that slot); it is read only when `uses_history`. The first `prompt_length` of them are the prompt.

        Raises:
            ValueError: logits that are not [rows, vocab]; a row with a NaN or +inf, or with nothing but -inf (the row
                is named); a row of which everything is banned; a missing history; an id outside the vocabulary.
        """
        scores = self.scores(logits, history, prompt_length=prompt_length)
        largest = scores.amax(dim=-1, keepdim=True)
        # NaN and +inf show in the largest score, and so does a row of -inf only
        if not bool(torch.isfinite(largest).all()):
            raise ValueError(self._fault(logits, largest))
        if self.is_greedy:
            return one_hot_at_argmax(scores, largest)
        is_filtered = 0 < self.top_k < scores.shape[-1] or self.top_p < 1 or self.min_p > 0
        if not is_filtered or len(scores) == 0:
            return softmax(scores, self.temperature)
        laws = [filtered_law(row, self.temperature, self.top_k, self.top_p, self.min_p) for row in scores]
        return torch.stack(laws)

    def scores(
        self,
        logits: Float[Tensor, "rows vocab"],
        history: Sequence[Sequence[int]] | None = None,
        *,
        prompt_length: int = 0,
    ) -> Float[Tensor, "rows vocab"]:
        """The logits in float32 after penalties, bias and bans: what `probs` filters and the greedy choice ranks.

        Arguments and errors as in `probs`; a row without a law is not refused here.
        """
        if logits.ndim != 2 or logits.shape[1] == 0:
            raise ValueError(f"logits has shape {tuple(logits.shape)}; expected [rows, vocab]: a row a slot")
        (rows, vocab), scores = logits.shape, logits.to(torch.float32)
        check_ids("logit_bias", self.logit_bias, vocab)
        check_ids("allowed_ids", self.allowed_ids or (), vocab)
        check_ids("bad_words", [token for word in self.bad_words for token in word], vocab)
        if self.uses_history:
            history = check_history(history, rows, vocab, prompt_length)
        if self.uses_history or self.logit_bias or self.allowed_ids is not None or self.bad_words:
            scores = scores.clone()
        if self.has_penalties and history is not None:
            penalise(
                scores,
                history,
                prompt_length,
                repetition=self.repetition_penalty,
                frequency=self.frequency_penalty,
                presence=self.presence_penalty,
            )
        add_bias(scores, self.logit_bias)
        if self.allowed_ids is not None:
            allow_only(scores, self.allowed_ids)
        if self.bad_words:
            ban_words(scores, self.bad_words, history if self.uses_history else None)
        return scores

    def _fault(self, logits: Tensor, largest: Tensor) -> str:
        """Why the first row without a finite largest score has no law."""
        row = int((~torch.isfinite(largest[:, 0])).nonzero()[0])
        given = float(logits[row].to(torch.float32).max())
        if math.isfinite(given) and float(largest[row]) == -math.inf:
            return (
                f"everything is banned in row {row}: allowed_ids, bad_words and logit_bias leave no token that the "
                "model holds possible; lift one of them"
            )
        if math.isfinite(given):
            return f"penalties or logit_bias overflow float32 in row {row}; use smaller ones"
        fault = "nothing but -inf" if given == -math.inf else "a NaN or +inf"
        return f"logits row {row} holds {fault}; a law needs finite logits (-inf bans single tokens)"


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        # the ranges refuse it by name
        return math.inf if value > 0 else -math.inf


def _are_ids(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(token, Integral) for token in value)
