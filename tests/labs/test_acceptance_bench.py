"""The acceptance bench on a tiny target: recording, resuming, rows, CSV, tables and pictures."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_core.coins.noise import RoundCoins
from specdec_core.cost_curve import CostCurve
from specdec_core.drafters import NGramDrafter
from specdec_core.engine import Engine
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.trainable import TrainableLlama, reader_of
from specdec_core.warp import SamplingParams
from specdec_labs.acceptance.counters import CountOf, by_model, by_replay
from specdec_labs.acceptance.counts import Counts
from specdec_labs.acceptance.families import Family, smollm2_families
from specdec_labs.acceptance.measure import Cell, cell_name, measure
from specdec_labs.acceptance.page import aims, by_position, by_task, claims, overview, sized, trees, vectors
from specdec_labs.acceptance.prompts import SETS, BenchPrompt, bench_prompts
from specdec_labs.acceptance.record import record_texts
from specdec_labs.acceptance.recordings import Recordings
from specdec_labs.acceptance.result import GROUPS, csv_of, result_of, rows_of
from specdec_labs.acceptance.tree_bench import size_by_cost
from specdec_labs.cli.bench_acceptance import BenchAcceptanceOptions, chosen_families, corpus_answers, read_curve

CONFIG = LlamaConfig(vocab_size=64, width=32, ffn_width=48, layers=2, heads=4, kv_heads=2, head_dim=8, max_length=120)
STOP = 9
PROMPTS = [
    *(BenchPrompt("mt_bench", number, f"question {number}") for number in range(3)),
    BenchPrompt("chat", 10, "to choose with", tuning=True),
    *(BenchPrompt("chat", number, f"chat {number}") for number in range(11, 14)),
]


class Letters:
    """A tokenizer of a few ids, with a chat template of two marks around the words."""

    vocab_size, eos_ids = 64, (STOP,)

    def encode(self, text: str) -> list[int]:
        return [10 + ord(letter) % 50 for letter in text]

    def chat(self, prompt: str, system: str | None = None) -> list[int]:
        return [1, *self.encode(prompt), STOP, 2]


@pytest.fixture(scope="module")
def target() -> Llama:
    module = TrainableLlama(CONFIG, seed=4)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.mul_(9)
    return llama_from_tensors(CONFIG, reader_of(module), tied=True)


def recorded(folder: Path, target: Llama, **changed: Any) -> Recordings:
    tokenizer: Any = Letters()
    settings: dict[str, Any] = {"target_sha256": "ab", "max_new_tokens": 24, "slots": 3, **changed}
    prompts = settings.pop("prompts", PROMPTS)
    texts = record_texts(folder / "texts", target, tokenizer, prompts, **settings)
    return Recordings(texts, target, (STOP,), folder / "states")


@pytest.fixture(scope="module")
def recordings(target: Llama, tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    return recorded(tmp_path_factory.mktemp("recorded"), target)


def test_greedy_texts_are_the_engines(recordings: Recordings, target: Llama) -> None:
    params = SamplingParams(temperature=0, stop=(STOP,))
    for text in recordings.texts[: len(PROMPTS)]:
        assert text.tokens[: text.prompt_length] == tuple(Letters().chat(text.prompt.text))
        assert text.answer == Engine(target).generate(text.tokens[: text.prompt_length], params, 24).tokens
    assert [text.temperature for text in recordings.texts] == [0.0] * 7 + [1.0] * 7
    assert [text.prompt for text in recordings.texts[7:]] == PROMPTS
    assert any(a.answer != b.answer for a, b in zip(recordings.texts[:7], recordings.texts[7:]))
    assert recordings.near_ties(range(7)) == (0, sum(len(text.answer) for text in recordings.texts[:7]))


def test_recording_goes_on_and_refuses_to_mix(tmp_path: Path, target: Llama) -> None:
    first = recorded(tmp_path, target, prompts=PROMPTS[:2])
    (shard,) = (tmp_path / "texts").glob("shard-*.jsonl")
    whole = shard.read_text()
    shard.write_text("".join(whole.splitlines(keepends=True)[:2]))
    again = recorded(tmp_path, target, prompts=PROMPTS[:2])
    assert [text.tokens for text in again.texts] == [text.tokens for text in first.texts]
    with pytest.raises(ValueError, match="target_sha256 is 'ab' there and 'cd' here"):
        shard.write_text("")
        recorded(tmp_path, target, prompts=PROMPTS[:2], target_sha256="cd")


def test_states_are_kept_and_made_anew_for_another_text(recordings: Recordings, target: Llama) -> None:
    states = recordings.states(0)
    assert states.shape == (len(recordings.texts[0].tokens) - 1, CONFIG.width)
    folder = recordings._folder
    other = Recordings([recordings.texts[1]], target, (STOP,), folder)
    assert len(other.states(0)) == len(recordings.texts[1].tokens) - 1
    assert torch.equal(recordings.states(0), states)


def test_which_texts_are_chosen(recordings: Recordings) -> None:
    texts = recordings.texts

    def numbers(**choice: Any) -> list[int]:
        return [texts[index].prompt.number for index in recordings.chosen(temperature=0, **choice)]

    assert recordings.tasks() == ["mt_bench", "chat"]
    assert numbers(task="chat") == [11, 12, 13] and numbers(tuning=True) == [10]
    assert numbers(every=2) == [0, 2, 11, 13] and numbers(every=2, first=1) == [1, 12]


def families(target: Llama) -> list[Family]:
    def lookup(recordings: Recordings) -> CountOf:
        return by_replay(recordings, NGramDrafter(), 4, 4, reads_states=False)

    def shallow(recordings: Recordings) -> CountOf:
        return by_model(recordings, target.shallow([0]), 3)

    return [Family("ngram", "lookup", 4, 4, True, lookup), Family("layers", "one layer", 3, 3, False, shallow, every=2)]


def test_each_text_has_noise_of_its_own(recordings: Recordings, target: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replayed and computed rounds of a text read one request's coins, of another text another's."""
    asked: set[tuple[int, int]] = set()
    init = RoundCoins.__init__

    def noted(self: RoundCoins, seed: int, request: int, length: int) -> None:
        asked.add((seed, request))
        init(self, seed, request, length)

    monkeypatch.setattr(RoundCoins, "__init__", noted)
    sampled = [index for index, text in enumerate(recordings.texts) if text.temperature > 0]
    computed, replayed = (
        by_model(recordings, target, 3),
        by_replay(recordings, NGramDrafter(), 3, 3, reads_states=False),
    )
    assert len(sampled) > 3
    for index in sampled:
        asked.clear()
        computed(index)
        assert asked == {(0, index)}
        replayed(index)
        # a copy is judged without noise; whatever seed its coins have, they are this request's
        assert {request for _, request in asked} == {index}


