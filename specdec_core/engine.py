"""The engine: drafts, verifies in one target pass, keeps what is accepted. Plain decoding is gamma = 0."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
import operator
from typing import Any
from weakref import WeakValueDictionary

from specdec_core.arguments import check_model, check_whole
from specdec_core.coins import CoinSource, PhiloxCoins
from specdec_core.controllers import Constant, Controller
from specdec_core.drafters.protocol import Drafter
from specdec_core.hardware import describe_hardware
from specdec_core.models.protocol import LanguageModel
from specdec_core.rules import RULES, Rule
from specdec_core.session import Session
from specdec_core.trace import Generation, Round, Trace
from specdec_core.warp import SamplingParams

_SERVES: "WeakValueDictionary[int, Session]" = WeakValueDictionary()
"""The request that each drafter, by its id, was started for last; an id is not used again while its session lives."""


@dataclass(frozen=True, slots=True)
class Step:
    """Tokens that came out together: the prefill token (`round` is None) or those of one round."""

    tokens: tuple[int, ...]
    round: Round | None


class Engine:
    """Generates with a target, a drafter, a verification rule and a controller that chooses gamma.

    Args:
        target: the model whose law the output has.
        drafter: who proposes; None decodes plainly.
        rule: a name in `RULES`, or a `Rule`.
        controller: how many tokens to draft a round; a whole number is a constant gamma.
        record_top: how many top tokens of p, q and residual each round's record keeps (0: none).

    Raises:
        ValueError: a target that is no language model, an unknown rule, one that does not take the drafter's
            proposals, a drafter with another vocabulary, or a gamma or record_top that is no whole number, at least 0.
    """

    def __init__(
        self,
        target: LanguageModel,
        drafter: Drafter | None = None,
        rule: Rule | str = "chain",
        controller: Controller | int = 4,
        *,
        record_top: int = 0,
    ) -> None:
        check_model(target, "target", part="target")
        if isinstance(rule, str):
            if rule not in RULES:
                raise ValueError(f"rule is {rule!r}; expected one of {', '.join(RULES)}")
            rule = RULES[rule]
        if drafter is not None and not hasattr(drafter, "propose"):
            raise ValueError(
                f"drafter is a {type(drafter).__name__}; expected a drafter - wrap a model as ModelDrafter(model), and "
                "give gamma as the controller"
            )
        if not isinstance(rule, Rule):
            raise ValueError(f"rule is {rule!r}; expected a name or a Rule (gamma is the fourth argument, controller)")
        if drafter is not None and drafter.proposal not in rule.proposals:
            raise ValueError(
                f"rule {rule.name!r} does not take {drafter.proposal!r} drafts (drafter {drafter.name!r}); "
                f"it accepts {', '.join(rule.proposals)}"
            )
        if drafter is not None and drafter.vocab_size not in (None, target.vocab_size):
            raise ValueError(
                f"drafter {drafter.name!r} has vocab {drafter.vocab_size}, the target {target.vocab_size}; "
                "use a drafter with the target's vocabulary"
            )
        self.target = target
        self.drafter = drafter
        self.rule = rule
        self.controller: Controller = controller if isinstance(controller, Controller) else Constant(controller)
        self.record_top = check_whole("record_top", record_top, 0)

    def generate(
        self,
        prompt: Sequence[int],
        params: SamplingParams | None = None,
        max_new_tokens: int = 64,
        *,
        request: int = 0,
        coins: CoinSource | None = None,
    ) -> Generation:
        """Up to `max_new_tokens` tokens after `prompt`, with the trace of every round.

        Ctrl-C ends it early: what was emitted comes back with finish_reason "interrupted", and the engine is
        ready for the next call.

        Args:
            prompt: token ids, at least one.
            params: sampling parameters; default temperature 1.
            max_new_tokens: at least 1.
            request: index of this sample, 0 to 2**32 - 1; with the same seed, another index gives independent noise.
            coins: replaces the noise that `params.seed` selects.

        Raises:
            ValueError: an empty or too long prompt, an id outside the vocabulary in prompt or params.stop,
                max_new_tokens below 1, a request out of range, a temperature that the rule does not serve.
        """
        stream = self.stream(prompt, params, max_new_tokens, request=request, coins=coins)
        try:
            for _ in stream:
                pass
        except KeyboardInterrupt:
            pass
        return stream.generation

    def stream(
        self,
        prompt: Sequence[int],
        params: SamplingParams | None = None,
        max_new_tokens: int = 64,
        *,
        request: int = 0,
        coins: CoinSource | None = None,
    ) -> "Stream":
        """The same, step by step: iterate for a `Step` a round; `.generation` is what has come out so far.

        An interrupt inside a step passes through to the caller; the stream keeps every finished round and ends
        there. A drafter serves one request at a time, so a newer stream of the engine ends an older one.
        """
        params = SamplingParams() if params is None else params
        if not isinstance(params, SamplingParams):
            raise ValueError(f"params is {params!r}; expected SamplingParams(temperature=..., ...)")
        prompt = self.checked_prompt(prompt)
        self._check_stop(params)
        max_new_tokens = check_whole("max_new_tokens", max_new_tokens, 1)
        request = check_whole("request", request, 0, 2**32 - 1)
        if self.rule.greedy_only and not params.is_greedy:
            raise ValueError(
                f"temperature is {params.temperature}; rule {self.rule.name!r} keeps the target's law at 0 only - "
                "set temperature 0 or use rule 'chain'"
            )
        source = coins or PhiloxCoins(params.seed)
        trace = Trace(prompt=prompt, hardware=describe_hardware())
        trace.settings = {
            "rule": self.rule.name,
            "drafter": None if self.drafter is None else self.drafter.name,
            "controller": self.controller.name,
            "max_new_tokens": max_new_tokens,
            "request": request,
            "noise_seed": source.seed if isinstance(source, PhiloxCoins) else None,
            "dtype": str(self.target.dtype).removeprefix("torch."),
            "device": str(self.target.device),
            "params": params.to_dict(),
        }
        session = Session(
            target=self.target,
            drafter=self.drafter,
            rule=self.rule,
            controller=self.controller,
            source=source,
            request=request,
            params=params,
            trace=trace,
            max_new_tokens=max_new_tokens,
            record_top=self.record_top,
        )
        if self.drafter is not None:
            _SERVES[id(self.drafter)] = session
        return Stream(session)

    def checked_prompt(self, prompt: Sequence[int]) -> tuple[int, ...]:
        """The prompt as plain ids. ValueError as `generate`: no sequence, empty, too long, or an id that is none."""
        vocab, context = self.target.vocab_size, self.target.max_length
        if not hasattr(prompt, "__len__") or isinstance(prompt, str | bytes):
            raise ValueError(
                f"prompt is a {type(prompt).__name__}; expected a sequence of token ids, such as tokenizer.encode(text)"
            )
        if len(prompt) == 0:
            raise ValueError("prompt is empty; give at least one token id (a start token will do)")
        for index, token in enumerate(prompt):
            # numpy integers and one-element integer tensors count as ids; text, floats and nested lists do not
            if not 0 <= _whole_number(token) < vocab:
                raise ValueError(f"prompt[{index}] is {token!r}; expected a token id, a whole number 0..{vocab - 1}")
        if len(prompt) >= context:
            raise ValueError(
                f"prompt has {len(prompt)} tokens; the context is {context}, which leaves no room for a new one - "
                "shorten the prompt"
            )
        return tuple(int(token) for token in prompt)

    def _check_stop(self, params: SamplingParams) -> None:
        vocab = self.target.vocab_size
        for token in params.stop:
            if token >= vocab:
                raise ValueError(f"stop holds {token}; the target's vocabulary has ids 0..{vocab - 1}")


def _whole_number(value: Any) -> int:
    """`value` as an int, -1 when it is none."""
    try:
        return operator.index(value)
    except TypeError:
        return -1


class Stream:
    """A running generation. Iterate to advance it; `generation` is valid at any moment."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._was_stopped_inside = False

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        if self._session.trace.finish_reason is not None:
            raise StopIteration
        if self._was_stopped_inside:
            raise ValueError(
                "this stream was stopped inside a round, which leaves its caches unsettled; start a new one "
                "with `generation.trace.tokens` as the prompt"
            )
        drafter = self._session.drafter
        if drafter is not None and _SERVES.get(id(drafter)) is not self._session:
            raise ValueError(
                "this stream was overtaken: its drafter serves a newer one, of this engine or of another that shares "
                "it - finish a stream before starting the next, or give each engine a drafter of its own"
            )
        self._was_stopped_inside = True
        step = self._advance()
        self._was_stopped_inside = False
        return step

    def _advance(self) -> Step:
        if self._session.trace.prefill_token is None:
            return Step(self._session.prefill(), None)
        record = self._session.round()
        return Step(record.emitted, record)

    @property
    def generation(self) -> Generation:
        """Everything emitted so far; finish_reason is "interrupted" while more could come."""
        trace = self._session.trace
        if trace.finish_reason is None:
            trace = Trace(**{name: getattr(trace, name) for name in trace.__slots__})
            # a copy: the stream may go on, this generation does not
            trace.rounds = list(trace.rounds)
            trace.settings, trace.hardware, trace.texts = deepcopy((trace.settings, trace.hardware, trace.texts))
            trace.finish_reason = "interrupted"
        return Generation(trace.emitted, trace.finish_reason, trace)
