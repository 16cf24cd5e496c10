"""The two comparisons of `specdec train compare`: losses at one size, and sizes at one loss."""

from collections.abc import Callable, Mapping
import json
from pathlib import Path
import time
from typing import Any

from jaxtyping import Int
import torch
from torch import Tensor

from specdec_core.hardware import describe_hardware
from specdec_core.models.llama import Llama
from specdec_core.models.llama_folder import load_llama, load_trainable, weights_hash
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.trainable import reader_of
from specdec_core.speed_formulas import best_gamma, speedup
from specdec_core.whole_file import write_whole
from specdec_labs.train import shapes
from specdec_labs.train.commands import Report, RunOptions, check_tokenizer
from specdec_labs.train.defaults import COMPARISON
from specdec_labs.train.distillation import LOSSES
from specdec_labs.train.loop import Outcome, train
from specdec_labs.train.pace import with_steps
from specdec_labs.train.streams import DOMAINS, TOKENIZER, load_streams
from specdec_labs.train.variants import Variant, VariantsTask

LOSS, SIZE = "losses", "sizes"
_CONTEXT, _TIMED, _MOST = 64, 40, 8


def variants_of(what: str) -> dict[str, Variant]:
    """The drafts that are compared. ValueError unless `what` is "losses" or "sizes"."""
    if what == LOSS:
        return {name: Variant(shapes.TINY_DRAFT, name) for name in LOSSES}
    if what == SIZE:
        return {name: Variant(shape) for name, shape in shapes.TINY_SWEEP.items()}
    raise ValueError(f"what is {what!r}; expected {LOSS!r} or {SIZE!r}")


def compare(what: str, options: RunOptions, streams_folder: Path, target: Path, output: Path, report: Report) -> str:
    """Trains the variants for equally many steps, measures them, writes `output`; its table as text.

    Raises:
        ValueError: as `variants_of`; no such target, or one with another tokenizer than the text.
    """
    variants, streams = variants_of(what), load_streams(streams_folder)
    check_tokenizer(target / TOKENIZER, streams_folder / TOKENIZER)
    teacher, digest = load_trainable(target), weights_hash(target)

    def make(settings: Any) -> VariantsTask:
        return VariantsTask(variants, teacher, digest, streams, settings, device=options.place())

    settings = with_steps(options.settings(COMPARISON), options.folder, make, minutes=options.minutes)
    task = make(settings)
    outcome = train(task, settings, options.folder, progress=report)
    drafts = {name: _frozen(task, name) for name in variants}
    costs = relative_costs(load_llama(target), drafts) if what == SIZE else {}
    shares = {name: _parameters(task.draft(name)) / _parameters(teacher) for name in variants}
    rows = [_row(name, variants[name], task, outcome, shares[name], costs.get(name)) for name in variants]
    result = {
        "what": what,
        "target_sha256": digest,
        "target_parameters": _parameters(teacher),
        "steps": len(outcome.curve),
        "tokens_per_step": settings.batch * settings.length,
        "seed": settings.seed,
        "hardware": describe_hardware(),
        "rows": rows,
        "evaluations": outcome.evaluations,
    }
    write_whole(output, json.dumps(result, indent=1) + "\n")
    return table(result)


def relative_costs(target: Llama, drafts: Mapping[str, Llama]) -> dict[str, float]:
    """c of every draft: one step of it / one step of the target, each the quickest of 40, taken in turns."""
    models = {"": target, **drafts}
    tokens = torch.arange(1, min(_CONTEXT, *(model.max_length for model in models.values())))
    steps = {name: _step(model, tokens) for name, model in models.items()}
    best = dict.fromkeys(models, float("inf"))
    for _ in range(_TIMED):
        for name, step in steps.items():
            best[name] = min(best[name], step())
    return {name: best[name] / best[""] for name in drafts}


def _step(model: Llama, tokens: Int[Tensor, " rows"]) -> Callable[[], float]:
    """A function that feeds one token behind `tokens` and takes it back; seconds."""
    cache = model.new_cache(len(tokens) + 1)
    model.forward(tokens, cache=cache, last_only=True)

    def run() -> float:
        start = time.perf_counter()
        model.forward(tokens[-1:], cache=cache)
        seconds = time.perf_counter() - start
        cache.rollback(1)
        return seconds

    return run


def _frozen(task: VariantsTask, name: str) -> Llama:
    module = task.draft(name)
    return llama_from_tensors(module.config, reader_of(module), tied=True)


def _row(
    name: str, variant: Variant, task: VariantsTask, outcome: Outcome, share: float, cost: float | None
) -> dict[str, Any]:
    """What is known of a variant; with its cost also what the formulas say of it.

    `c` is measured; `share` (weights of the draft / of the target) is what c would be where reading weights is all.
    """
    last, figures = outcome.evaluations[-1], {}
    for figure in ("alpha", "greedy_alpha"):
        figures |= {f"{figure}_{domain}": last[f"{name}/{figure}_{domain}"] for domain in DOMAINS}
    row = {"name": name, "loss": variant.loss, "parameters": _parameters(task.draft(name)), "share": share, **figures}
    if cost is None:
        return row
    alpha = sum(figures[f"alpha_{domain}"] for domain in DOMAINS) / len(DOMAINS)
    row |= {"c": cost, "alpha": alpha}
    for label, c in (("", cost), ("_by_share", share)):
        gamma = best_gamma(alpha, c, largest=_MOST)
        at_best = float(speedup(alpha, gamma, c)) if gamma else 1.0
        row |= {f"gamma{label}": gamma, f"predicted{label}": at_best}
        row[f"predicted_at_4{label}"] = float(speedup(alpha, 4, c))
    return row


def table(result: dict[str, Any]) -> str:
    """The rows as a Markdown table."""
    heads = {"name": "draft", "parameters": "weights"}
    heads |= {"alpha_prose": "alpha, prose", "alpha_code": "alpha, code"}
    heads |= {"greedy_alpha_prose": "T = 0, prose", "greedy_alpha_code": "T = 0, code"}
    if result["what"] == SIZE:
        heads |= {"share": "share of the target", "predicted_by_share": "speed-up at c = share"}
        heads |= {"c": "c measured", "gamma": "best gamma", "predicted": "speed-up", "predicted_at_4": "at gamma 4"}
    lines = ["| " + " | ".join(heads.values()) + " |", "|" + " --- |" * len(heads)]
    for row in result["rows"]:
        lines.append("| " + " | ".join(_cell(row[name]) for name in heads) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