def test_cells_are_measured_once(recordings: Recordings, target: Llama, tmp_path: Path) -> None:
    told: list[str] = []
    cells = measure(families(target), recordings, tmp_path, progress=told.append)
    assert len(told) == 8 and told[0] == "ngram: mt_bench, T = 0"
    assert [len(cells["ngram"][cell_name("chat", t)]) for t in (0.0, 1.0)] == [3, 1]
    assert [row[0] for row in cells["layers"]["mt_bench, T = 0"]] == [0, 2]

    def broken(recordings: Recordings) -> Any:
        raise AssertionError("measured again")

    held = [
        Family(f.name, f.title, f.budget, f.depth, f.deterministic, broken, every=f.every) for f in families(target)
    ]
    assert measure(held, recordings, tmp_path) == cells
    # a cell that was lost is measured alone; another size is another drafter
    path = tmp_path / "layers.json"
    data = json.loads(path.read_text())
    del data["cells"]["chat, T = 1"]
    path.write_text(json.dumps(data))
    told.clear()
    assert measure(families(target), recordings, tmp_path, progress=told.append) == cells
    assert told == ["layers: chat, T = 1"]
    with pytest.raises(AssertionError, match="measured again"):
        measure([Family("ngram", "lookup", 9, 9, True, broken)], recordings, tmp_path)


