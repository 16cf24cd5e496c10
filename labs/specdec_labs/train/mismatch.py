"""A draft that has read only one domain, on both: what its acceptance becomes where it has read nothing."""

from collections.abc import Mapping
import json
from pathlib import Path
import random
from typing import Any

from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.hardware import describe_hardware
from specdec_core.metrics import summarize
from specdec_core.models.llama import Llama
from specdec_core.models.llama_folder import load_llama, weights_hash
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams
from specdec_core.whole_file import write_whole
from specdec_labs.data.sources import Domain
from specdec_labs.train.streams import DOMAINS, Streams, fixed_windows, load_streams

COMMAND = "specdec train mismatch --json docs/results/training-mismatch.json"
_PROMPT, _NEW, _GAMMA, _RESAMPLES = 48, 48, 4, 1000


def measure_mismatch(
    target: Path, drafts: Mapping[str, Path], streams_folder: Path, output: Path, *, prompts: int = 16
) -> list[dict[str, Any]]:
    """Rows by draft, domain and temperature, also written to `output`.

    `alpha` is accepted / tested and `tokens_per_round` what a round emits, each with a 95 % interval over prompts.
    Prompts are held-out text, each with noise of its own; the drafts share that of a prompt. No time is taken: what a
    draft step may cost follows from the tokens per round (`page.mismatch`).
    """
    model, streams = load_llama(target), load_streams(streams_folder)
    rows = []
    for name, folder in drafts.items():
        draft = load_llama(folder)
        for first, domain in zip(range(0, prompts * len(DOMAINS), prompts), DOMAINS):
            for temperature in (0.0, 1.0):
                found = _measure(model, draft, _prompts(streams, domain, prompts), temperature, first)
                rows.append({"draft": name, "domain": domain, "T": temperature, **found})
    result = {
        "command": COMMAND,
        "target_sha256": weights_hash(target),
        "drafts": {name: weights_hash(folder) for name, folder in drafts.items()},
        "prompts": prompts,
        "prompt_tokens": _PROMPT,
        "new_tokens": _NEW,
        "gamma": _GAMMA,
        "hardware": describe_hardware(),
        "rows": rows,
    }
    write_whole(output, json.dumps(result, indent=1) + "\n")
    return rows


def _prompts(streams: Streams, domain: Domain, count: int) -> list[list[int]]:
    start = streams.tokenizer.start_id
    windows = fixed_windows(streams.ids["held_out", domain], count=count, length=_PROMPT - 1)
    return [[start, *window] for window in windows.tolist()]


def _measure(target: Llama, draft: Llama, prompts: list[list[int]], temperature: float, first: int) -> dict[str, Any]:
    """The figures of all prompts, whose requests are numbered from `first`."""
    params = SamplingParams(temperature=temperature, seed=5)
    engine = Engine(target, ModelDrafter(draft), "chain", _GAMMA)
    # the interval takes prompts for independent, so no two may read the same noise
    traces = [engine.generate(prompt, params, _NEW, request=n).trace for n, prompt in enumerate(prompts, start=first)]
    figures, (alphas, lengths) = summarize(traces), _intervals(traces)
    return {
        "alpha": figures.alpha,
        "low": alphas[0],
        "high": alphas[1],
        "tokens_per_round": figures.mean_acceptance_length,
        "tokens_low": lengths[0],
        "tokens_high": lengths[1],
    }


def _intervals(traces: list[Trace]) -> list[tuple[float, float]]:
    """Percentile bootstrap over prompts of alpha and of tokens per round."""
    generator = random.Random(0)
    drawn = [summarize(generator.choices(traces, k=len(traces))) for _ in range(_RESAMPLES)]
    intervals = []
    for values in ([each.alpha for each in drawn], [each.mean_acceptance_length for each in drawn]):
        known = sorted(value for value in values if value is not None)
        intervals.append((known[int(0.025 * len(known))], known[int(0.975 * len(known)) - 1]))
    return intervals
