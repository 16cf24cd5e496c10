"""The greedy certificate: the same tokens with and without speculation, or a near-tie that is shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_core.engine import Engine
from specdec_core.teacher_forcing import logit_gaps
from specdec_core.warp import SamplingParams

NEAR_TIE = 1e-3
"""Gap in logits below which two passes of different size may rank two tokens differently (float32)."""


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two greedy texts part: the token each chose and how far apart their logits are.

    `gap` is the target's best logit minus the logit of the speculative choice (after penalties and bans), the common
    text fed token by token (teacher forcing).
    """

    prompt: int
    position: int
    plain_token: int
    speculative_token: int
    gap: float


@dataclass(frozen=True, slots=True)
class GreedyCertificate:
    """Greedy equality over some prompts; `partings` lists each prompt whose texts differ."""

    prompts: int
    tokens: int
    partings: tuple[Parting, ...]
    allowed_gap: float

    @property
    def passed(self) -> bool:
        """Whether every difference is a near-tie."""
        return all(parting.gap <= self.allowed_gap for parting in self.partings)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if not self.partings:
            where = "1 prompt" if self.prompts == 1 else f"{self.prompts} prompts"
            return f"Greedy text equals plain decoding, token for token ({self.tokens} tokens, {where})."
        worst = max(self.partings, key=lambda parting: parting.gap)
        where = f"prompt {worst.prompt}, token {worst.position}: logit gap {worst.gap:.2g}"
        if self.passed:
            return f"Greedy text equals plain decoding but for {len(self.partings)} near-tie(s); largest at {where}."
        return f"NOT the target's greedy text: {where}, more than the {self.allowed_gap:g} that rounding explains."


def certify_greedy(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    params: SamplingParams | None = None,
    allowed_gap: float = NEAR_TIE,
) -> GreedyCertificate:
    """Compares `engine` with plain decoding of the same target on every prompt.

    Raises:
        ValueError: parameters that are not greedy.
    """
    params = params or SamplingParams(temperature=0)
    if not params.is_greedy:
        raise ValueError(f"temperature is {params.temperature}; a greedy certificate needs 0")
    plain = Engine(engine.target)
    partings, tokens = [], 0
    for index, prompt in enumerate(prompts):
        runs = [arm.generate(prompt, params, max_new_tokens) for arm in (plain, engine)]
        if any(run.finish_reason == "interrupted" for run in runs):
            raise KeyboardInterrupt
        expected, found = (run.tokens for run in runs)
        tokens += len(expected)
        place = next((i for i, pair in enumerate(zip(expected, found)) if pair[0] != pair[1]), None)
        if place is not None:
            gap = logit_gaps(engine.target, prompt, [*expected[:place], found[place]], params)[place]
            partings.append(Parting(index, place, expected[place], found[place], gap))
        elif len(expected) != len(found):
            raise AssertionError(f"prompt {index}: {len(found)} tokens instead of {len(expected)}, a common prefix")
    return GreedyCertificate(len(prompts), tokens, tuple(partings), allowed_gap)
