"""Plain and speculative decoding of one prompt, measured in turn in one process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import statistics
from typing import Any

from specdec_core.engine import Engine
from specdec_core.metrics import speedup, summarize
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams
from specdec_labs.impossible import Finding, Speedup, findings_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs of the same prompt, the i-th plain one followed at once by the i-th speculative one."""

    plain: tuple[Trace, ...]
    speculative: tuple[Trace, ...]

    @property
    def speedups(self) -> tuple[float, ...]:
        """Plain / speculative seconds per token of each pair of runs; runs without a round give none."""
        ratios = (speedup([plain], [fast]) for plain, fast in zip(self.plain, self.speculative))
        return tuple(ratio for ratio in ratios if ratio is not None)

    @property
    def judged(self) -> Speedup:
        """The median of the paired speed-ups with their range, if it can be."""
        ratios = self.speedups
        return Speedup.of_traces(self.plain, self.speculative, statistics.median(ratios) if ratios else None)

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with the measurement."""
        return findings_of({"speed-up": self.judged.problem})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a trace's settings."""
        return {
            "plain_tokens_per_s": rates(self.plain),
            "speculative_tokens_per_s": rates(self.speculative),
            "speedups": list(self.speedups),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def compare(
    plain: Engine,
    speculative: Engine,
    prompt: Sequence[int],
    params: SamplingParams,
    max_new_tokens: int,
    repeats: int,
    before_run: Callable[[int], None],
) -> Comparison:
    """`repeats` pairs of runs, plain first; after Ctrl-C the pairs that were finished.

    Interleaving lets a slow spell of the machine hit both arms. `before_run` is called with the run's number.
    """
    slow: list[Trace] = []
    fast: list[Trace] = []
    try:
        # the first passes of a process are slower; nothing of them is kept
        _run(plain, prompt, params, 2)
        for pair in range(repeats):
            for place, (engine, traces) in enumerate(((plain, slow), (speculative, fast))):
                before_run(2 * pair + place + 1)
                traces.append(_run(engine, prompt, params, max_new_tokens))
    except KeyboardInterrupt:
        pass
    return Comparison(tuple(slow[: len(fast)]), tuple(fast))


def _run(engine: Engine, prompt: Sequence[int], params: SamplingParams, max_new_tokens: int) -> Trace:
    generation = engine.generate(prompt, params, max_new_tokens)
    if generation.finish_reason == "interrupted":
        raise KeyboardInterrupt
    return generation.trace


def rates(traces: Sequence[Trace]) -> list[float]:
    """Tokens a second of each trace, the prompt's pass left out; a trace without a round has none."""
    found = (summarize(trace).tokens_per_s for trace in traces)
    return [rate for rate in found if rate is not None]