def made_result() -> dict[str, Any]:
    """Two drafters with known counts; the second at temperature 0 alone and on one task."""
    first: dict[str, Cell] = {
        "mt_bench, T = 0": [[1, 10, 20, 40, 10, 15, 10, 10, 6, 10, 6, 4], [2, 10, 30, 40, 20, 25, 10, 10, 9, 10, 9, 8]],
        "summary, T = 0": [[5, 4, 12, 16, 8, 10, 4, 4, 4]],
        "mt_bench, T = 1": [[1, 10, 15, 40, 5, 15, 10, 10, 3]],
    }
    second: dict[str, Cell] = {"mt_bench, T = 0": [[1, 10, 11, 10, 1, 10], [2, 0, 0, 0, 0, 0]]}
    known = Family("eagle-tree", "EAGLE-2, tree of 16", 16, 5, True, lambda recordings: lambda index: None)  # type: ignore
    other = Family("draft", "distilled draft, K = 4", 4, 4, False, lambda recordings: lambda index: None)  # type: ignore
    shape = {"every_place": 1.85, "expected": 2.0, "expected_by_depth": 1.9, "measured": 1.8, "low": 1.7, "high": 1.9}
    drafter = {"name": "eagle", "title": "EAGLE head", "vector": [0.5, 0.2], "by_depth": [[0.5, 0.2], [0.4, 0.1]]}
    shapes = {"shapes": [{"kind": "chain", **shape}], "small": {"kind": "sequoia", **shape}}
    compared = {"nodes": 16, "prompts": 3, "drafters": [{**drafter, **shapes}]}
    facts = {"max_new_tokens": 96, "parameters": {"medusa": 10, "eagle": 30}, "target_parameters": 1000}
    return result_of([known, other], {"eagle-tree": first, "draft": second}, facts, compared)


def test_rows_and_csv() -> None:
    rows = {(row.family, row.group, row.temperature): row for row in rows_of(made_result())}
    everything = rows["eagle-tree", "all", 0.0]
    assert (everything.prompts, everything.mean) == (3, 62 / 24)
    assert everything.low is not None and everything.low < 62 / 24 < everything.high  # type: ignore[operator]
    assert rows["eagle-tree", "own", 0.0].mean == rows["eagle-tree", "copying", 0.0].mean == 3.0
    assert rows["eagle-tree", "own", 0.0].low is None, "one prompt has no interval"
    assert rows["draft", "all", 0.0].prompts == 1, "a prompt without a round is left out"
    assert ("draft", "all", 1.0) not in rows
    lines = list(csv.DictReader(csv_of(list(rows.values())).splitlines()))
    line = next(line for line in lines if line["drafter"] == "eagle-tree" and line["group"] == "mt_bench")
    assert (line["tokens_per_round"], line["survival_1"], line["conditional_2"]) == ("2.5000", "0.7500", "0.8000")
    assert line["drafted_per_round"] == "4.0000"
    with pytest.raises(ValueError, match="expected 'specdec.acceptance', 2"):
        rows_of({**made_result(), "version": 1})


def test_tables_say_what_the_result_holds() -> None:
    result = json.loads(json.dumps(made_result()))
    assert "| EAGLE-2, tree of 16 | one-hot | 3 | 2.50 (" in overview(result)
    assert "| 3.00 |" in by_task(result) and "3.00" in overview(result)
    assert "| EAGLE-2, tree of 16 | 0 | 0.76 | 0.79 | 0.60 | - | - |" in by_position(result)
    assert "| EAGLE-2, tree of 16 | all prompts | 2.8 | 2.58 (" in aims(result) and "missed" in aims(result)
    assert "| EAGLE head | chain | 2.00 | 1.90 | 1.85 | 1.80 (1.70 to 1.90) | -10.0 % |" in trees(result)
    assert "| EAGLE head | 2 | 0.40 | 0.10 |" in vectors(result)
    assert "| EAGLE head 1.80 |" in claims(result) and "| 1.0 % / 3.0 % |" in claims(result)
    assert "| 0.10 / - |" in claims(result), "alpha of the draft at T = 0; it did not run at 1"


