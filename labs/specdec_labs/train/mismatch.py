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

    `alpha` is accepted / tested with a 95 % interval over prompts. Prompts are held-out text. No time is taken: what a
    draft step may cost follows from the tokens per round (`page.mismatch`).
    """
    model, streams = load_llama(target), load_streams(streams_folder)
    rows = []
    for name, folder in drafts.items():
        draft = load_llama(folder)
        for domain in DOMAINS:
            for temperature in (0.0, 1.0):
                found = _measure(model, draft, _prompts(streams, domain, prompts), temperature)
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


def _measure(target: Llama, draft: Llama, prompts: list[list[int]], temperature: float) -> dict[str, Any]:
    params = SamplingParams(temperature=temperature, seed=5)
    engine = Engine(target, ModelDrafter(draft), "chain", _GAMMA)
    traces = [engine.generate(prompt, params, _NEW).trace for prompt in prompts]
    figures = summarize(traces)
    low, high = _interval(traces)
    return {
        "alpha": figures.alpha,
        "low": low,
        "high": high,
        "tokens_per_round": figures.mean_acceptance_length,
    }


def _interval(traces: list[Trace]) -> tuple[float, float]:
    """Percentile bootstrap of alpha over prompts."""
    generator, found = random.Random(0), []
    for _ in range(_RESAMPLES):
        alpha = summarize(generator.choices(traces, k=len(traces))).alpha
        if alpha is not None:
            found.append(alpha)
    found.sort()
    return found[int(0.025 * len(found))], found[int(0.975 * len(found)) - 1]
