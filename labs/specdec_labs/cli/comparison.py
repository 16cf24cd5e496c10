"""Plain and speculative decoding of one prompt, measured in turn in one process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import statistics
from typing import Any

from specdec_core.engine import Engine
from specdec_core.metrics import speedup, summarize
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams


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

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a trace's settings."""
        return {
            "plain_tokens_per_s": rates(self.plain),
            "speculative_tokens_per_s": rates(self.speculative),
            "speedups": list(self.speedups),
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
    # the first passes of a process are slower; nothing of them is kept
    plain.generate(prompt, params, 2)
    slow: list[Trace] = []
    fast: list[Trace] = []
    for pair in range(repeats):
        for place, (engine, traces) in enumerate(((plain, slow), (speculative, fast))):
            before_run(2 * pair + place + 1)
            generation = engine.generate(prompt, params, max_new_tokens)
            if generation.finish_reason == "interrupted":
                return Comparison(tuple(slow[: len(fast)]), tuple(fast))
            traces.append(generation.trace)
    return Comparison(tuple(slow), tuple(fast))


def rates(traces: Sequence[Trace]) -> list[float]:
    """Tokens a second of each trace, the prompt's pass left out; a trace without a round has none."""
    found = (summarize(trace).tokens_per_s for trace in traces)
    return [rate for rate in found if rate is not None]


def spread(values: Sequence[float], unit: str = "") -> str:
    """The median and, in brackets, the smallest and the largest; "-" for nothing."""
    if not values:
        return "-"
    return f"{statistics.median(values):.2f}{unit} ({min(values):.2f}..{max(values):.2f})"