def test_a_tree_is_sized_by_measured_costs() -> None:
    """Flat passes and a cheap draft want a large tree; dear rows want a small one, a dear draft none at all."""
    trees_of = {"drafters": [{"name": "eagle", "title": "EAGLE head", "vector": [0.6, 0.15, 0.05, 0.02]}]}
    rows = (1, 9, 17, 33)

    def curve(per_row: float, draft_s: float) -> dict[str, Any]:
        grid = (tuple(0.1 + per_row * (count - 1) for count in rows),)
        passes = CostCurve("target", "measured", rows, (256,), grid, grid)
        cost = {"drafter": "eagle", "gamma": 4, "rounds": 9, "draft_s": draft_s, "host_s": 0.0}
        return {"curves": [passes.to_dict()], "drafting": [cost, {**cost, "drafter": "ngram"}]}

    (cheap,), (dear,), (hopeless,) = (
        size_by_cost(trees_of, curve(*costs)) for costs in ((0.0, 0.004), (0.03, 0.004), (0.05, 4.0))
    )
    assert cheap["nodes"] == 32 and cheap["depth"] > 4 and cheap["predicted_speedup"] > 2
    assert 0 < dear["nodes"] < 6
    assert (hopeless["nodes"], hopeless["depth"], hopeless["predicted_speedup"]) == (0, 0, 1.0)
    assert "| EAGLE head | 32 |" in sized({"trees": {**trees_of, "sized": [cheap]}})
    assert size_by_cost(trees_of, {**curve(0, 1), "drafting": []}) == []


def test_a_curve_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    path.write_text('{"curves": []}')
    for wrong in (path, tmp_path / "missing.json"):
        with pytest.raises(ValueError, match="give a file that `specdec bench curve --json` wrote"):
            read_curve(wrong)


def test_pictures_hold_the_numbers(tmp_path: Path) -> None:
    from specdec_labs.plots.acceptance import acceptance_figure, trees_figure, write_acceptance_html

    result = made_result()
    means = [y for trace in acceptance_figure(result).data if trace.mode == "markers" for y in trace.x]
    assert 62 / 24 in means
    lines = [list(trace.y) for trace in acceptance_figure(result).data if trace.mode == "lines+markers"]
    assert [19 / 24, 0.8] in lines
    assert [trace.y[0] for trace in trees_figure(result["trees"]).data if trace.mode == "markers"] == [1.8]
    path = tmp_path / "page.html"
    write_acceptance_html(path, result)
    assert "Trees of equal size" in path.read_text()


def test_the_bench_prompts() -> None:
    prompts = bench_prompts()
    own = [prompt for prompt in prompts if prompt.task not in ("mt_bench", "humaneval")]
    assert sum(prompt.tuning for prompt in own) == 18 and len(own) == 90
    assert not any(prompt.tuning for prompt in prompts if prompt not in own)
    counts = {task: sum(prompt.task == task for prompt in prompts) for task in SETS}
    assert counts["mt_bench"] in (0, 80) and counts["humaneval"] in (0, 40)
    assert set(GROUPS["all"]) == set(SETS)


def test_which_families_there_are(tmp_path: Path) -> None:
    names = [family.name for family in smollm2_families([[1, 2]])]
    assert len(names) == len(set(names)) and "suffix-corpus" in names
    assert [family.name for family in chosen_families(["int4", "ngram"], [])] == ["ngram", "int4"]
    with pytest.raises(ValueError, match="only is nothing; expected some of ngram, "):
        chosen_families(["nothing"], [])
    with pytest.raises(ValueError, match="the corpus is missing: make it with `specdec data generate`"):
        chosen_families(["suffix-corpus"], [])
    assert corpus_answers(tmp_path / "none", 100) == []
    assert BenchAcceptanceOptions().corpus_tokens == 300_000


def test_a_corpus_is_cut_at_a_whole_record(recordings: Recordings) -> None:
    texts = next(iter(recordings._folder.parent.glob("texts"))) if recordings._folder.parent.exists() else Path()
    found = corpus_answers(texts, 60)
    assert 0 < sum(map(len, found)) <= 60 and all(isinstance(tokens, tuple) for tokens in found)


def test_counts_add_up() -> None:
    left = Counts(1, 3, 4, 2, 3, ((1, 1, 1), (1, 1, 1)))
    assert sum([left, left], Counts()) == Counts(2, 6, 8, 4, 6, ((2, 2, 2), (2, 2, 2)))
    assert (left + Counts(1, 1)).mean_length == 2.0
    assert Counts().mean_length is None and Counts().alpha is None and left.survival == (1.0, 1.0)
